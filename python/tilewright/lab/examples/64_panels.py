# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# title: 5. Panels
# group: lessons
# shape: 576x576x576
"""Lesson 5: panels, so that the innermost loop reads memory in order.

Before, rows of a tile are a whole row of the matrix apart: each is in another page, and in few sets of the cache. After, blocks of A and
B are copied once, in the order in which they are read:

    for k by KC:
      packed_b[j / NR][p][0:NR] = B[k+p, j:j+NR] for all j
      for i by MC:
        packed_a[r / 6][0:6][p] = A[i+r:i+r+6, k+p]
        for j by NR: for r in 0..MC by 6:
          acc = C[i+r:i+r+6, j:j+NR]
          for p in 0..KC: acc += packed_a[r / 6][:, p] * packed_b[j / NR][p]
          C[i+r:i+r+6, j:j+NR] = acc

That is the nest of the strategy `packed`, which chooses its sizes by the caches, pads what is short, and starts from zero in place of C.
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps

ROWS = 6


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Copies blocks of A and B into panels, and multiplies these as in lesson 4."""
    lanes = target.lanes(spec.acc_type)
    columns = (4 if target.vector_registers >= 32 else 2) * lanes
    rows, depth = min(288, spec.m // 2), min(384, spec.k // 2)
    with steps.script() as script:
        tile = steps.match(script.root, "linalg.matmul")
        for cut in ([0, 0, depth], [rows, 0, 0], [0, columns, 0], [ROWS, 0, 0]):
            tile, _loop = steps.tile(tile, cut)
        steps.merge_slices(script.functions)
        tile = steps.pad(tile, spec, sizes=[ROWS, columns, depth], pack=[True, True, False])
        panels = {name: steps.producer(tile, operand) for operand, name in enumerate("ab")}
        for name, panel in panels.items():
            steps.mark(panel, name)
        steps.hoist_packing(panels["a"], loops=2)  # over both loops inside of that over rows
        steps.hoist_packing(panels["b"], loops=3)
        steps.clean(script.functions)
        for name in panels:
            steps.vectorize_packing(steps.match_marked(script.functions, name), lanes)
        tile, _loop = steps.tile(steps.match(script.functions, "linalg.matmul"), [0, 0, 1])
        steps.vectorize(tile)
        steps.keep_accumulators(script.functions, looped=True)
    return script.module
