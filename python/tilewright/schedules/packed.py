# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `packed`: cache blocking with A and B packed into panels, for products that reuse them.

The loop nest and the names of its blocks are those of Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (ACM TOMS 34(3), 2008), as BLIS has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, lcm

from tilewright.dims import MAX_EXTENT, Dim
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.blocking import Blocking, ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_PANELS = ("panels_of_a", "panels_of_b")
"""Marks of the copies that make panels."""
_EPILOGUE = "epilogue"
"""Mark of what is done to the sums."""
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

    With something done to the sums before they are written, there is no loop pc: kc is all of K, and C is written once and
    never read::

        for jc: packed_b[nc / nr][K][nr] = B[:, jc:jc+nc]
          for ic: packed_a[mc / mr][mr][K] = A[ic:ic+mc, :]
            for jr, ir: acc = 0; for k in 0..K step t: ...; C[ic+ir:, jc+jr:] = epilogue(acc)

    The step t is 1 but for types of which the target's instruction takes several products at once.
    """
    dot = target.dot(spec.a_type.name, spec.b_type.name)
    # Panels hold whole groups of the elements that an instruction multiplies at once.
    kc, step = max(spec.k, blocking.kc) if spec.fused else blocking.kc, dot.step
    if spec.b_transposed and kc > _BLOCK:  # Of which B is transposed as many rows at a time.
        step = lcm(step, _BLOCK)
    kc = ceil_div(kc, step) * step
    p = replace(blocking, kc=kc)
    # A loop of one step would be folded away by the next clean-up: it is not made.
    # Of an extent that only a call tells, nothing but a loop says how much a block has of it at most.
    m, n, k = ((_MANY if isinstance(extent, Dim) else extent) for extent in (spec.m, spec.n, spec.k))
    loops = {
        "jc": ([0, p.nc, 0], p.nc < n),
        "pc": ([0, 0, p.kc], p.kc < k),
        "ic": ([p.mc, 0, 0], p.mc < m),
        "jr": ([0, p.nr, 0], p.nr < min(p.nc, n)),
        "ir": ([p.mr, 0, 0], p.mr < min(p.mc, m)),
    }
    with steps.script() as script:
        steps.record(script.functions, packed, p, target)
        tile = _tile_nest(script, spec, [sizes for sizes, wanted in loops.values() if wanted])
        steps.merge_slices(script.functions)
        tile = steps.pad(tile, spec, sizes=[p.mr, p.nr, p.kc], pack=[True, True, False])
        # A's panels are made inside the ic loop, over jr and ir, B's outside of it.
        for operand, (own, over) in enumerate((("ir", ("jr", "ir")), ("jr", ("ic", "jr", "ir")))):
            steps.mark(steps.producer(tile, operand), _PANELS[operand])
            if loops[own][1]:
                steps.hoist_packing(tile, operand, loops=sum(loops[name][1] for name in over))
        steps.hoist_invariants(script.functions)
        steps.clean(script.functions)
        pack_a, pack_b = (steps.match_marked(script.functions, panels) for panels in _PANELS)
        together = gcd(p.mr, dot.rows)
        steps.vectorize_packing(pack_a, target.lanes(spec.a_type), rows=together, transposed=spec.a_transposed)
        steps.vectorize_packing(pack_b, target.lanes(spec.b_type), rows=dot.depth, transposed=spec.b_transposed)
        tile = steps.match_product(script.functions, spec)
        looped = p.kc > dot.step
        if looped:
            tile, _ = steps.tile(tile, [0, 0, dot.step])
        steps.vectorize_product(tile, script.functions, spec)
        finish = _write_fused if spec.fused else _write_sums
        finish(script.functions, spec, p, looped=looped)
    return script.module


def _tile_nest(script: steps.Script, spec: MatmulSpec, sizes: Sequence[Sequence[int]]) -> steps.Handle:
    """Tiles the product by one loop for each of `sizes`, outermost first, with what is done to its sums inside."""
    tile = steps.match_result(script, spec)
    for loop_sizes in sizes:
        tile, _ = steps.tile_result(tile, loop_sizes, spec)
    if spec.fused:
        steps.mark(tile, _EPILOGUE)
    return steps.match_product(script.functions, spec)


def _write_sums(functions: steps.Handle, spec: MatmulSpec, p: Blocking, *, looped: bool) -> None:
    """Keeps sums in registers over a block of K, and adds them to C."""
    steps.keep_accumulators(functions, looped=looped)
    if spec.beta == 0:
        steps.start_from_zero(functions)
    tile_type = ir.VectorType.get([p.mr, p.nr], ir.Type.parse(spec.acc_type.mlir))
    steps.split_full_tiles(functions, tile_type, looped=looped)


def _write_fused(functions: steps.Handle, spec: MatmulSpec, p: Blocking, *, looped: bool) -> None:
    """Keeps sums in registers over all of K, and writes what the epilogue makes of them."""
    write = steps.vectorize_epilogue(steps.match_marked(functions, _EPILOGUE))
    steps.keep_accumulators(functions, looped=looped)
    steps.start_from_zero(functions)
    steps.split_full_write(write)
    steps.clean(functions)
