# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `packed`: cache blocking with A and B packed into panels, for products that reuse them.

The loop nest and the names of its blocks are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (ACM TOMS 34(3), 2008), as BLIS has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import gcd, lcm

from tilewright import groups
from tilewright.dims import MAX_EXTENT, Dim, most
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.models import finishing, parts, space
from tilewright.schedules.models.blocking import Blocking, ceil_div, keeps_c, stages_c
from tilewright.schedules.models.lone_panel import reads_a
from tilewright.schedules.steps import batch_loops, knobs, row_blocks, split_k, staged_sums
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_PANELS = ("panels_of_a", "panels_of_b")
"""Marks of the copies that make panels."""
_TILES = ("jr", "ir")
"""The loops over register tiles."""
_MANY = MAX_EXTENT + 1
_BLOCK = 16
"""Rows of a transposed B that packing reads at a time: with 32-bit elements a cache line."""


def packed(spec: MatmulSpec, target: Target, blocking: Blocking) -> ir.Module:
    """Builds the schedule.

    Before: ``C += A * B``. After, with mr, nr, mc, nc, kc of `blocking` and every panel padded to full tiles::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            packed_b[nc / nr][kc][nr] = B[pc:pc+kc, jc:jc+nc]
            for ic in 0..M step mc:
              packed_a[mc / mr][mr][kc] = A[ic:ic+mc, pc:pc+kc]
              for jr in 0..nc step nr:
                for ir in 0..mc step mr:
                  acc = 0 if pc == 0 else C[ic+ir:, jc+jr:]       (full tiles unmasked)
                  for k in 0..kc step t:
                    acc += packed_a[ir / mr][:, k:k+t] * packed_b[jr / nr][k:k+t, :]
                  C[ic+ir:, jc+jr:] = acc

    Where a block of C stays in L2 until its sums are complete (`blocking.keeps_c`), it meets all slices of A and B before the next one
    comes, and these are packed for each block; where all of K is one slice, B's are packed once::

        for jc, ic: for pc: packed_b = ...; packed_a = ...; for jr, ir: ...

    Where its rows would be in the same sets of the caches (`blocking.stages_c`), its sums are scratch of longer rows, and C is written
    when they are complete.

    Where B is one panel (`lone_panel.reads_a`), A is read once, where it lies: there are no loops jc, ic and jr, kc divides K, and
    the last rows are a tile of their own.

    Where a block of A has the rows of a tile (`strips_of_a`), there is no loop ir: each strip of A meets all panels of B's block::

        for jc: for pc: packed_b = ...; for ic in 0..M step mr: packed_a[mr][kc] = A[ic:ic+mr, pc:pc+kc]; for jr: ...

    With something done to the sums before they are written, and all of K in one block, C is written once and never read::

        for jc: packed_b[nc / nr][K][nr] = B[:, jc:jc+nc]
          for ic: packed_a[mc / mr][mr][K] = A[ic:ic+mc, :]
            for jr, ir: acc = 0; for k in 0..K step t: ...; C[ic+ir:, jc+jr:] = epilogue(acc)

    With a shorter kc the sums of a block of C are scratch (`finishing`), of all rows, or of a block of them::

        for jc: for pc, ic, jr, ir: scratch[ic+ir:, jr:] += acc
          C[:, jc:jc+nc] = epilogue(scratch)
        for jc, ic: for pc, jr, ir: scratch[ir:, jr:] += acc
          C[ic:ic+mc, jc:jc+nc] = epilogue(scratch)

    Of a batch, the loops over its entries are around all of that; those over entries that share one B are inside of jc and pc,
    so that its panels are packed once.

    Of a dynamic K, the loop over k ends where the block of K does, at pc + kc or at K, in whole steps; and the
    panels are packed so far.

    With softmax, or a reduction of rows, there is no loop jc, and C is scratch of mc rows, of which C is then made row by row::

        packed_b[N / nr][K][nr] = B
        for ic: packed_a = ...; for jr, ir: ...; scratch[ir:, jr:] = epilogue(acc)
          for each row: C[ic+row, :] = softmax of scratch[row, :]

    The step t is 1 but for types of which the target's instruction takes several products at once. With `blocking.order`, the loops jr
    and ir are the other way round: a panel of A meets all of those of B, and not one of B all of A's. With `blocking.nest`, so are
    jc, pc and ic (`space.block_loops`); panels of an operand are packed inside of the loops over its own blocks::

        for ic: for pc: packed_a = ...; for jc: packed_b = ...; for jr, ir: ...
    """
    given, sizes = spec, blocking
    whole, blocking = parts.inside(spec, blocking)
    spec = whole.inner if whole.has_rows else whole
    dot = target.dot(*spec.multiplied)
    # Panels hold whole groups of the elements that an instruction multiplies at once.
    result, spec = spec, spec.plain_sums if finishing.is_apart(whole, blocking) else spec
    kc, step = max(most(spec.k), blocking.kc) if spec.fused else blocking.kc, dot.step
    if spec.b_transposed and kc > _BLOCK:  # Of which B is transposed as many rows at a time.
        step = lcm(step, _BLOCK)
    if groups.grouped((*spec.chain_a.operands, *spec.chain_b.operands)):
        # Vectors along k have whole groups, or parts of one.
        step = lcm(step, groups.UNIT)
    kc = ceil_div(max(min(kc, most(spec.k)), 1), step) * step
    if (
        dot.is_tile and spec.products > 1
    ):  # In one loop, or panels of the second would be packed between the first's reads and products.
        kc = max(kc, 2 * step)
    if spec.split and kc in (
        blocking.mr,
        blocking.nr,
    ):  # A lone panel of the sums' shape would be one buffer with them.
        kc += step
    if (
        spec.products > 1
    ):  # Lone panels of two matrices in one block would not be told apart: they have a loop over them.
        blocking = replace(blocking, nc=max(ceil_div(blocking.nc, blocking.nr), 2) * blocking.nr)
    # Of what lies in memory, no more than K can be read.
    in_place = kc <= most(spec.k) and reads_a(spec, target, replace(blocking, kc=kc))
    if spec.b_packed and spec.n <= blocking.nr and not in_place:
        # Without a loop over K, packing a lone panel would be one with reading it.
        kc = max(kc, 2 * step)
    # In whole steps it may be all of K: then sums wait for no other slice.
    if result.fused and not spec.fused and kc >= most(spec.k):
        return packed(given, target, replace(sizes, kc=kc))
    p = replace(blocking, kc=kc)
    lone = in_place and not dot.is_tile
    trimmed = isinstance(spec.k, Dim)
    # A loop of one step would be folded away by the next clean-up: it is not made.
    # Of a dynamic extent, nothing but a loop says how much a block has of it at most.
    m, n, k = ((_MANY if isinstance(extent, Dim) else extent) for extent in (spec.m, spec.n, spec.k))
    with steps.script() as script:
        steps.record(script.functions, packed, replace(p, parts=sizes.parts, exchanged=sizes.exchanged), target)
        if isinstance(spec.n, Dim):
            steps.prefetch_weights(script.functions, spec, target)
        split_k.take_apart(script, given, sizes, target.lanes(spec.acc_type))
        apart = result.fused and not spec.fused
        staged = finishing.loops_around(spec, target, p) if apart or stages_c(spec, target, p) else ()
        fixed = apart and result.products > 1  # Each has a nest of its own, and all are made at once.
        forms = {"padded": not staged, "unit_of_k": step, "fixed": fixed}
        size = knobs.sizes(space.PACKED, whole, target, p, script.functions, **forms)
        loops = {
            "jc": ([0, size["nc"], 0], p.nc < n),
            "pc": ([0, 0, size["kc"]], p.kc < k and not spec.fused),
            "ic": ([size["mc"], 0, 0], p.mc < m and not lone),
            "jr": ([0, size["nr"], 0], p.nr < min(p.nc, n)),
            "ir": ([size["mr"], 0, 0], p.mr < (m if lone else min(p.mc, m))),
        }
        kept = ("ic" in staged or keeps_c(spec, target)) and loops["pc"][1]
        if kept:
            loops = {name: loops[name] for name in ("jc", "ic", "pc", "jr", "ir")}
        nest = {name: sizes for name, (sizes, wanted) in loops.items() if wanted}
        blocks = space.block_loops(whole, target, p)
        tile = _tile_nest(script, whole, target, nest, p, blocks, staged=staged)
        steps.merge_slices(script.functions)
        rows = 0 if in_place else size["mr"]
        tile = steps.pad(tile, spec, sizes=[rows, size["nr"], size["kc"]], pack=[not in_place, True, False])
        panels = [steps.producer(tile, operand) for operand in range(in_place, 2)]
        if trimmed:
            steps.trim(tile, dot.step)
        batch_loops.resolve_extents(script.functions, spec)
        for panel, name in zip(panels, _PANELS[in_place:], strict=True):
            steps.mark(panel, name)
        if spec.products > 1:  # They have one panel of A.
            steps.clean(script.functions)
            panels = [steps.match_marked(script.functions, name) for name in _PANELS]
        if loops["ir"][1] and not in_place:
            _hoist(panels[0], [*nest], blocks, ("pc", "ic"), p)
        if loops["jr"][1]:  # Entries of a batch that share a B share its panels.
            # For blocks of rows that meet all of K, one after the other, B is packed once.
            once = apart and "ic" in staged and loops["ic"][1] and not (dot.is_tile or spec.b_packed)
            own = ("jc",) if once else ("jc", "pc")
            _hoist(panels[-1], [*nest], blocks, own, p, entries=len(batch_loops.shared_axes(spec)))
        steps.hoist_invariants(script.functions)
        steps.clean(script.functions)
        together = gcd(p.mr, dot.rows)
        packs = (
            (spec.a_type, together, spec.a_transposed, 1, spec.prologue_a),
            (spec.b_type, dot.depth, spec.b_transposed, 0, spec.prologue_b),
        )
        for name, (element, rows, transposed, axis, prologue) in zip(_PANELS[in_place:], packs[in_place:], strict=True):
            steps.vectorize_packing(
                steps.match_marked(script.functions, name),
                target.lanes(element),
                rows=rows,
                transposed=transposed,
                masked=target.masked,
                trimmed=axis if trimmed else None,
                step=dot.step if trimmed and dot.is_tile else 1,
                computed=bool(prologue),
            )
        tile = steps.match_product(script.functions, spec)
        if lone and loops["ir"][1] and spec.m % p.mr:
            steps.peel(steps.enclosing_loop(tile))
            steps.clean(script.functions)
            tile = steps.match_product(script.functions, spec)
        # Before the loops over k: what becomes one loop then has nothing of the epilogue's in between.
        write = steps.vectorize_epilogue(steps.match_marked(script.functions, steps.EPILOGUE)) if spec.fused else None
        if whole.has_rows and spec.fused:
            row_blocks.finish(script, target.lanes(spec.c_type))
        if spec.products > 1:
            steps.clean(script.functions)
            tile = steps.match_product(script.functions, spec)
        looped = trimmed or p.kc > dot.step
        if looped:
            tile, loop = steps.tile(tile, [0, 0, dot.step])
            if trimmed and dot.step > 1:
                steps.specialize_tiles(loop, unit=dot.step, whole=True)
                steps.clean(script.functions)
                tile = steps.match_product(script.functions, spec)
            if spec.products > 1:
                steps.clean(script.functions)
                tile = steps.match_product(script.functions, spec)
                steps.fuse_loops(steps.split(steps.enclosing_loop(tile), spec.products))
                tile = steps.match_product(script.functions, spec)
        steps.vectorize_product(tile, script.functions, spec)
        if write is None:
            fills = row_blocks.fills(script) if whole.has_rows else None
            _write_sums(script.functions, spec, looped=looped, fills=fills, split=not lone)
            if staged:
                lanes = target.lanes(spec.acc_type)
                staged_sums.write(script, result, p.nc, lanes, rows=lanes if sizes.exchanged else 1)
            if whole.has_rows:  # What was filled is followed through ops on tensors, and not into loops.
                row_blocks.finish(script, target.lanes(spec.c_type))
        else:
            _write_fused(script.functions, spec, write, looped=looped)
    return script.module


def _hoist(
    panel: steps.Handle,
    nest: Sequence[str],
    blocks: Sequence[str],
    own: Sequence[str],
    p: Blocking,
    *,
    entries: int = 0,
) -> None:
    """Hoists the packing of an operand out of all loops of `nest` inside of its `own` ones, and of loops over entries.

    The `blocks` among them are as `p` orders them.
    """
    rest = nest[len(blocks) :]

    def over(order: Sequence[str]) -> list[steps.Handle]:
        loops = [*order, *rest]
        inner = max((at for at, name in enumerate(loops, 1) if name in own), default=0)
        steps.hoist_packing(panel, loops=len(loops) - inner + entries)
        return []

    knobs.permuted(blocks, over, p.nest)


def _tile_nest(
    script: steps.Script,
    spec: MatmulSpec,
    target: Target,
    loops: Mapping[str, Sequence[steps.Size]],
    p: Blocking,
    blocks: Sequence[str],
    *,
    staged: Sequence[str],
) -> steps.Handle:
    """Tiles the product by one loop for each of `loops`, outermost first, with what is done to its sums inside.

    Those over `blocks` are in the order that `p` says. The sums of a block of C that is `staged`, inside of these loops, are scratch.
    """
    if spec.has_rows:
        tile = row_blocks.take_apart(script, spec, loops.get("ic"))
        loops, spec = {name: sizes for name, sizes in loops.items() if name != "ic"}, spec.inner
        return _tiled(script, spec, target, tile, loops, p, blocks)
    around = ("jc", "pc") if batch_loops.shared_axes(spec) else ()
    batch_loops.take_apart(script, spec, [sizes for name, sizes in loops.items() if name in around])
    tile = batch_loops.match_result(script, spec)
    if staged:
        tiles, rows = [loops[name] for name in staged if name in loops], p.mc if "ic" in staged else most(spec.m)
        tile, around = staged_sums.tile(script, tile, tiles, rows, spec, target, p), staged
        spec = spec.plain_sums if spec.fused else spec
    inside = {name: sizes for name, sizes in loops.items() if name not in around}
    return _tiled(script, spec, target, tile, inside, p, blocks)


def _tiled(
    script: steps.Script,
    spec: MatmulSpec,
    target: Target,
    tile: steps.Handle,
    loops: Mapping[str, Sequence[steps.Size]],
    p: Blocking,
    blocks: Sequence[str],
) -> steps.Handle:
    """Tiles what makes the result by `loops`, and returns the product in it."""

    def nest(tile: steps.Handle, names: Iterable[str]) -> steps.Handle:
        for name in names:
            tile = staged_sums.tile_block(tile, loops[name], spec, target, p if name in ("jc", "ic") else None)
        return tile

    outer = [name for name in loops if name not in _TILES]
    [tile] = knobs.permuted(blocks, lambda order: [nest(tile, order or outer)], p.nest, handles=1)
    inner = [name for name in loops if name in _TILES]
    both = len(inner) > 1 and not target.dot(*spec.multiplied).is_tile
    tile = knobs.ordered(spec, p, lambda turned: nest(tile, inner[::-1] if turned else inner), both=both)
    if spec.fused:
        steps.mark(tile, steps.EPILOGUE)
    return steps.match_product(script.functions, spec)


def _write_sums(
    functions: steps.Handle, spec: MatmulSpec, *, looped: bool, fills: steps.Handle | None = None, split: bool = True
) -> None:
    """Keeps sums in registers over a block of K, and adds them to C, with `split` without masks where a tile is full."""
    steps.keep_accumulators(functions, looped=looped)
    if spec.beta == 0:
        steps.start_from_zero(functions, runs=bool(spec.dynamic), fills=fills)
    if split:
        steps.split_full_tiles(functions, looped=looped)


def _write_fused(functions: steps.Handle, spec: MatmulSpec, write: steps.Handle, *, looped: bool) -> None:
    """Keeps sums in registers over all of K, for the epilogue whose result `write` writes."""
    steps.keep_accumulators(functions, looped=looped)
    steps.start_from_zero(functions, runs=bool(spec.dynamic))
    steps.split_full_write(write)
    steps.clean(functions)
