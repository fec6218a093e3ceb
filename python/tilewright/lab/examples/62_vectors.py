# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 3. Vectors
# group: lessons
# shape: 576x576x576
"""Lesson 3: vectors, so that one instruction multiplies and adds 8 or 16 elements.

Before, each step has one multiply-add of two numbers. After, it has one element of A for a vector of L columns:

    in the tile: for i: for j by L: for k:
      C[i, j:j+L] += A[i, k] * B[k, j:j+L]

C is read and written in each step: three accesses to memory for one multiply-add.
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps

TILE = 64


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Cuts tiles down to a row of one vector, and makes vectors of that."""
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        tile = steps.match(script.root, "linalg.matmul")
        for cut in ([TILE, 0, 0], [0, TILE, 0], [0, 0, TILE], [1, 0, 0], [0, lanes, 0], [0, 0, 1]):
            tile, _loop = steps.tile(tile, cut)
        steps.vectorize(tile)
    return script.module
