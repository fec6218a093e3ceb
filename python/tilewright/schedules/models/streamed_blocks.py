# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of strategy `streamed`, which goes through B once: tiles that go down columns of it, blocks of it, or whole rows."""

from __future__ import annotations

from dataclasses import replace

from tilewright.schedules.models import blocking, prefetching, register_tiles
from tilewright.schedules.models.sizes import Blocking, ceil_div, even, held_bytes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_LEAST_SUMS = 8
"""Vectors of sums that few rows have at least on x86-64, which is also how many lines of B are on their way: 1 x 4096 x 4096 in f32 on
Zen 5 with 8 18.9 GFLOP/s, with 4 17.0."""

ROWS_IN_L3, _ROWS_FROM_MEMORY = 5, 10
"""Rows from which `streamed` takes blocks of a B that the last-level cache holds, or memory."""
_ROWS_IN_L3_NARROW = 8
"""Rows from which it does so with fewer registers. On Zen 3, f32, whole rows and blocks, in GFLOP/s: 5 x 2048 x 2048 54.6, 50.4; 6 x 1500 x
1500 60.8, 53.0; 8 x 2048 x 2048 45.0, 50.3; 8 x 1024 x 1024 46.6, 53.6."""
_LINES_OF_A_TILE, _BLOCK_LINES = 4, 16
"""Lines of a row of B at most in a streamed tile, and in a block whose rows are in the same sets of L2."""
_COLUMN_DEPTH, _COLUMN_VECTORS = 512, (8, 4)
"""Rows of B that `streamed` goes down in a tile that has all rows of C, whose lines the hardware follows, and vectors of columns at most:
of elements as wide as the sums, and of those that are interleaved or widened in registers besides."""
_WAITING_VECTORS, _WAITING_WAYS = 4, 2
"""Where a core waits for what L2 delivers, vectors of columns of a tile over whole rows at most, and how many times as many rows as L1 has
ways. On Cascade Lake, f32, with 1, 2, 3, 4 vectors, in GFLOP/s: 4 x 512 x 480 41, 52, 55, 61; 6 x 400 x 400 54, 68, 74, 78; 8 x 512 x 480
48, 62, 68; 16 x 400 x 400, in two tiles, 58, 68, 74. With 8 rows of B, and as many as there are of A: 16 x 1024 x 512 in two vectors 51 and
54, 24 x 3072 x 768 27 and 23, 36 x 3072 x 768 28 and 17."""
_ROWS_BY_COLUMNS = ((2, 7, 8), (3, 6, 6))
"""Rows for which `streamed` does so, for the same elements: from, up to where B comes from memory, and up to where the last-level cache
holds it."""


_SHARED_ROWS, _SHARED_WIDE = 3, (16, 8)
"""Rows up to which threads share whole rows of B on a core that waits for L2, and those from which they do so of elements of as many bytes.
Measured on two cores of Granite Rapids (2026-11-30), random products with a B of half of L2 or more, unpacked or packed, times the speed of
streamed, in caches and from memory: f32 1 to 3 rows 1.02 and 1.04, 4 and 5 1.17 and 1.16, 6 to 12 1.44 and 1.29, 16 to 32 1.14 and 1.10;
f64 1 to 3 rows 0.96 and 1.12, 4 to 12 1.15 and 1.10, 16 to 32 0.92 and 0.92; bf16 1.55 and 1.37, f16 1.40 and 1.27, u8 by i8 1.91 and
1.51."""


def streamed_blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes of strategy `streamed`: columns of B that the hardware follows, blocks of it that wait in L2, or whole rows.

    Few rows take tiles with all rows of C, each of which goes down some columns of B: one line after the other is a row apart, in as many
    streams as the tile has lines, and nothing is read twice. Measured on Zen 5, in GFLOP/s, so and as below: f32 2 x 4096 x 4096 32 and
    25, 5 x 2048 x 2048 171 and 128, 8 x 2048 x 2048 218 and 183, 5 x 4096 x 4096 77 and 54; bf16 4 x 2048 x 2048 199 and 119, 5 x 4096 x
    4096 171 and 116; u8 by i8, of which four rows are interleaved, 5 x 2048 x 2048 337 and 360.

    Few rows by a B from memory otherwise take whole rows of B, as many as L1 has ways: kc rows a power of two apart fill a set of L1. The
    strip of C and the kc rows of B, those in use and the next ones on their way, take up to a quarter of L2 each.

    Otherwise a tile has all rows of C that registers hold beside two vectors, and blocks have more rows and fewer columns, so that the
    strip of C passes through L1 less often. Their next ones are prefetched row after row (`prefetch_blocks`). Measured on Zen 5, in
    GFLOP/s, in blocks and in whole rows: f32 12 x 2048 x 2048 236 and 183, 16 x 4096 x 4096 179 and 101 (from memory 152 and 102); in bf16
    8 x 4096 x 4096 from memory 172 and 237, 12 x 2048 x 2048 410, packed 195.
    """
    by = _stream_rows
    if not (spec.prologue_b or spec.dynamic):
        if _takes_columns(spec, target):
            by = _stream_columns
        elif _takes_blocks(spec, target):
            by = _stream_blocks
    sizes = by(spec, target)
    return replace(sizes, rows_ahead=prefetching.usual_rows_ahead(spec, target, sizes))


def _stream_columns(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes of `streamed` for tiles with all rows of C, by all columns of a block of deep columns."""
    lanes = target.lanes(spec.acc_type)
    vectors = min((target.vector_registers - 2) // (spec.m + 1), _COLUMN_VECTORS[spec.widens])
    # What half of L2 holds would be prefetched as a block.
    deepest = max(_COLUMN_DEPTH, target.l2.bytes * 8 // (spec.n * spec.b_stored.bits))
    kc = blocking.divisor(spec.k, min(deepest, spec.k), target.dots(*spec.multiplied)[-1].step)
    return Blocking(mr=spec.m, nr=even(spec.n, vectors * lanes, lanes), mc=spec.m, nc=spec.n, kc=kc)


def _stream_rows(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes of `streamed` for whole rows of B."""
    lanes, bits = target.lanes(spec.acc_type), spec.b_stored.bits
    sums = max(target.fma_latency * target.fma_per_cycle, 0 if target.issue_per_cycle else _LEAST_SUMS)
    deepest = _WAITING_WAYS * target.l1.ways if target.rows_ahead else spec.k
    kc = min(ceil_div(max(spec.m, 1), target.l1.ways) * target.l1.ways, deepest, max(spec.k, 1))
    room = target.vector_registers - 2
    mr = even(spec.m, room // 2 - 1 if target.rows_ahead else blocking.most_rows(target))
    # Pairs of rows are interleaved by whole lines: bf16, 8 rows, 4096 x 4096 weights, 121 GFLOP/s with 16 columns, 133 with 32.
    least = 2 if target.dots(*spec.multiplied)[-1].depth == 2 else 1
    if target.rows_ahead:
        least = _WAITING_VECTORS
    vectors = max(min(max(ceil_div(sums, mr), least), room // (mr + 1)), 1)
    nr = even(spec.n, vectors * lanes, lanes)
    column_bits = max(spec.m * spec.acc_type.bits, kc * bits)
    nc = even(spec.n, target.l2.bytes * 8 // 4 // column_bits, nr)
    return Blocking(mr=mr, nr=nr, mc=max(spec.m, 1), nc=nc, kc=kc)


def _stream_blocks(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes of `streamed` for blocks of B that wait in L2."""
    bits = spec.b_stored.bits
    mr, nr = _tile_over_blocks(spec, target)
    block = int(target.l2.bytes * blocking.BLOCK_SHARE) * 8 // bits
    deepest, columns = max(block // blocking.BLOCK_COLUMNS, blocking.KC_RANGE[0]), blocking.BLOCK_COLUMNS
    # Two blocks, that in use and the next one, have lines in the sets of the same columns.
    if (together := max(blocking.rows_in(target.l2, spec.n * bits // 8) // 2, blocking.KC_RANGE[0])) < deepest:
        deepest, columns = together, _BLOCK_LINES * target.l1.line * 8 // bits
    deepest = min(deepest, max(spec.k, 1))
    kc = blocking.divisor(spec.k, deepest, target.dots(*spec.multiplied)[-1].step)
    # The strip of C has its part too.
    columns = min(
        block // kc, columns, int(target.l2.bytes * blocking.BLOCK_SHARE) // (max(spec.m, 1) * spec.acc_type.bytes)
    )
    return Blocking(mr=mr, nr=nr, mc=max(spec.m, 1), nc=even(spec.n, max(columns, 1), nr), kc=kc)


def _tile_over_blocks(spec: MatmulSpec, target: Target) -> tuple[int, int]:
    """The register tile for blocks of B: few rows are one or two tiles, and otherwise lines of B are read several at a time.

    Measured on Zen 5, in GFLOP/s, with two and with four vectors: f32 12 x 2048 x 2048 249 and 209, 32 x 4096 x 4096 183 and 221, 128 x
    4096 x 4096 236 and 246; bf16 10 x 2048 x 2048 446 and 295, 40 x 2720 x 2720 421 and 482; u8 by i8 16 x 3000 x 3000 589 and 531.
    """
    lanes, dot = target.lanes(spec.acc_type), target.dots(*spec.multiplied)[-1]
    free, vectors = target.vector_registers - 1 - blocking.interleaving(dot, target), 2
    most = free // 2 - 1
    if spec.m > 2 * most:
        tiles = ((even(spec.m, min(free // each - 1, blocking.PAIRS_OF_VECTORS)), each * lanes) for each in (2, 4))
        mr, nr = min(
            tiles,
            key=lambda tile: register_tiles.result_cycles(target, spec.m, spec.n, tile, lanes=lanes, padded=False),
        )
        return mr, even(spec.n, nr, lanes)
    mr, line = even(spec.m, most), target.l1.line * 8
    while 2 * vectors * (mr + 1) <= free and vectors * lanes * spec.b_stored.bits < _LINES_OF_A_TILE * line:
        vectors *= 2
    return mr, even(spec.n, vectors * lanes, lanes)


def _comes_from_memory(spec: MatmulSpec, target: Target) -> bool:
    """Whether B is more than half of the last-level cache."""
    return spec.k * spec.n * spec.b_stored.bits > 8 * held_bytes(target) // 2


def _takes_columns(spec: MatmulSpec, target: Target) -> bool:
    """Whether `streamed` takes tiles with all rows of C: they are few, and a vector is a line."""
    if target.fma_per_cycle == 1 or target.vector_registers < register_tiles.MANY_REGISTERS or spec.b_stored.bits <= 8:
        return False
    if target.rows_ahead:  # Where loads wait for L2, the hardware follows whole rows only.
        return False
    first, from_memory, held = _ROWS_BY_COLUMNS[spec.widens]
    rows = from_memory if _comes_from_memory(spec, target) else held
    return first <= spec.m <= rows and target.vector_bits == 8 * target.l1.line


def _takes_blocks(spec: MatmulSpec, target: Target) -> bool:
    """Whether `streamed` takes blocks of B: registers hold two vectors of some rows, and whole rows do not come faster from memory."""
    least = ROWS_IN_L3 if target.vector_registers >= register_tiles.MANY_REGISTERS else _ROWS_IN_L3_NARROW
    if target.fma_per_cycle == 1 or target.rows_ahead or spec.m < least:
        return False
    return spec.m >= _ROWS_FROM_MEMORY or not _comes_from_memory(spec, target)


def shares(spec: MatmulSpec, target: Target) -> bool:
    """Whether threads share `streamed` as well as others: whole rows of B are parts of rows then, which the hardware follows less far."""
    if not target.rows_ahead or spec.prologue_b:
        return True
    rows, nbytes = _SHARED_WIDE
    return not spec.widens and (spec.m <= _SHARED_ROWS or (spec.m >= rows and spec.acc_type.bytes == nbytes))


def in_strips(blocking: Blocking, spec: MatmulSpec, target: Target, threads: int) -> Blocking:
    """The blocking for `threads` threads that each go through columns of their own, all of K: they meet once only.

    The order of a sum does not depend on the columns beside it: the same bits.
    """
    if threads == 1:
        return blocking
    nc = min(blocking.nc, even(spec.n, ceil_div(spec.n, threads), blocking.nr))
    return replace(blocking, nc=nc, threads=threads)
