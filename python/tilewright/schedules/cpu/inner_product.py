# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `inner_product`: vectors along K, for few rows by a B that is stored transposed, and for few columns.

Such a product reads its larger operand once and does little with it, and only along K do whole vectors of both lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.dims import MAX_EXTENT, Dim, divided_by, most
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.cpu import unpacked
from tilewright.schedules.models import code_tables, far_columns, few_columns, space
from tilewright.schedules.models.blocking import Blocking, row_gap
from tilewright.schedules.steps import along_k, batch_loops, knobs, split_k
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MASKED = 2
"""Registers of indices that a mask is compared with, at most, where every step over a dynamic K is masked, so that the last one needs no
code of its own: in f32 12 KB less, and as fast. Bytes need four, and 16 x 1024 x 1024 in u8 by i8 ran at 0.54 of static code (Zen 5).

One row or column reads the other matrix once, and loads under a mask bring less of it: in f32 4096 x 4096, from memory, 24 GB/s masked
and 36 without, 2048 x 2048, from L3, 52 and 77 (Zen 5)."""


def inner_product(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Each sum of a register tile has a vector of partial sums, which are added up after the last step over K. The last rows and
    columns, where the tile does not divide the extent, are tiles of their own; the last elements of K are read under a mask.
    Columns that are a matrix's are copied first, because their elements lie a row apart.

    Before: ``C += A * B``. After, with mr, nr of `blocking`, L the lanes of a register, and D the elements that one lane of
    the target's instruction for these types takes up at once::

        for jr in 0..N step nr:
          for ir in 0..M step mr:
            partial[mr][nr][L] = 0
            for k in 0..K step L * D:
              partial += A[ir:ir+mr, k:k+L*D] * B[k:k+L*D, jr:jr+nr]
            C[ir:ir+mr, jr:jr+nr] += sum of partial over L

    Where `far_columns` says so, the nr columns of a tile are N/nr apart. Of few columns, rows are the outer loop: A is read once. With
    `blocking.order` the loops are the other way round.
    """
    if not spec.b_transposed and MAX_EXTENT in (most(spec.n), most(spec.k)):
        raise ScheduleError(
            f"{spec} has columns of B of any number or length",
            where="strategy inner_product",
            expected="an N and a K that are known or bounded, of which a copy is made, or a B that is stored transposed",
            remedy="Say how large they get, as k=tw.Dim(max=65536), or use strategy unpacked or packed",
        )
    lanes = target.lanes(spec.acc_type)
    with steps.script() as script:
        functions = script.functions
        steps.record(functions, inner_product, blocking, target)
        spec, p = split_k.take_apart(script, spec, blocking, lanes)
        staged = spec.b_packed or not spec.b_transposed
        few = few_columns.pays(spec, target) or (staged and isinstance(spec.n, Dim))
        if few and spec.dynamic:
            steps.prefetch_all(functions)
        dot = target.dot_along_k(spec.a_type.name, spec.b_type.name)
        table = code_tables.table(spec, target)
        step = lanes * (1 if dot is None else dot.depth) if table is None else table.block
        if table is None and spec.prologue_b:  # Elements that are widened fill a register as they are stored.
            step = max(step, min(target.vector_bits // spec.b_stored.bits, most(spec.k) // step * step))
        far = far_columns.count(spec, target)
        size_of = knobs.sizes(space.ALONG_K, spec, target, p, functions)
        batch_loops.take_apart(script, spec)
        if staged:
            one = spec.n == 1
            gap = 0 if one else row_gap(target, spec.b_type)
            sizes = [most(spec.k), most(spec.n)]
            steps.stage(steps.match_product(functions, spec), 1, gap=gap, transposed=not one, most=sizes)
        if table is not None:
            along_k.reorder(steps.match_product(functions, spec), table)
        result = batch_loops.match_result(script, spec)
        tiles = (([0, p.nr, 0], p.nr, spec.n), ([size_of["mr"], 0, 0], p.mr, spec.m))

        def nest(turned: bool) -> steps.Handle:
            tile, short = result, list[tuple[steps.Handle, Callable[[steps.Handle], object]]]()
            for sizes, size, extent in reversed(tiles) if few != turned else tiles:
                open_ = isinstance(extent, Dim)
                if not open_ and extent <= size:
                    continue
                if staged and (spec.fused or (open_ and not spec.beta)):  # What copies B stays outside.
                    tile, loop = steps.tile_with_product(tile, sizes[:2], spec)
                else:
                    tile, loop = (unpacked.tile_with_zeros if open_ else steps.tile_result)(tile, sizes, spec)
                if open_ and size > 1:
                    short.append((loop, steps.specialize_tiles))
                elif not open_ and extent % size:
                    short.append((loop, steps.peel))
                elif sizes[1] == far > 1:
                    along_k.spread(functions, loop)
            if spec.fused:
                steps.mark(tile, steps.EPILOGUE)
            for loop, even_out in reversed(short):
                even_out(loop)
            return tile

        knobs.ordered(spec, p, nest, both=space.both_loops(spec, p))
        steps.clean(functions)
        tile = steps.match_product(functions, spec)
        whole = divided_by(spec.k, step)
        if step < most(spec.k):
            tile, loop = steps.tile(tile, [0, 0, step])
            if not whole:
                masked = target.masked and isinstance(spec.k, Dim) and step <= _MASKED * lanes
                if not masked or few or 1 in (spec.m, spec.n):
                    steps.peel(loop)
            elif isinstance(spec.k, Dim):
                steps.specialize_tiles(loop, unit=step, whole=True)
            steps.clean(functions)
            tile = steps.match_product(functions, spec)
        if not whole:
            tile = steps.pad(tile, spec, sizes=[0, 0, step], pack=[False] * 3)
        steps.vectorize_product(tile, functions, spec)
        if spec.fused:
            steps.vectorize_epilogue(steps.match_marked(functions, steps.EPILOGUE))
        steps.keep_accumulators(functions, looped=False)
        steps.keep_partial_sums(functions)
        steps.keep_accumulators(functions, looped=False)
        if spec.beta == 0 or spec.fused:
            steps.start_from_zero(functions, runs=bool(spec.dynamic))
        if spec.prologue_b:  # It is computed where vectors of its result are read.
            steps.merge_slices(functions)
        along_k.contract_along_k(functions, spec, target, dot, table)
    return script.module
