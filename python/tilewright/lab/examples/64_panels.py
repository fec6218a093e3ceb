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
          acc = C[i+r:i+r+6, j:j+NR], or 0 where k is 0
          for p in 0..KC: acc += packed_a[r / 6][:, p] * packed_b[j / NR][p]
          C[i+r:i+r+6, j:j+NR] = acc

The block of A takes half of the second cache, so that B and C have room to pass. That is the nest of the strategy `packed`, which chooses
more of its sizes by the caches, and pads what is short.
"""

import tilewright as tw
from tilewright.mlir import ir
from tilewright.schedules import steps

ROWS = 6


def _cut(extent: int, most: int, step: int = 1) -> int:
    """The largest multiple of `step` up to `most` and half of an extent, one that divides the extent if that is not much less."""
    most = max(step, min(most, extent // 2) // step * step)
    whole = max((each for each in range(step, most + 1, step) if extent % each == 0), default=0)
    return whole if 2 * whole >= most else most


def schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: tw.Blocking) -> ir.Module:
    """Copies blocks of A and B into panels, and multiplies these as in lesson 4."""
    lanes = target.lanes(spec.acc_type)
    columns = (4 if target.vector_registers >= 32 else 2) * lanes
    depth = _cut(spec.k, 576)
    rows = _cut(spec.m, target.l2.bytes // 2 // (depth * spec.a_type.bytes), ROWS)
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
        if spec.beta == 0:
            steps.start_from_zero(script.functions)
    return script.module
