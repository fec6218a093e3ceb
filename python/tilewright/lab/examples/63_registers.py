# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 4. A tile of C in registers
# group: lessons
# shape: 576x576x576
"""Lesson 4: a register tile, so that most steps touch no memory.

Before, C passes between memory and a register in each step. After, 6 rows of V vectors of C are in registers while the loop over k runs,
and each step loads V vectors of B and 6 elements of A for 6 V multiply-adds:

    for k by KC: for j by V*L: for i by 6:
      acc = C[i:i+6, j:j+V*L]
      for p in k..k+KC: acc += A[i:i+6, p] * B[p, j:j+V*L]
      C[i:i+6, j:j+V*L] = acc

Other numbers of rows: few wait for each other's sums, too many do not fit the registers.
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import knobs


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Keeps a tile of C in registers: 24 vectors of 32, or 12 of 16."""
    columns = (4 if target.vector_registers >= 32 else 2) * target.lanes(spec.acc_type)
    depth = min(192, spec.k)
    with steps.script() as script:
        rows = knobs.knob("rows", [1, 2, 3, 4, 6, 8, 12], 6)
        tile = steps.match(script.root, "linalg.matmul")
        for cut in ([0, 0, depth], [0, columns, 0], [rows, 0, 0], [0, 0, 1]):
            tile, _loop = steps.tile(tile, cut)
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
    return script.module
