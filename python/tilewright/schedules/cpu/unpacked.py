# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `unpacked`: register tiles straight on the operands, for products too small to earn packing back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tilewright.dims import Dim, divided_by, most
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import memref
from tilewright.schedules import steps
from tilewright.schedules.models import space
from tilewright.schedules.models.blocking import Blocking, ceil_div
from tilewright.schedules.models.register_tiles import lanes_for, last_lanes
from tilewright.schedules.steps import batch_loops, knobs, split_k
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_BYTE = 8
"""Bits of the elements of which the last columns may come one by one."""


def unpacked(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Nothing is allocated and nothing copied. The last rows and columns, where the tile does not divide the extent, are
    tiles of their own; a number of columns that does not fill a vector is read and written under a mask.

    Before: ``C += A * B``. After, with mr, nr, kc of `blocking`::

        for pc in 0..K step kc:
          for jr in 0..N step nr:
            for ir in 0..M step mr:
              acc = 0 if pc == 0 else C[ir:ir+mr, jr:jr+nr]
              for k in pc..pc+kc step t:
                acc += A[ir:ir+mr, k:k+t] * B[k:k+t, jr:jr+nr]
              C[ir:ir+mr, jr:jr+nr] = acc

    The step t is 1 but for types of which the target's instruction takes several products at once. What is left of K then, less than a
    step, is widened and added after the loop over k; where K is in several blocks that do not have whole steps, all of it is.
    """
    with steps.script() as script:
        steps.record(script.functions, unpacked, blocking, target)
        spec, blocking = split_k.take_apart(script, spec, blocking, target.lanes(spec.acc_type))
        batch_loops.take_apart(script, spec)
        steps.prefetch_weights(script.functions, spec, target)
        if blocking.order and spec.dynamic == ("m",):
            steps.prefetch_all(script.functions)
        register_tiles(script, spec, target, blocking, space.UNPACKED)
    return script.module


def register_tiles(
    script: steps.Script, spec: MatmulSpec, target: Target, blocking: Blocking, axes: Sequence[space.Axis] = ()
) -> None:
    """The loops over blocks and register tiles, as `unpacked` shows them, of the one product in the payload of `script`.

    Sizes that `axes` let vary are knobs. With `blocking.order`, ir is around jr: A is read once, and B for each few rows. Where nc of
    `blocking`, rounded up to whole tiles, is less than N, a loop ``for jc in 0..N step nc`` is around them; with `blocking.nest`, it is
    inside of pc.
    """
    # Blocks longer than K would hide that it is whole steps.
    p = replace(blocking, kc=max(min(blocking.kc, most(spec.k)), 1))
    lanes = lanes_for(spec, target)
    # Tiles of registers want packed panels; instructions that take several products at once, whole groups of them.
    dot = target.dots(spec.a_type.name, spec.b_type.name)[-1]
    open_k = isinstance(spec.k, Dim)
    step = next(each for each in (dot.step, dot.least, 1) if divided_by(spec.k, each) and (open_k or p.kc % each == 0))
    # The last, short step of a block of all of K is done in the type of the sum.
    short_step = not (open_k or spec.deterministic) and step < dot.least < spec.k <= p.kc
    # Of a dynamic K, what is left is a loop of single steps, which what is done to the sums would have to come after.
    single = open_k and not (spec.deterministic or spec.fused) and step < dot.least
    if short_step or single:
        step = dot.least
    size_of = knobs.sizes(axes, spec, target, p, script.functions, unit_of_k=step)
    tile = batch_loops.match_result(script, spec)
    # Loops whose last tile is short, outermost first, and what is done about it.
    short: list[tuple[steps.Handle, Callable[[steps.Handle], object]]] = []
    # Whole register tiles, so that only the last block has a short one.
    nc = ceil_div(p.nc, p.nr) * p.nr
    # A step of several elements needs a block of K whose size is known.
    kc = (
        p.kc
        if step == 1 or open_k or short_step
        else next(size for size in range(p.kc, 0, -step) if spec.k % size == 0)
    )
    blocks: dict[str, list[steps.Size]] = {}
    if nc < most(spec.n):
        blocks["jc"] = [0, size_of["nc"] if nc == p.nc else nc, 0]
    if kc < most(spec.k) and not spec.fused:
        blocks["pc"] = [0, 0, size_of["kc"] if kc == p.kc else kc]

    def in_blocks(order: Sequence[str]) -> list[steps.Handle]:
        inner, loops = tile, dict[str, steps.Handle]()
        for name in order:
            inner, loops[name] = steps.tile_result(inner, blocks[name], spec)
        return [inner, *(loops[name] for name in blocks)]

    free = () if spec.dynamic else tuple(blocks)
    outer, *loops = knobs.permuted(
        free, lambda order: in_blocks(order or tuple(blocks)), p.nest, handles=1 + len(blocks)
    )
    if "jc" in blocks and not isinstance(spec.n, Dim) and spec.n % nc:
        short.append((loops[0], steps.peel))
    # One by one, columns of larger elements take longer than a branch for each: with AVX2 f16 by 7 columns four times as long.
    one_by_one = spec.b_type.bits <= _BYTE and not target.masks(spec.b_type.bits)
    last = "single" if one_by_one else "masked" if target.masked else "bounded"
    over = (
        ([0, size_of["nr"], 0], p.nr, spec.n, nc, lanes),
        ([size_of["mr"], 0, 0], p.mr, spec.m, spec.m, 1),
    )

    def nest(turned: bool) -> steps.Handle:
        tile, uneven = outer, list[tuple[steps.Handle, Callable[[steps.Handle], object]]]()
        for sizes, size, extent, block, unit in reversed(over) if turned else over:
            if isinstance(extent, Dim):
                tile, loop = tile_with_zeros(tile, sizes, spec)
                if size > 1:
                    whole, once = divided_by(extent, unit), most(extent) <= size
                    each = partial(steps.specialize_tiles, unit=unit, whole=whole, short=last, once=once)
                    uneven.append((loop, each))
            elif size < min(block, extent):
                tile, loop = steps.tile_result(tile, sizes, spec)
                if size > 1 and (extent % size or extent % min(block, extent)):
                    uneven.append((loop, steps.peel))
        if spec.fused:
            steps.mark(tile, steps.EPILOGUE)
        for loop, even_out in reversed(uneven):
            even_out(loop)
        return tile

    knobs.ordered(spec, p, nest, both=space.both_loops(spec, p))
    for loop, even_out in reversed(short):
        even_out(loop)
    steps.clean(script.functions)
    tile = steps.match_product(script.functions, spec)
    looped = open_k or (spec.k if spec.fused else min(kc, spec.k)) > step
    if looped:
        tile, loop = steps.tile(tile, [0, 0, step])
        if single:
            steps.for_each(steps.peel(loop), lambda rest: steps.tile(steps.match_product(rest, spec), [0, 0, 1]))
        elif open_k and step > 1:
            steps.specialize_tiles(loop, unit=step, whole=True)
        elif short_step:
            steps.peel(loop)
    steps.clean(script.functions)
    tile = steps.match_product(script.functions, spec)
    if not divided_by(spec.n, lanes):
        tile = steps.pad(tile, spec, sizes=[0, last_lanes(spec, target, p.nr), 0], pack=[False] * 3)
        if (
            spec.batch and spec.fused
        ):  # How much was padded is then known as the size of a tile of C, which the epilogue goes by.
            steps.apply(script.functions, memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims, cse=True)
            tile = steps.match_product(script.functions, spec)
    steps.vectorize_product(tile, script.functions, spec)
    if spec.fused and not spec.dynamic:
        steps.vectorize_epilogue(steps.match_marked(script.functions, steps.EPILOGUE))
    steps.keep_accumulators(script.functions, looped=looped, short_step=short_step)
    if single:  # The last step, of which there may be none, is a loop too.
        steps.keep_partial_sums(script.functions)
    if spec.fused and spec.dynamic:  # Sums of a short vector are one only now.
        steps.vectorize_epilogue(steps.match_marked(script.functions, steps.EPILOGUE))
    if spec.beta == 0 or spec.fused:
        steps.start_from_zero(script.functions, runs=bool(spec.dynamic))


def tile_with_zeros(
    tile: steps.Handle, sizes: Sequence[steps.Size], spec: MatmulSpec
) -> tuple[steps.Handle, steps.Handle]:
    """Tiles what `match_result` finds with all that comes before, the zeros that sums start from too, inside of the loop."""
    return steps.tile(tile, sizes) if spec.beta and not spec.fused else steps.tile_with_producers(tile, sizes[:2])
