# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scalable`: cache blocking, with register tiles and panels as wide as the machine's vectors, whatever they are."""

from __future__ import annotations

from tilewright.dims import most
from tilewright.mlir import ir
from tilewright.schedules import batch_loops, scalable_blocks, steps
from tilewright.schedules.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_PRODUCT = "scalable"
MARK = f"{steps.MARK}{_PRODUCT}"
"""The attribute of the product of blocks that `lowering.scalable` writes out."""


def scalable(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    nr of `blocking` are the columns of a register tile for vectors of 128 bits; of a machine with longer ones, which is not known
    while compiling, a tile has as many times more, NR. mc, nc and kc are as in strategy `packed`.

    Before: ``C += A * B``. After::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for ic in 0..M step mc:
              C[ic:ic+mc, jc:jc+nc] += A[ic:ic+mc, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]      (marked)

    and, once it is lowered, with every tile whole in registers, and read and written under predicates::

        for jc, pc: packed_b[nc / NR][kc][NR] = B[pc:pc+kc, jc:jc+nc]
          for ic: packed_a[mc / mr][kc][mr] = A[ic:ic+mc, pc:pc+kc]
            for jr in 0..nc step NR: for ir in 0..mc step mr:
              acc = 0 if pc == 0 else C[ic+ir:, jc+jr:]
              for k in 0..kc step t: acc += packed_a[ir / mr][k:k+t] * packed_b[jr / NR][k:k+t]
              C[ic+ir:, jc+jr:] = acc

    With something done to the sums before they are written, the loop pc is inside: a block of sums is complete in the cache,
    and what follows it is done there. Of a batch, loops over its entries are around that, those over entries that share one B
    inside of jc and pc.

    Raises:
        ScheduleError: The target has no such products, the strategy does not compute `spec`, or a register tile of these sizes
            is no whole number of registers.
    """
    scalable_blocks.require(spec, target, blocking)
    p = blocking
    columns, depth, rows = [0, p.nc, 0], [0, 0, p.kc], [p.mc, 0, 0]
    deep = p.kc < most(spec.k)
    around = [columns] * (p.nc < most(spec.n)) + [depth] * (deep and not spec.fused)
    inside = [rows] * (p.mc < most(spec.m))
    if not batch_loops.shared_axes(spec):
        around, inside = [], around + inside
    with steps.script() as script:
        steps.record(script.functions, scalable, p, target)
        batch_loops.take_apart(script, spec, around)
        tile = batch_loops.match_result(script, spec)
        for sizes in inside:
            tile, _ = steps.tile_result(tile, sizes, spec)
        batch_loops.resolve_extents(script.functions, spec)
        steps.merge_slices(script.functions)
        product = steps.match_product(script.functions, spec)
        if deep and spec.fused:
            product, _ = steps.tile(product, depth)
        steps.mark(product, _PRODUCT)
        steps.clean(script.functions)
    return script.module
