# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cache blocks around one product of blocks that carries a decision: how it is written out on scalable vectors."""

from __future__ import annotations

from types import FunctionType

from tilewright.dims import Dim, most
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.decisions import Decision
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.steps import batch_loops
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def decided_blocks(
    strategy: FunctionType, spec: MatmulSpec, target: Target, blocking: Blocking, decision: Decision
) -> ir.Module:
    """The schedule of `strategy`: nc, kc and mc of `blocking`, and the product inside with `decision`.

    Before: ``C += A * B``. After::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for ic in 0..M step mc:
              C[ic:ic+mc, jc:jc+nc] += A[ic:ic+mc, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]      (decided)

    With something done to the sums before they are written, the loop pc is inside. Of a batch, loops over its entries are around
    that, those over entries that share one B inside of jc and pc. Needs an active `ir.Context`.
    """
    p = blocking
    columns, depth, rows = [0, p.nc, 0], [0, 0, p.kc], [p.mc, 0, 0]
    deep = p.kc < most(spec.k)
    # Sums that wait for the next block of K do so in scratch memory, of a size that a dynamic extent must not decide.
    waits = deep and spec.fused
    around = [columns] * (p.nc < most(spec.n) or (waits and isinstance(spec.n, Dim))) + [depth] * (
        deep and not spec.fused
    )
    inside = [rows] * (p.mc < most(spec.m) or (waits and isinstance(spec.m, Dim)))
    if not batch_loops.shared_axes(spec):
        around, inside = [], around + inside
    with steps.script() as script:
        steps.record(script.functions, strategy, p, target)
        batch_loops.take_apart(script, spec, around)
        tile = batch_loops.match_result(script, spec)
        for sizes in inside:
            tile, _ = steps.tile_result(tile, sizes, spec)
        batch_loops.resolve_extents(script.functions, spec)
        steps.merge_slices(script.functions)
        product = steps.match_product(script.functions, spec)
        if waits:
            product, _ = steps.tile(product, depth)
        steps.decide(product, decision)
        steps.clean(script.functions)
    return script.module
