# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of what strategies cost: whether one beats those after it in the table of `select`, by spec and target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilewright.schedules.models import blocking, few_columns, parts, register_tiles, streamed_blocks
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.models.sizes import held_bytes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot

_ROWS_FROM_MEMORY = 8
"""Rows from which a B from memory is packed where A is stored transposed: in f32 by 4096 x 4096, times the speed of unpacked code, 8 rows
1.28, 12 1.22, 16 1.60, 24 1.75 (Zen 5)."""
ROWS_TO_PACK = 32
"""Rows of A below which packing B, a read and a write of it, is not repaid."""
_ROWS_FAR_NARROW, _ROWS_IN_SETS_NARROW, _ROWS_NEAR_NARROW, _L2S_NARROW = 13, 8, 24, 8
"""The same with fewer than 32 registers, whose narrow tiles each read a B from beyond L2 again: of a B of more than so many times L2;
if its rows share sets of L1 too; and of a smaller one of more than half of L2. On Zen 3, f32, packed into blocks that stay in L2, times the
speed of unpacked and of streamed: 8 x 2048 x 2048 1.62, 1.14; 8 x 4096 x 1024 2.2, 1.32; 8 x 3000 x 2000 1.64, 0.63; 12 x 4096 x 1024 2.6,
1.11; 12 x 1500 x 1500 1.11, 1.13; 16 x 2048 x 2048 1.96, 1.80; 16 x 3000 x 2000 1.58, 2.3; of a B nearer 8 x 1000 x 1000 0.73, 0.99;
12 x 700 x 700 0.77, 0.97; 16 x 1000 x 1000 0.92, 1.13; 24 x 1000 x 1000 1.17, 1.14; 24 x 300 x 300 0.91, 1.28; 24 x 511 x 255 1.21, 1.12;
48 x 511 x 255 1.75, 1.27; 64 x 300 x 300 1.47, 1.2; 96 x 256 x 256 1.09, 1.20; of one of half of L2, 64 x 256 x 256, 0.96, 1.15."""
_ROWS_WIDENED = MappingProxyType({1: (12, 8, 8), 2: (8, 8, 4)})
"""The same for elements narrower than the sum, by how many are summed at once: rows from which a B is packed, and a B of so many times L2,
the third number, and more; of fewer rows that is streamed. Likewise, packed and unpacked, times the speed of streamed: bf16 2 x 1000 x 1000
0.38, 1.35; 4 x 300 x 300 0.93, 1.48; 4 x 2048 x 2048 0.83, 0.62; 8 x 128 x 128 1.35, 1.19; 8 x 512 x 512 1.13, 1.38; 8 x 1000 x 1000 1.19,
1.63; 8 x 3000 x 2000 1.19, 0.82; 12 x 300 x 300 1.41, 1.47; 12 x 2048 x 2048 1.37, 0.51; 16 x 64 x 64 1.56, 1.37; 16 x 2048 x 2048 2.1,
0.84; 24 x 1000 x 1000 1.68, 1.46; f16 8 x 128 x 128 2.1, 1.7; 16 x 1000 x 1000 2.0, 1.6; packed and streamed, times the speed of unpacked:
u8 by i8 6 x 512 x 512 0.87, 0.91; 2 x 1500 x 1500 0.90, 1.22; 4 x 2048 x 2048 0.89, 1.40; 6 x 3000 x 3000 5.2, 5.6; 8 x 64 x 64 1.30, 0.98;
8 x 512 x 512 1.36, 1.20; 8 x 3000 x 3000 1.47, 1.05; 12 x 1000 x 64 1.83, 1.15; 12 x 1500 x 1500 2.0, 1.28."""
_STREAMED_NEAR_NARROW = 8
"""Rows from which, with so few, a nearer B is read as it lies rather than streamed: likewise, unpacked over streamed, 4 x 512 x 512 1.01,
6 x 512 x 512 0.80, 6 x 1000 x 1000 0.87, 8 x 1000 x 1000 1.36, 12 x 700 x 700 1.27, 16 x 1000 x 1000 1.23."""
_ROWS_TO_LEAVE_L2 = 128
"""Rows from which, with fewer than 32 registers, a B of half of L2 is packed: a tile's strips come from L2 for every few rows. On Zen 3
with 512 KiB, f32, packed over unpacked, with 96, 200 and 400 rows, columns x depth: 512 x 512 1.42, 1.36, 1.24; 2048 x 64 1.23, 1.64,
1.86; 300 x 300 1.08, 1.13, 1.18; 128 x 512 1.05, 1.11, 1.15; 256 x 256 0.96, 1.23, 1.04; of smaller ones 200 x 200 0.93, 0.92, 0.94;
64 x 64 0.93, 0.94, 0.93."""
_CROWDED = 2
"""Times as many rows of B as have a line each in L1, from which on as many rows of A repay packing it: rows of a power of two bytes are in
the same sets. On Zen 3, unpacked and packed, in GFLOP/s, and those times: f32 16384 x 256 x 64 90, 93 (2), 1024 x 256 x 64 86, 96 (2),
1024 x 512 x 64 76, 94 (4), 256 x 128 x 256 99, 94 (4), 65536 x 64 x 64 92, 86 (0.5), 4096 x 200 x 64 94, 74 (0.1); f64 4096 x 256 x 64
36, 45 (4), 65536 x 24 x 64 40, 35 (0.1). Of 71 shapes from twice as many on, 0.92 to 2.46 of the speed of unpacked code."""
_ROWS_ON_PAGES = 1024
"""Rows from which a B as large as L2 is packed by a core that starts one multiply-add a cycle, for which L3 is fast enough: a strip of B
meets rows of A and C on as many pages. On Zen 4, f32, times the speed of packed: 4676 x 2123 x 240 0.86, 2074 x 3610 x 112 0.89,
4096 x 1024 x 768 0.95, 2048 x 2048 x 2048 0.98, 1024 x 1024 x 1024 1.00, and on two threads 0.95; of 77 with 24 to 499 rows 0.76
to 1.44, in the mean 1.07; of 25 with 500 to 1999 0.94 to 1.08, in the mean 1.02; of 15 with more 0.86 to 1.05, in the mean 0.96."""
_READS, _READS_FAR, _FAR = 320, 140, 3 / 4
"""Where a core waits for what L2 delivers, packing repays if half of the harmonic mean of M and N, which is how often each element of A and
B is read, is more than one of these divided by the bytes of an element: the second one where B takes the third one's part of L2. Measured
on Cascade Lake, random products with extents from 16 to 1500, in arrays that start with a line and in others, times the speed of the best
of packed, unpacked and streamed in the geometric mean: 260 in f32 0.981, 90 in f64 0.990."""
_WHOLE_ROWS, _DEEPER = ((32, 8, 30, 16), (16, 2, 32, 6)), 12
"""Rows up to which such a core goes through whole rows of B once, of elements as wide as the sum for each MiB of L2, and of narrower ones:
where B has as many parts of L2 as there are rows, but no fewer than the second number, nor more than the third over the MiB of L2, of as
many as the fourth says; and how many times M then K is at least, since C is read and written again for each few rows of B. On Cascade Lake,
the best of packed and unpacked, and so, in GFLOP/s: f32 1 x 1024 x 1024 7.5 and 10, 2 x 512 x 480 17 and 36, 5 x 640 x 300 55 and 65, 8 x
300 x 500 63 and 63, 8 x 1024 x 1024 32 and 53, 12 x 512 x 480 36 and 44, 14 x 640 x 300 84 and 72, 16 x 768 x 640 58 and 68, 20 x 1024 x
512 54 and 64, 24 x 768 x 640 47 and 68, 24 x 1500 x 1400 30 and 35, 28 x 2048 x 2048 33 and 36, 48 x 2048 x 2048 45 and 38, 20 x 15768 x 80
25 and 6; u8 by i8 2 x 1024 x 1024 36 and 48, 4 x 2048 x 2048 24 and 46, 12 x 2048 x 2048 29 and 61, 12 x 400 x 400 148 and 81; bf16,
widened, 8 x 473 x 332 72 and 52, 6 x 1120 x 1312 51 and 62. On Granite Rapids, with 2 MiB (2026-11-30), some 430 products of 10 to 32 rows
in f32 and f64, times the speed of unpacked: with a B of 0.8 to 0.9 of L2 0.91 to 1.08, in caches as from memory, of 1.0 to 1.1 1.05 to 1.3,
of 1.2 to 1.5 1.02 to 1.45, whatever the rows; of 200 with more rows, times the speed of what was chosen before, 33 to 48 rows 1.15 in
caches and 1.25 from memory, 49 to 64 1.07 and 1.12, 65 to 96 0.99 and 1.0."""
_PACKING_CYCLES = 0.3
"""Cycles to pack a byte of B: 12 GB/s on Zen 4, from the last-level cache as from memory, because panels are narrow."""
_PREFETCHED_CYCLES = 0.05
"""The same where blocks of B stay in L2 and the next one is prefetched meanwhile, beside two multiply-adds a cycle. L2 gives a line in two
cycles, and a panel is written and read again: on Zen 5, in f32, streamed and packed, 24 x 4096 x 1024 250 and 190 GFLOP/s,
32 x 4096 x 4096 216 and 165, 64 x 2720 x 1536 255 and 229, 128 x 4096 x 4096 249 and 221."""
_HIDDEN = 0.5
"""Part of what loads cost a streamed tile that a core hides which starts one multiply-add a cycle: on Zen 4 such tiles, of 28 to 128 rows,
are 4 to 9 % slower than packed ones, and the model of tiles has 18 %."""
_BLOCK_OF_L2, _DEEP = 1 / 16, 256
"""Of L2, the least part that a B has which is streamed from caches, and the least rows; twice as many with more than `_PAIR_ROWS` rows."""
_PAIR_ROWS = 16
_TILE_ROWS = 16
"""Rows of a tile register: fewer leave it partly empty."""
_PAIR = 2
_ROWS_IN_TILES, _ROWS_BEFORE_TILES = 6, 8
"""Rows from which packing B for tile registers is repaid where its elements are summed in pairs, and those up to which a large B is
streamed rather. Measured on Emerald Rapids in bf16, packed and the best other way, in GFLOP/s: 4 x 512 x 512 57 and 43, 6 x 512 x 512
102 and 60, 12 x 512 x 512 210 and 68; streamed 6 x 2048 x 2048 47 and 61, 8 x 2048 x 2048 62 and 62, 8 x 4096 x 1024 56 and 63,
12 x 2048 x 2048 84 and 64, 14 x 4096 x 1024 88 and 48."""
_ROWS_ALONG_K, _FEW_ROWS = 64, 8
"""Rows up to which vectors along K of a transposed B are considered, and where the target has a better instruction for panels."""
_ROWS_BEFORE_TURNED_TILES = MappingProxyType({2: (6, 4), 4: (12, 2)})
"""The same before tile registers, by how many elements they sum up at once: the most, and the vectors of K for each row. Measured on one
core of a virtual Granite Rapids (2026-11-30), the time of vectors along K over that of packed tiles: bf16 4, 6, 8, 16, 32 and 64 rows by
256 x 256 0.90, 1.30, 1.72, 3.6, 7.5 and 8.0, 1024 x 1024 0.94, 1.34, 1.50, 2.5, 3.9 and 4.3, 768 x 3072 0.42, 0.61, 0.75, 1.77, 2.9 and
3.4, 4096 x 4096 0.57, 0.92, 1.07, 1.92, 2.2 and 3.0; u8 by i8 8, 12, 16, 32 and 64 rows by 256 x 256 1.16, 1.55, 2.1, 3.3 and 4.1, 1024 x
1024 0.75, 0.92, 1.22, 1.81 and 2.4, 3072 x 768 0.45, 0.71, 0.71, 1.06 and 1.76, 4096 x 4096 0.77, 1.12, 1.27, 1.08 and 1.49."""
_ROWS_BEFORE_EXCHANGE = MappingProxyType({2: 2, 4: 3})
"""The same where the transpose is computed, which packs A alone. Measured there, the time of vectors along K over that of the
transpose: bf16 2, 3, 4 and 6 rows by 256 x 256 2.1, 2.4, 3.4 and 4.4, 1024 x 1024 1.10, 1.63, 1.85 and 2.6, 768 x 3072 0.95, 1.00, 1.12 and
1.74, 4096 x 4096 1.02, 0.95, 0.94 and 1.62; u8 by i8 3, 4, 6 and 8 rows by 256 x 256 1.05, 1.23, 1.66 and 2.2, 1024 x 1024 1.02, 1.28, 1.71
and 2.1, 3072 x 768 0.91, 0.94, 1.40 and 1.47, 4096 x 4096 0.93, 0.94, 1.17 and 1.20."""
_MANY_ROWS_ALONG_K, _ROWS_A_STEP = 512, 4
"""The same, and rows for each step over K, where a block of several sums is added up at a time. Measured on Zen 4, times the speed of
packed: f32 16 x 64 x 64 0.97, 64 x 256 x 256 1.03, 128 x 512 x 512 1.02, 256 x 1024 x 1024 1.11, 64 x 4096 x 4096 1.35; f64 16 x 64 x 64
1.15, 128 x 1024 x 1024 1.06; bf16 8 x 64 x 64 0.82, 32 x 256 x 256 0.98, 64 x 512 x 512 1.00, 128 x 1024 x 1024 1.06; u8 by i8 16 x 256 x
256 0.92, 32 x 512 x 512 0.97, 64 x 1024 x 1024 1.03, 128 x 768 x 3072 1.13. In vectors of 256 bits, f32 8 x 64 x 64 1.00, 128 x 1024 x 1024
1.04, and with an A beyond L2 256 x 1024 x 1024 0.80."""
_ROWS_OF_COMPUTED_B: Mapping[bool, int] = MappingProxyType({False: 12, True: 4})
"""The same where B is computed, for each few rows again, by whether it is stored as floats. Measured likewise, 4, 5, 6, 8 and 12 rows by
1024 x 1024: i8 to f32 1.9, 1.4, 1.5, 1.35 and 1.15, and 16, 32 and 128 rows 0.6, 0.5 and 0.43; f8E4M3FN in blocks to bf16 0.97, 0.71, 0.73,
0.56 and 0.41, 128 rows 0.22; f4E2M1FN 1.1, 0.61, 0.56, 0.66 and 0.42, 128 rows 0.17; by 4096 x 2048 f8E4M3FN 1.2, 0.97, 0.82, 0.7, 0.7."""
_ROWS_TURNED, _ROWS_A_STEP_TURNED = 64, 1.5
"""The same where signs of A are turned, for which each column is summed up beside its products: where B is packed that is done once for
all rows. Measured likewise, i8 by i8: 4 x 128 x 128 0.91, 4 x 256 x 256 1.3, 8 x 256 x 256 0.97, 16 x 256 x 256 0.74, 12 and 16 x 512 x 512
1.0, 24 x 1024 x 1024 1.07, 32 x 1024 x 1024 0.95, 48 x 2048 x 2048 1.06, 12, 32 and 64 x 4096 x 4096 2.5, 1.4 and 1.15."""
_A_OF_L2 = {False: 1 / 2, True: 2}
"""Times L2 that A is then, which each few columns of B go through: with 16 registers, and with 32. f64 128 x 1000 x 2000 1.16 times the
speed of packed, 512 x 768 x 3072 0.92 (Zen 4)."""
_MOST_ROW_TILES = 6
"""Register tiles of rows, of one vector, that read the same piece of B one after the other: its prefetch is repeated for each, and on Zen 5
more are better packed (f32 200 x 1500 x 1500 236 GFLOP/s, streamed 229)."""
_BY_LANE_READS = 20
"""Times that an element of A and B is read, half of the harmonic mean of M and N, from which on packing saves instructions where
A is taken by lane. Counted for neoverse-n1, packed to unpacked, of M = N = K: 32 1.03, 48 0.96, 64 0.94, 256 0.91."""
_ROWS_COMPUTED = 4
"""Rows up to which a B that a prologue makes is computed as it is read, and above which it is packed first. Measured on Zen 4 with B of
1024 x 1024, streamed and packed, in GFLOP/s: f8E4M3FN 1 row 70 and 30, 4 rows 112 and 103, 8 rows 136 and 139, 16 rows 117 and 173;
i8 by i4 1 row 50 and 41, 4 rows 127 and 135; bf16 by u4 1 row 24 and 18, 4 rows 69 and 66."""
_MOST_INTERLEAVINGS = 3
"""Times that pairs of elements of B are interleaved anew before packing them is repaid; groups of four are far less often."""
_MOST_FROM_L2, _MOST_FROM_L3, _B_IN_L2, _C_IN_L2, _SHALLOW = 26, 7, 3 / 4, 2, 2048
"""The same for pairs, on a core where a unit that multiplies interleaves and tiles have many rows, beside a C of so many times L2: for a B
of as little of L2, or for one of few rows. Measured on Zen 4, times the speed of packed: 86 x 240 x 240 1.08, 105 x 64 x 165 1.07,
169 x 320 x 112 1.03, 290 x 64 x 129 1.07, 344 x 832 x 64 1.05, 396 x 128 x 2065 1.08, 602 x 464 x 402 1.04, 605 x 64 x 652 1.01; in
more tiles 960 x 224 x 304 0.98; of a larger B 97 x 496 x 1755 1.15, 128 x 768 x 768 1.04, 327 x 2365 x 294 0.92, 118 x 176 x 3264 0.72;
of a larger C 355 x 2543 x 64 0.95."""
_FREE_ROWS = 8
"""Times as many rows, for each that is interleaved, where that has time of its own. Measured on Zen 5, streamed and packed, in GFLOP/s:
bf16 40 x 2720 x 2720 471 and 410, 64 x 1500 x 1500 445 and 435, 128 x 3072 x 768 449 and 461, but 24 x 4096 x 1024 350 and 394; u8 by i8
12 x 3000 x 2000 580 and 510, 16 x 3000 x 3000 569 and 540, 24 x 4160 x 1024 728 and 773."""
NARROW_PRODUCTS = 32
"""Products of a column of A by an element of B from which on packing B is repaid where elements are narrower than the sum."""


def is_plain(spec: MatmulSpec) -> bool:
    """Whether nothing is done before the product, and no more than to each element after it: every strategy fuses that."""
    return not (spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows)


def streaming(spec: MatmulSpec, target: Target, *, held: bool = True) -> bool:
    """Whether going through B once, unpacked, beats packing and its absence; without `held` only for a B that no cache holds."""
    as_stored = spec.b_packed or spec.b_transposed or spec.a_transposed
    if is_plain(spec) and as_stored:
        return False
    overlaps = target.fma_per_cycle > 1 and blocking.keeps_b(spec, target)
    sums = _sums(spec)
    return _goes_through_b_once(sums, target, overlaps=overlaps) or (held and _interleaves_b_less(sums, target))


def packing(spec: MatmulSpec, target: Target) -> bool:
    """Whether packing B beats reading it as it lies: where it comes packed, or lies across rows, nothing else reads it well."""
    return not is_plain(spec) or spec.b_packed or spec.b_transposed or _copies_b(spec, target)


def along_k(spec: MatmulSpec, target: Target) -> bool:
    """Whether vectors along K, which read each operand as it is stored, beat the packing of a B that is stored transposed.

    Each sum of a vector's elements takes about as long as packing as many elements of B as two registers of sums have, for
    each row. Measured on Zen 4, times the speed of packed, with 2, 8, 16, 32, 128 rows: in f32 256 x 256 3.7, 1.4, 1.0,
    0.8, 0.6, 1024 x 1024 5.1, 2.6, 1.8, 1.2, 1.0; bf16 256 x 256 1.5, 0.7, 0.6, 0.5, 0.4, 1024 x 1024 3.1, 1.8, 1.2, 1.0,
    0.8; u8 by i8 256 x 256 4.0, 1.7, 1.2, 0.9, 0.7, 1024 x 1024 6.8, 2.6, 1.7, 1.3, 1.0; i8 by i8, where packed panels have a
    better instruction, 2.3, 0.9, 0.6, 0.5, 0.3 and 3.1, 1.1, 0.8, 0.6, 0.4.
    """
    lanes = target.lanes(spec.acc_type)
    if few_columns.pays(spec, target):
        return True
    if spec.a_transposed or spec.b_packed or spec.k < lanes or not (spec.n == 1 or spec.b_transposed):
        return False
    if 1 in (spec.m, spec.n):
        return True
    return spec.m <= most_along_k(spec, target)


def most_along_k(spec: MatmulSpec, target: Target) -> int:
    """The most rows for which vectors along K are considered: fewer where the target has a better instruction for panels."""
    dot, usual = target.dot_along_k(spec.a_type.name, spec.b_type.name), target.dot(spec.a_type.name, spec.b_type.name)
    lanes, taken = target.lanes(spec.acc_type), 1 if dot is None else dot.depth
    in_blocks = 0 < target.shuffle_bits < target.vector_bits and not usual.is_tile and not (spec.widens and dot is None)
    share = _A_OF_L2[target.vector_registers >= register_tiles.MANY_REGISTERS]
    near = spec.m * spec.k * spec.a_type.bytes <= target.l2.bytes * share
    if spec.prologue_b:
        return min(_ROWS_OF_COMPUTED_B[spec.b_stored.kind == "float"], spec.k // (2 * lanes))
    if usual.is_tile:
        rows, vectors = _ROWS_BEFORE_TURNED_TILES[usual.depth]
        return min(rows, spec.k // (vectors * lanes))
    if taken != usual.depth:
        return min(_FEW_ROWS, spec.k // (2 * lanes))
    if in_blocks and near:
        turned = few_columns.turns(spec, target)
        rows, a_step = (_ROWS_TURNED, _ROWS_A_STEP_TURNED) if turned else (_MANY_ROWS_ALONG_K, _ROWS_A_STEP)
        return min(rows, int(a_step * spec.k / (lanes * taken)))
    return min(_ROWS_ALONG_K, spec.k // (2 * lanes))


def exchanging(spec: MatmulSpec, target: Target) -> bool:
    """Whether the transpose, computed in tile registers, beats vectors along K."""
    return parts.exchanges(spec, target) and spec.m > _ROWS_BEFORE_EXCHANGE[target.dot(*spec.multiplied).depth]


def _sums(spec: MatmulSpec) -> MatmulSpec:
    """The spec of the sums, before something is done to them, which takes little time by itself.

    Measured on Zen 4 in f32 with bias and gelu, packed or unpacked and streamed, times the speed of the plain product, which is
    streamed: 1 x 4096 x 4096 0.52 and 1.01, 8 x 4096 x 4096 0.55 and 0.96 (in bf16 0.77 and 0.99), 32 x 1024 x 1024 0.81 and
    0.98, 128 x 768 x 768 0.94 and 0.98, 128 x 768 x 3072 0.90 and 0.98.
    """
    return spec.plain_sums if spec.fused else spec


def _goes_through_b_once(spec: MatmulSpec, target: Target, *, overlaps: bool) -> bool:
    """Whether going through B once, unpacked, beats the others; `overlaps` says whether memory works while packed panels are multiplied.

    With few rows it does when B comes from memory, as more than half of the last-level cache does: the product takes as long
    as B. With more it has to beat packing, of which each byte of B takes `_PACKING_CYCLES`; the multiply-adds of a tile one
    vector wide take longer than those of packed panels. Entries of a batch that share B would go through it once each.

    Measured on Zen 4 with 16 MiB to count on, in percent of peak, streamed and the better one of packed and unpacked: for
    4096 x 4096 weights and 1 row 14 and 7, 8 rows 76 and 30, 28 rows 89 and 58, 56 rows 87 and 62, 128 rows 91 and 84; for
    2048 x 2048 ones and 8 rows 88 and 80, 32 rows 85 and 49; for 768 x 3072 ones and 128 rows 90 and 85.
    """
    element, rows = spec.acc_type, blocking.most_rows(target)
    lanes = target.lanes(element)
    narrow = target.vector_registers < register_tiles.MANY_REGISTERS
    if narrow and _copies_b(spec, target):
        return False
    if spec.n < lanes or spec.m > _MOST_ROW_TILES * rows or spec.rows_of_b != spec.m:
        return False
    if spec.widens:
        return _streaming_narrow_pays(spec, target)
    if is_one_panel(spec, target):
        return False
    if target.rows_ahead:
        return _takes_whole_rows(spec, target)
    b_bytes = spec.k * spec.n * element.bytes
    if not _copies_b(spec, target):
        return (spec.m <= rows or _is_fed_by_l3(target)) and b_bytes >= _least_streamed(spec, target)
    if not _is_far(spec, target):
        return False
    streamed, packed = streamed_blocks.streamed_blocking(spec, target), blocking.packed_blocking(spec, target)
    slower = _cycles(target, streamed, lanes) - _cycles(target, packed, lanes)
    if target.fma_per_cycle == 1 and not target.issue_per_cycle:
        slower *= 1 - _HIDDEN
    return spec.m / lanes * slower < (_PREFETCHED_CYCLES if overlaps else _PACKING_CYCLES) * element.bytes


def _takes_whole_rows(spec: MatmulSpec, target: Target) -> bool:
    """Whether a core that waits for what L2 delivers goes through whole rows of B, which the hardware follows."""
    most, fewest, enough, parts = _WHOLE_ROWS[spec.widens]
    b = spec.b_type if spec.widens else spec.acc_type
    size = target.l2.bytes / (1 << 20)
    if not spec.widens:
        most *= size
    is_large = parts * spec.k * spec.n * b.bytes >= target.l2.bytes * min(max(spec.m, fewest), enough / size)
    return spec.m <= most and is_large and spec.k >= _DEEPER * spec.m and not is_one_panel(spec, target)


def _streaming_narrow_pays(spec: MatmulSpec, target: Target) -> bool:
    """The same for elements narrower than the sum, each of which is widened or interleaved once only.

    Measured on Zen 4, streamed and the better one of packed and unpacked, in GFLOP/s, for 4096 x 4096 weights: bf16 1 row 29
    and 12, 8 rows 120 and 69, 16 rows 129 and 104, 32 rows 116 and 139; u8 by i8 1 row 74 and 45, 8 rows 114 and 99, 16 rows
    138 and 155; f16, of which every element is widened, for 1024 x 1024 ones and 8 rows 107 and 81.
    """
    dot = target.dots(spec.a_type.name, spec.b_type.name)[-1]
    if spec.k % dot.step or spec.m > _most_interleaved(spec, target, dot.depth):
        return False
    if spec.prologue_b:
        return spec.m <= _ROWS_COMPUTED
    if target.rows_ahead:
        return _takes_whole_rows(spec, target)
    if target.vector_registers < register_tiles.MANY_REGISTERS:
        return spec.m < _rows_widened(spec, target, dot) and (
            _is_far_widened(spec, target, dot) or dot.depth == spec.m == 1
        )
    if dot.depth == 1:
        return True
    if spec.k * spec.n * spec.b_type.bytes < _least_streamed(spec, target):
        return False
    # Rows of B that share the sets of L1, a way of it apart and more, come from beyond it again for a second tile of rows.
    apart = spec.n * spec.b_type.bytes > target.l1.bytes // target.l1.ways and _shares_sets(spec, target)
    sizes = streamed_blocks.streamed_blocking(spec, target)
    return not (apart and sizes.kc > 2 * target.l1.ways and spec.m > sizes.mr)


def _interleaves_b_less(spec: MatmulSpec, target: Target) -> bool:
    """Whether going through a B that caches hold once beats the others, of elements that are interleaved: unpacked for each tile of rows.

    With two tiles of rows B is interleaved twice, which pays where two rows of it are, and not four; and for a B of which packed panels
    would not stay in L2. Measured on Zen 5, times the speed of packed, unpacked and streamed: bf16 7 x 256 x 256 1.42 and 1.61,
    8 x 512 x 1024 1.49 and 1.80, 12 x 256 x 256 1.24 and 1.31, 24 x 512 x 512 1.07 and 1.09,
    20 x 640 x 2720 1.08 and 1.32, 28 x 1536 x 768 0.95 and 1.14, 24 x 2048 x 2048 0.66 and 0.91, 24 x 1024 x 256 1.05 and 0.90; with one
    tile of rows in unpacked code 5 x 512 x 512 2.14 and 1.99; of few rows of B 12 x 1024 x 64 1.18 and 1.02; u8 by i8 7 x 768 x 768 1.14
    and 1.55, 8 x 256 x 256 0.92 and 1.09, 12 x 768 x 768 1.00 and 1.18, 16 x 1024 x 1024 0.69 and 0.85; i8 by i8, whose signs are turned,
    8 x 512 x 512 0.63 and 0.72.
    """
    dots = target.dots(spec.a_type.name, spec.b_type.name)
    dot = dots[-1]
    if not spec.widens or dot.depth == 1 or dot.flip or len(dots) > 1 or spec.k % dot.step or spec.prologue_b:
        return False
    alone = spec.rows_of_b == spec.m and not target.rows_ahead
    if target.fma_per_cycle == 1 or spec.n < target.lanes(spec.acc_type) or not alone:
        return False
    sizes = streamed_blocks.streamed_blocking(spec, target)
    is_block = spec.k * spec.n * spec.b_type.bytes >= target.l2.bytes * _BLOCK_OF_L2 and spec.k >= _DEEP
    if (
        not is_block
        or sizes.kc <= 2 * target.l1.ways
        or _interleavings(spec, target) <= blocking.ceil_div(spec.m, sizes.mr)
    ):
        return False
    if spec.m <= sizes.mr:
        return True
    small = not (blocking.keeps_b(spec, target) or _shares_sets(spec, target))
    return spec.m <= 2 * sizes.mr and dot.depth == 2 and small and (spec.k >= 2 * _DEEP or spec.m <= _PAIR_ROWS)


def _shares_sets(spec: MatmulSpec, target: Target) -> bool:
    """Whether rows of B all lie in the same sets of L1."""
    return blocking.rows_in_l1(target, spec.n * spec.b_type.bytes) <= target.l1.ways


def _most_interleaved(spec: MatmulSpec, target: Target, depth: int) -> int:
    """Rows up to which `depth` rows of B are interleaved for each tile of rows, and not once, while they are packed.

    On a core that starts two multiply-adds a cycle, what interleaves has time of its own, unless the rows are in the same set of L1, which
    answers one miss of a set at a time.
    """
    most = NARROW_PRODUCTS // depth
    if _rows_repaid(spec, target, depth) < most:
        return _ROWS_BEFORE_TILES
    free = depth > 1 and target.fma_per_cycle > 1 and not _shares_sets(spec, target)
    return most * _FREE_ROWS // depth if free else most


def _least_streamed(spec: MatmulSpec, target: Target) -> int:
    """Bytes of a B that is streamed rather than read as it lies: what comes from memory, and less where blocks or columns of it are long.

    Measured on Zen 5, streamed and unpacked, in GFLOP/s: f32 2 x 1024 x 1024 86 and 104, 5 x 1024 x 1024 193 and 178, 8 x 1024 x 1024 229
    and 157, 16 x 1024 x 1024 207 and 177, 8 x 3072 x 768 215 and 158, 2 x 2048 x 2048 70 and 55, 5 x 1024 x 4096 143 and 103.
    On Zen 4, with 32 MiB of the last-level cache, 3 x 3790 x 1232 81 and 46, 9 x 1517 x 4339 99 and 52, 14 x 1760 x 3280 103 and 108,
    30 x 2272 x 2251 91 and 111, 24 x 2182 x 4768 92 and 61, 56 x 4096 x 4096 104 and 89, 128 x 4096 x 4096 105 and 104, the last two on
    two threads 184 and 164, 207 and 203.
    """
    # Blocks of few rows, where nothing larger divides K, are not worth it: bf16 12 x 3000 x 1030, in tens, 273 GFLOP/s, unpacked 330.
    deep = streamed_blocks.streamed_blocking(spec, target).kc > 2 * target.l1.ways
    if _is_fed_by_l3(target) and spec.m > blocking.most_rows(target):
        return held_bytes(target)
    if _is_fed_by_l3(target) and spec.m > blocking.most_rows(target) // 2:
        return held_bytes(target) * 3 // 4
    if target.fma_per_cycle == 1 or not deep:
        return held_bytes(target) // 2
    if spec.m < streamed_blocks.ROWS_IN_L3:
        return held_bytes(target) // 4
    if target.vector_registers < register_tiles.MANY_REGISTERS and spec.m >= _STREAMED_NEAR_NARROW:
        return _L2S_NARROW * target.l2.bytes
    return blocking.NEAR * target.l2.bytes


def _cycles(target: Target, sizes: Blocking, lanes: int) -> float:
    """Cycles of one vector multiply-add in a full register tile."""
    vectors = sizes.nr // lanes
    return register_tiles.tile_cycles(target, sizes.mr, vectors, lanes) / (sizes.mr * vectors)


def _copies_b(spec: MatmulSpec, target: Target) -> bool:
    """Whether B, unpacked, is so large that its panels come from beyond L2, and is read often enough to copy it first.

    Measured on a core with 1 MiB of L2: unpacked, a B of up to 2 MiB runs at 88 to 97 % of peak and packed at 86 to 92; one
    of 4 MiB at 80 and 90. Where elements of A are taken by lane, rows of A and B lie in registers of their own, and stepping
    through them is what packing saves.
    """
    element = spec.acc_type
    if spec.fused and spec.n % target.lanes(element):
        return True  # Unpacked, the sums of a last, short vector would wait in memory for what is done to them.
    if spec.widens:
        return _packing_narrow_pays(spec, target)
    if spec.n < target.lanes(element) or is_one_panel(spec, target):
        return False
    if target.by_lane and spec.m * spec.n > _BY_LANE_READS * (spec.m + spec.n):
        return spec.k >= 2 * target.lanes(element)
    b_bytes = spec.k * spec.n * element.bytes
    # From memory, nothing fetches a tile's rows of B ahead of their use: packing does, where nothing goes through B once.
    far = spec.a_transposed and b_bytes >= held_bytes(target) // 2
    if target.rows_ahead and not far:
        reads = _READS_FAR if b_bytes >= _FAR * target.l2.bytes else _READS
        return spec.rows_of_b * spec.n * element.bytes > reads * (spec.rows_of_b + spec.n)
    if target.vector_registers < register_tiles.MANY_REGISTERS and not far:
        return _narrow_packing_pays(spec, target, b_bytes)
    if _is_fed_by_l3(target) and not far:
        return spec.rows_of_b >= _ROWS_ON_PAGES and b_bytes >= target.l2.bytes
    return spec.rows_of_b >= (_ROWS_FROM_MEMORY if far else ROWS_TO_PACK) and _is_far(spec, target)


def _narrow_packing_pays(spec: MatmulSpec, target: Target, b_bytes: int) -> bool:
    """The same for so many bytes with fewer than 32 registers, whose tiles meet a strip of B for few rows of A each."""
    if b_bytes > _L2S_NARROW * target.l2.bytes:
        return spec.rows_of_b >= (_ROWS_IN_SETS_NARROW if _shares_sets(spec, target) else _ROWS_FAR_NARROW)
    if b_bytes > target.l2.bytes // 2:
        return spec.rows_of_b >= _ROWS_NEAR_NARROW
    large = b_bytes == target.l2.bytes // 2 or _is_crowded(spec, target, _CROWDED)
    return spec.rows_of_b >= _ROWS_TO_LEAVE_L2 and large


def _is_fed_by_l3(target: Target) -> bool:
    """Whether L3 delivers rows of B as fast as a core multiplies them, which has wide tiles and starts one multiply-add a cycle."""
    return (
        target.fma_per_cycle == 1 and target.l3 is not None and target.vector_registers >= register_tiles.MANY_REGISTERS
    )


def _is_far(spec: MatmulSpec, target: Target) -> bool:
    """Whether panels of B, unpacked, come from so far beyond L2 that they are better packed or streamed."""
    return spec.k * spec.n * spec.acc_type.bytes > blocking.NEAR * target.l2.bytes


def _is_crowded(spec: MatmulSpec, target: Target, times: int) -> bool:
    """Whether B has so many times as many rows as have a line each in L1."""
    return spec.k >= times * blocking.rows_in(target.l1, spec.n * spec.acc_type.bytes)


def is_one_panel(spec: MatmulSpec, target: Target) -> bool:
    """Whether B has no more columns than a register tile, so that it lies in the order of a packed panel already.

    Measured on Zen 4, f32, 64 columns and K 65536, in GFLOP/s unpacked, packed, streamed: 8 rows 100, 42, 89; 64 rows 109,
    76, 62; 128 rows 108, 79, 44. With 128 columns and 64 rows 50, 84, 79.
    """
    widest = target.vector_registers * target.lanes(spec.acc_type)
    return spec.n <= widest and spec.n <= blocking.unpacked_blocking(spec, target).nr


def _packing_narrow_pays(spec: MatmulSpec, target: Target) -> bool:
    """The same for elements narrower than the sum, which unpacked are widened or interleaved again for every tile of rows.

    Measured on Zen 4, unpacked and packed, in GFLOP/s: bf16 8x1024x1024 160 and 117, 16x2048x2048 130 and 125; u8 by i8
    8x1024x1024 259 and 259, 16x2048x2048 223 and 254, with 8 columns 2048x8x2048 201 and 160, 32768x8x512 87 and 130; i8
    by i8, for which signs are turned, 113 and 166 and 73 and 132.
    """
    dot = target.dots(spec.a_type.name, spec.b_type.name)[-1]
    whole = target.dot(spec.a_type.name, spec.b_type.name)
    by_vectors = target.masked and dot.depth > 1 and not whole.is_tile
    if by_vectors and blocking.is_near(spec, target) and (spec.k % dot.step or spec.n >= target.lanes(spec.acc_type)):
        return _interleavings(spec, target) > _interleavings_repaid(spec, target, dot)
    if spec.k % dot.step:
        return spec.rows_of_b >= NARROW_PRODUCTS // dot.depth // 2
    if spec.n < target.lanes(spec.acc_type):
        # A tile of sixteen columns takes as long as one row of them in vectors.
        return spec.rows_of_b >= _TILE_ROWS if whole.is_tile else dot.flip
    if target.vector_registers < register_tiles.MANY_REGISTERS and not spec.prologue_b:
        return spec.rows_of_b >= _rows_widened(spec, target, dot)
    return spec.rows_of_b >= _rows_repaid(spec, target, dot.depth)


def _rows_widened(spec: MatmulSpec, target: Target, dot: Dot) -> int:
    """Rows from which packing them is repaid with fewer than 32 registers."""
    near, far, _ = _ROWS_WIDENED[min(dot.depth, 2)]
    return far if _is_far_widened(spec, target, dot) else near


def _is_far_widened(spec: MatmulSpec, target: Target, dot: Dot) -> bool:
    """Whether B is then so large that few rows stream it."""
    _, _, times = _ROWS_WIDENED[min(dot.depth, 2)]
    return spec.k * spec.n * spec.b_type.bytes >= times * target.l2.bytes


def _rows_repaid(spec: MatmulSpec, target: Target, depth: int) -> int:
    """Rows of B's products from which packing it is repaid, of elements of which `depth` are summed at once."""
    in_pairs = target.dot(*spec.multiplied).is_tile and depth == _PAIR
    return _ROWS_IN_TILES if in_pairs else NARROW_PRODUCTS // depth


def _interleavings_repaid(spec: MatmulSpec, target: Target, dot: Dot) -> int:
    """The most times that elements of B are interleaved anew before packing them is repaid."""
    b, c = spec.k * spec.n * spec.b_type.bytes, spec.m * spec.n * spec.acc_type.bytes
    if target.passes == 1 or dot.depth > 2 or dot.flip or c > _C_IN_L2 * target.l2.bytes:
        return _MOST_INTERLEAVINGS // (dot.depth - 1)
    if b <= _B_IN_L2 * target.l2.bytes:
        return _MOST_FROM_L2
    return _MOST_FROM_L3 if spec.k <= _SHALLOW else _MOST_INTERLEAVINGS


def _interleavings(spec: MatmulSpec, target: Target) -> int:
    """How often each element of B is interleaved unpacked: once for each tile of rows that meets it.

    Measured on Zen 5, times the speed of packed, with up to 50 rows and 1024 columns, and up to 1024 along K: bf16 in one tile 1.3 to 2.1,
    two 0.95 to 1.4, three 0.97 to 1.27, four and five 0.90 to 1.17; u8 by i8 in one 0.9 to 3.9, two 0.5 to 1.2 where K is more than 36.
    Of a B that L2 does not nearly hold fewer are repaid: bf16 18 x 2048 x 2048, in three, 0.61.
    """
    return blocking.ceil_div(spec.m, blocking.unpacked_blocking(spec, target).mr) * (spec.rows_of_b // spec.m)
