# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 1. Loops
# group: lessons
# shape: 576x576x576
"""Lesson 1: what the payload says, and no more, as loops over elements.

What is compiled:

    for i in 0..M: for j in 0..N: for k in 0..K:
      C[i, j] += A[i, k] * B[k, j]
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Finds the product, and leaves it as it is."""
    with steps.script() as script:
        steps.match(script.root, "linalg.matmul")
    return script.module
