# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of a schedule's blocks, and the model that chooses them from a target's data.

The model follows Low, Igual, Smith and Quintana-Ortí, "Analytical Modeling Is Enough for High-Performance BLIS" (ACM
TOMS 43(2), 2016): the register tile keeps the multiply-add units busy, a block of A stays in L2, a block of B in the
last-level cache. It departs from it in three places, all measured. The register tile is wide, with few rows, and the
one that wastes least on the problem at hand (its tails are padded); a panel of B so wide streams from L2 without loss, so
it need not stay in L1, and a longer kc reads and writes C less often. And block sizes are evened out, so that the last
block is about as large as the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from math import gcd
from typing import Any

from tilewright.dims import most as most_of
from tilewright.dtypes import DType
from tilewright.schedules.models import (
    finishing,
    lone_panel,
    passing,
    prefetching,
    strips_of_a,
    tiled,
    tiles,
    unrolling,
)
from tilewright.schedules.models.register_tiles import (
    FOR_B,
    FOR_PANELS_AHEAD,
    MANY_REGISTERS,
    MANY_ROWS,
    SPARE,
    at_width,
    lanes_for,
    may_be_narrow,
    panel_bytes,
    panel_lanes,
    register_tile,
)
from tilewright.schedules.models.sizes import MAX_SIZE, Blocking, ceil_div, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Cache, Target
from tilewright.targets.dots import Dot

_PANEL_SHARE = 1 / 4
"""Part of L2 for one panel of B, which is read once for each tile of rows."""
_A_SHARE = 1 / 2
"""Part of L2 for the block of A; the rest is for the panels of B and C that pass through."""
_B_SHARE = 1 / 8
"""Part of the last-level cache for the block of B: other cores, and other machines on this one, use it too."""
BLOCK_SHARE, BLOCK_COLUMNS = 1 / 4, 512
"""Part of L2 for a block of B that few rows of A meet, which is used once and goes no further, and about how many columns it has, which
memory delivers side by side. Measured on Zen 5, 32 rows by 4096 x 4096 in bf16, blocks of 128 x 512, 256 x 512, 512 x 512,
256 x 1024 elements: 317, 314, 293, 299 GFLOP/s; f32 165, 156, 158, 158; u8 by i8 558, 590, 609, 593."""
_BLOCK_SHARE_NARROW = 3 / 8
"""The first one of these with fewer than 32 registers, where B is more than `_TIMES_L2` times L2. On Zen 3 in f32, 4 x 24, times the speed
of blocks of 512 x 1032 to 2064: from memory, 11 GB/s beside other programs, 24 x 4096 x 1024 1.30, 64 x 2048 x 2048 1.30, 48 x 1500 x 1500
1.17, 100 x 1000 x 2000 1.21, 128 x 3072 x 768 1.07; in caches 96 x 1024 x 1024 1.10, 128 x 768 x 768 1.06, 24 x 768 x 768 0.99,
64 x 600 x 600 0.93; from an L3 of its own 64 x 2048 x 2048 0.93, 128 x 3072 x 768 0.88, 24 x 4096 x 1024 0.98."""
_STRIP_SHARE = 1 / 2
"""Part of L2 for the sums of those rows by such a block."""
B_BLOCK_LIMIT = 4 << 20
"""Bytes of a block of B at most: it bounds the scratch memory, whatever the last-level cache."""
_TIMES_L2 = 4
"""Times L2 that it has at most, as other programs share what is beyond: on Zen 3, with 1, 2 and 4 MiB, in GFLOP/s, f32 2048 x 2048 x 2048
77, 77, 72, 512 x 4096 x 1024 73, 74, 71."""
KC_RANGE = (128, 1024)
"""A short kc reads and writes C too often; a long one gains nothing more."""
_ROW_BYTES = 4 * KC_RANGE[1]
"""Bytes of a packed row of A of narrow elements that is as long: they are multiplied in less time, and C takes as long. On Zen 4, with kc
1024, 2048 and 4096: u8 by i8 4096 x 4096 x 4096 1, 1.04, 1.07, 2048 x 2048 x 2048 1, 1.05; bf16 2048 x 2048 x 2048 1, 1.03."""
_LONGEST_NEAR = 512
"""The longest kc where few registers, or a core that waits for L2, make panels that stay near pay. Measured on Cascade Lake, kc 1024 and
512, in GFLOP/s: f32 1536 x 1536 x 1536 96 and 105, 384 x 1024 x 1024 85 and 98, 512 x 4096 x 1024 74 and 93; f64 1024 x 1024 x 1024 28 and
34, 384 x 1024 x 1024 31 and 41. On Zen 3, whose L2 has half as much, f32 squares gain 6 %; BLIS has 512 there too (config/zen3)."""


PAIRS_OF_VECTORS = 11
"""Rows at most of an unpacked tile two vectors wide. LLVM does two steps over k at once there, and has the elements of A of both
in registers: with 12 to 14 rows sums are spilled (f32, K 64, Zen 4: 10 rows 114 GFLOP/s, 11 114, 12 100, 13 80, 14 82)."""

_MORE_BLOCKS = 4
"""Blocks of K that are taken more, at most, so that rows of a panel do not share the sets of a cache."""

_ROWS_OF_A_TILE = 64
"""Rows that no tile has more of."""

_FAR_VECTOR, _FAR_SHARE = 0.5, 1 / 2
"""Cycles that a vector of a B takes more which is more than this part of L2. Measured on Zen 5, tiles chosen with it, times the speed of
those chosen without: f32 8 x 512 x 512 1.44, 10 x 1024 x 512 1.63, 14 x 768 x 768 1.46, 16 x 1024 x 256 1.20, 17 x 512 x 512 1.03; f64
10 x 400 x 400 1.72. In a loop over two whole tiles and more they lose: f32 18 x 512 x 512 0.54, 24 x 768 x 768 0.81, 128 x 384 x 384
0.74."""
_ASKED = 64
"""Specs whose sizes stay known: a choice of a strategy asks for them several times."""
NEAR = 2
"""Times L2 that a B may take before its panels come from beyond it."""
_FAR, _WIDE_VECTORS = 8, 3
"""Times L2 that one may take which is interleaved once, for all rows of A, and the vectors of strips of which a row is most of a line. On
Zen 4, so and packed, in GFLOP/s: bf16 20 x 3000 x 1000 215 and 173, 24 x 1500 x 1500 209 and 152; u8 by i8 8 x 2048 x 2048 301 and 183,
8 x 4096 x 1024 259 and 179, 24 x 1500 x 1500 372 and 337; in narrow strips of rows in the same sets bf16 12 x 4096 x 1024 52 and 108."""
_INTERLEAVED_SUMS, _INTERLEAVED_VECTORS = 24, 4
"""Registers of sums of a tile for which rows of B are interleaved, and vectors of columns, at most. Measured on Zen 4, where interleaving
takes a unit that multiplies, in GFLOP/s, with 6 x 64 or 4 x 64 sums, so, and packed: bf16 24 x 768 x 768 208, 230, 183; 20 x 600 x 600
195, 224, 178; u8 by i8 8 x 1024 x 1024 275, 352, 232; 16 x 512 x 512 326, 391, 321. Of 45 shapes with 4 to 64 rows, times the speed of
what was chosen without, the mean is 1.11 over the 34 that change in bf16, and 1.15 over the 20 in u8 by i8."""
_FEW_VECTORS, _OTHER_REGISTERS = 3, 4
"""Vectors of columns of such tiles, and the registers for B and an element of A."""

_STREAMS = 16
"""Rows at most of an unpacked tile one vector wide, for which rows of A are most of what is read. Measured on Zen 4 in f32, with as many
rows as there are registers for, 30, and with 16: 2048 x 8 x 1000 68 and 99 GFLOP/s, 2048 x 4 x 1000 33 and 48, 1000 x 5 x 1111 61 and
62, 1000 x 12 x 300 82 and 82, 300 x 8 x 100 101 and 99."""

_BESIDE_ROWS = 6
"""Registers beside the sums of an unpacked tile one vector wide. With twelve rows and 16 registers sums are spilled where steps are
unrolled: f32 300 x 8 x 100 32 GFLOP/s, with ten 74 (Zen 3)."""


_ODD_LINE = 8
"""Cycles that a line of C takes more where tiles have an odd number of them side by side, on a core that waits for L2, and fetches lines in
pairs. On Cascade Lake, f32, with 6 x 64 sums, 8 x 32, 5 x 80, 8 x 48 and 9 x 48, in GFLOP/s: 480 x 736 x 16 104, 71, 58, 52, 54; 481 x 741
x 17 78, 66, 49, 45, 43; 600 x 1000 x 40 102, 87, 95, 59, 92."""
_SHORT, _SHORT_ROWS = 64, 8
"""A K up to which such a core waits for C, and the rows of its packed tiles then, at most: f32 480 x 736 x 16 with 12 x 32 sums 74, with
8 x 48 and 6 x 64 87 GFLOP/s; 1108 x 1425 x 19 77, 82 and 73."""
_TOO_DEEP = 1.5
"""Times what L2 has lines for that a strip has to be, on a core that waits for it, to be cut: half of its lines, so that the next strip has
the others. On Cascade Lake, f32, unpacked, in GFLOP/s, rows in blocks of 1024, 512, 256 and 128: 64 x 256 x 1024 77, 113, 112; 32 x 512 x
1024 45, 63, 93; 128 x 512 x 1024 58, 83, 109; 64 x 1024 x 1024 46, 47, 66, 86; cut in vain, of what was before: 108 x 434 x 536 0.92, 224 x
48 x 624 0.93, f64 119 x 60 x 556 0.84."""


@cache
def rows_in_l1(target: Target, stride: int) -> int:
    """How many rows `stride` bytes apart can have a line each in L1, of no more than a tile has.

    Few where the stride is about a multiple of a large power of two, so that they are all in the same sets.
    """
    sets, taken = target.l1.bytes // target.l1.ways // target.l1.line, Counter[int]()
    for row in range(_ROWS_OF_A_TILE):
        at = row * stride // target.l1.line % sets
        if taken[at] == target.l1.ways:
            return row
        taken[at] += 1
    return _ROWS_OF_A_TILE


def rows_in(cache: Cache, stride: int) -> int:
    """How many rows `stride` bytes apart can have the same line each in a cache."""
    way = cache.bytes // cache.ways
    return cache.ways * (way // max(gcd(stride, way), cache.line))


def _packed_tile(spec: MatmulSpec, target: Target, m: int, *, lanes: int = 0, nr: int | None = None) -> tuple[int, int]:
    """The tile of the microkernel for m rows, of vectors of `lanes`."""
    dot = target.dot(*spec.multiplied)
    core = at_width(target, spec.acc_type, lanes or target.lanes(spec.acc_type))
    ahead = strips_of_a.reads_ahead(spec, target)
    given = {
        "lanes": lanes,
        "fused": dot.adds,
        "rows": dot.rows,
        "products": spec.products,
        "held": SPARE * ahead,
        "most": _SHORT_ROWS if ahead and most_of(spec.k) < _SHORT else MAX_SIZE,
        "steps": _steps(spec, dot),
        **_waiting(spec, target, ahead=ahead),
    }
    return register_tile(core, spec.acc_type, m, spec.n, nr=nr, **given)


def packed_blocking(spec: MatmulSpec, target: Target, *, stands_for_open: bool = False) -> Blocking:
    """The sizes of strategy `packed` for `spec` on `target`, or for products with open extents, for which it stands: their A is packed.

    Where B comes packed, none of nr, kc and nc depends on M, so that one packed B serves products of every M.
    """
    dot, element_bytes = target.dot(*spec.multiplied), panel_bytes(spec, target)
    if dot.is_tile:
        return tiled.packed_blocking(spec, target)
    if finishing.may(spec):
        sums = packed_blocking(spec.plain_sums, target, stands_for_open=stands_for_open)
        if finishing.pays(spec, target, sums, element_bytes):
            return finishing.blocks(sums, spec, target, element_bytes, _most_of_b(target), is_open=stands_for_open)
    # Of what is summed along a row of C, columns make parts that are not to depend on M.
    in_rows = spec.deterministic and spec.has_rows
    lanes = target.lanes(spec.acc_type) if stands_for_open else panel_lanes(spec, target)
    mr, nr = _packed_tile(spec, target, MANY_ROWS if spec.b_packed or in_rows else spec.m, lanes=lanes)
    deep = lone_panel.depth(spec, target, nr)
    in_place = deep > 0 and not stands_for_open and lone_panel.may_read_a(spec, target)
    ahead = not (in_place or deep) and strips_of_a.reads_ahead(spec, target)
    few = _is_strip(spec, target) and not (spec.b_packed or spec.deterministic)
    if ahead and not spec.b_packed and strips_of_a.wanted(spec, target, element_bytes):
        kc = even(spec.k, strips_of_a.depth(element_bytes, few=few))
    else:
        kc = _packed_depth(spec, target, (mr, nr), element_bytes)
    if in_place or (spec.b_packed and deep):
        kc = deep
    if spec.fused:  # The sums stay in registers over all of K.
        kc = max(spec.k, 1)
    if spec.b_packed:
        # A panel of one group of rows would be no loop, and its packing not to be told from the product.
        kc = max(kc, 2 * dot.depth)
        mr, _ = _packed_tile(spec, target, spec.m, lanes=lanes, nr=nr)
        if deep:
            mr = min(mr, max(rows_in_l1(target, kc * element_bytes) - 1, 1), _STREAMS)
    if in_place:
        most = min(max(rows_in_l1(target, spec.k * element_bytes) - 1, 1), _STREAMS, max(spec.m, 1))
        core = at_width(target, spec.acc_type, lanes)
        given = {"lanes": lanes, "padded": False, "fused": dot.adds, "steps": _steps(spec, dot)}
        mr, _ = register_tile(core, spec.acc_type, spec.m, spec.n, nr=nr, most=most, **given)
    # A padded C of one tile would take the place of a panel of B of its shape. Tile registers' are of other types.
    if spec.b_packed and mr == kc:
        mr -= dot.rows  # a whole number of the instruction's rows, or it would take another one, and other panels
    if ahead and strips_of_a.cuts_k(spec, target, element_bytes):
        return strips_of_a.blocks(spec, target, (mr, nr, kc), element_bytes, few=few)
    b_bytes = _most_of_b(target)
    if keeps_b(spec, target) and not in_place:
        narrow = target.vector_registers < MANY_REGISTERS
        b_bytes = int(target.l2.bytes * (_BLOCK_SHARE_NARROW if narrow else BLOCK_SHARE))
        if not spec.deterministic:
            kc = even(spec.k, max(b_bytes // (BLOCK_COLUMNS * element_bytes), KC_RANGE[0]))
    # Panels are padded to whole steps of the instruction.
    depth_bytes = ceil_div(kc, dot.step) * dot.step * element_bytes
    # Panels of several matrices like B are used together.
    b_bytes //= spec.products
    nc = even(spec.n, b_bytes // depth_bytes, nr)
    # A block of all rows of A is read where it lies.
    mc = most_of(spec.m) if in_place else rows_of_a(spec, target, depth_bytes, mr)
    sizes = Blocking(mr=mr, nr=nr, mc=mc, nc=nc, kc=kc)
    if ahead:
        return strips_of_a.as_deep_as_k(sizes, spec, target, depth_bytes, is_open=stands_for_open)
    if not stands_for_open:
        sizes = unrolling.unrolled(sizes, spec, target)
    if spec.has_rows:
        return passing.with_rows(sizes, spec, target)
    return sizes if in_place else replace(sizes, mc=passing.rows(spec, target, sizes, element_bytes))


def _most_of_b(target: Target) -> int:
    """Bytes of a block of B at most that passes by blocks of A."""
    last = target.l3 or target.l2
    return min(int(last.bytes * _B_SHARE), B_BLOCK_LIMIT, _TIMES_L2 * target.l2.bytes)


def _packed_depth(spec: MatmulSpec, target: Target, tile: tuple[int, int], element_bytes: int) -> int:
    """The depth of blocks where panels of B, of a tile's columns, pass by a block of A that waits in L2."""
    mr, nr = tile
    kc = even(spec.k, depth(target, nr * element_bytes, element_bytes))
    if spec.b_packed or not spec.deterministic:
        # Otherwise kc is not to depend on M, as mr does where B does not come packed.
        kc = _with_rows_apart(spec.k, kc, mr, target, element_bytes)
    return kc


def keeps_c(spec: MatmulSpec, target: Target) -> bool:
    """Whether strategy `packed` takes a block of C through all of K before the next one, so that it waits in L2: tile registers want that.

    A batch that shares its B packs it for all entries, and then takes them one after the other.
    """
    shared = spec.batch and len(spec.b_axes) < len(spec.batch)
    return target.dot(*spec.multiplied).is_tile and not (spec.fused or spec.has_rows or shared)


def stages_c(spec: MatmulSpec, target: Target, sizes: Blocking) -> bool:
    """Whether the sums of such a block wait in scratch: where rows of C are so far apart that those of a tile share sets of L1.

    As those of a whole block then share sets of L2. Blocks of scratch are copied in whole vectors: they divide the columns.
    """
    if spec.dynamic or sizes.kc >= spec.k or not keeps_c(spec, target):
        return False
    apart = rows_in_l1(target, spec.n * spec.acc_type.bytes) >= tiles.AMX_ROWS
    return not apart and spec.n % sizes.nc == 0 and sizes.nc % target.lanes(spec.acc_type) == 0


def keeps_b(spec: MatmulSpec, target: Target) -> bool:
    """Whether blocks of B stay in L2 from when they are packed to when all rows of A have met them.

    With something done to the sums blocks are as deep as K, and few columns of those fit: in f32 32 x 4096 x 4096 took 1.15 times as long.
    """
    if spec.b_packed or spec.fused or spec.has_rows:
        return False
    # Panels that are one block come from the last-level cache, and C is written less often: bf16 96 x 640 x 2720 437 and 382 GFLOP/s.
    if most_of(spec.k) * most_of(spec.n) * spec.b_type.bytes <= min(B_BLOCK_LIMIT, _TIMES_L2 * target.l2.bytes):
        return False
    return _is_strip(spec, target)


def _is_strip(spec: MatmulSpec, target: Target) -> bool:
    """Whether the sums of all rows by `BLOCK_COLUMNS` have their part of L2."""
    return most_of(spec.m) * BLOCK_COLUMNS * spec.acc_type.bytes <= target.l2.bytes * _STRIP_SHARE


def depth(target: Target, row_bytes: int, element_bytes: int = _ROW_BYTES // KC_RANGE[1]) -> int:
    """The depth of blocks with which a panel of B, with rows of so many bytes, has its part of L2; A has elements of so many in panels."""
    shortest, longest = KC_RANGE[0], max(_ROW_BYTES // element_bytes, KC_RANGE[1])
    if target.rows_ahead or target.vector_registers < MANY_REGISTERS:
        longest = _LONGEST_NEAR
    return min(max(int(target.l2.bytes * _PANEL_SHARE) // row_bytes, shortest), longest)


def rows_of_a(spec: MatmulSpec, target: Target, depth_bytes: int, unit: int) -> int:
    """The rows of a block of A, a multiple of `unit`, each of so many bytes, with which it has its part of L2."""
    return even(spec.m, int(target.l2.bytes * _A_SHARE) // depth_bytes, unit)


def _with_rows_apart(k: int, kc: int, mr: int, target: Target, element_bytes: int) -> int:
    """The depth of blocks, `kc` or less, with which the mr rows of a panel of A, each kc elements long, have their lines in L1.

    Measured on Zen 4, so and with kc = 1024: 768 x 352 x 4096 in f32 (mr 14) 102 and 81 GFLOP/s, 2048 x 16 x 2048 in bf16 (mr 27) 117
    and 87.
    """
    blocks = ceil_div(max(k, 1), kc)
    depths = (even(k, ceil_div(max(k, 1), count)) for count in range(blocks, blocks + _MORE_BLOCKS))
    return next((depth for depth in (kc, *depths) if mr <= rows_in_l1(target, depth * element_bytes)), kc)


@lru_cache(maxsize=_ASKED)
def unpacked_blocking(spec: MatmulSpec, target: Target, *, stands_for_open: bool = False) -> Blocking:
    """The sizes of strategy `unpacked` for `spec` on `target`, or for products with open extents, for which it stands.

    The rows of A are read side by side where they lie, so no more of them than L1 holds a line of beside one of B: 2048 x 8 x 2048 in
    f32, with 6, 7, 8, 10 and 16 rows, 8 ways, runs at 81, 90, 76, 63 and 27 GFLOP/s (Zen 4).

    Columns of B that a tile goes down, and tiles of more rows again, stay in L2 meanwhile: 64 x 64 x 65536 in f32 runs at 169 GFLOP/s in
    blocks of 1024 rows, and at 135 at once (Zen 5).
    """
    lanes = lanes_for(spec, target, narrowed=not stands_for_open)
    held = rows_in_l1(target, spec.k * spec.a_type.bytes)
    most = min(max(spec.m, 1), max(held - 1, 1) if held < _ROWS_OF_A_TILE else held)
    alone = target.vector_registers - _BESIDE_ROWS
    if spec.n <= lanes:
        most = min(most, _STREAMS, alone)
    dot = target.dots(*spec.multiplied)[-1]
    far = _FAR_VECTOR if _reads_b_from_afar(spec, target) else 0.0
    given = {
        "lanes": lanes,
        "padded": False,
        "held": interleaving(dot, target),
        "far": far,
        "steps": _steps(spec, dot) if _in_l1_again(spec, target) else 0,
        **_waiting(spec, target),
    }
    core = at_width(target, spec.acc_type, lanes)
    ends_narrow = not stands_for_open and core.passes > 1 and may_be_narrow(spec, target)
    tile_of = partial(register_tile, core, spec.acc_type, spec.m, spec.n, **given, ends_narrow=ends_narrow)
    mr, nr = tile_of(most=most)
    if nr == 2 * lanes < spec.n + lanes and mr > PAIRS_OF_VECTORS:
        mr, nr = tile_of(most=min(most, PAIRS_OF_VECTORS))
    if nr == lanes and target.vector_registers < MANY_REGISTERS and mr > alone:
        mr, nr = tile_of(most=alone)
    if not stands_for_open:
        mr, nr = _interleaved_tile(spec, target) or (mr, nr)
    kc, deepest = max(spec.k, 1), depth(target, nr * spec.b_type.bytes)
    if target.rows_ahead:
        deepest = min(deepest, max(rows_in(target.l2, spec.n * spec.b_type.bytes) // 2, KC_RANGE[0]))
    waits = target.rows_ahead and kc >= _TOO_DEEP * deepest and spec.n > nr
    if spec.m > mr and (waits or kc * nr * spec.b_type.bytes > target.l2.bytes * _PANEL_SHARE):
        block = divisor(kc, deepest, dot.step)
        kc = block if 2 * block > deepest else kc
    sizes = Blocking(mr=mr, nr=nr, mc=max(spec.m, 1), nc=max(spec.n, 1), kc=kc)
    if not stands_for_open:
        sizes = unrolling.unrolled(sizes, spec, target)
    ahead = 0 if stands_for_open else prefetching.usual_rows_ahead(spec, target, sizes)
    return replace(sizes, order=int(_goes_through_a_once(spec, target, sizes)), rows_ahead=ahead)


def is_near(spec: MatmulSpec, target: Target) -> bool:
    """Whether strips of B, unpacked, come from L2 or from not far beyond it, or from farther once, for all rows."""
    tile = _interleaved_tile(spec, target)
    return _bytes_of_b(spec) <= NEAR * target.l2.bytes or (tile is not None and spec.m <= tile[0])


def _bytes_of_b(spec: MatmulSpec) -> int:
    return spec.k * spec.n * spec.b_type.bytes


def _interleaved_tile(spec: MatmulSpec, target: Target) -> tuple[int, int] | None:
    """The tile where what interleaves rows of B takes a unit that multiplies: of many rows, as that is done once for all of them.

    None where there is no such unit; and for a B from afar that would be read more than once, or in narrow strips of rows that share sets
    of L1.
    """
    dot, lanes = target.dots(*spec.multiplied)[-1], target.lanes(spec.acc_type)
    if target.passes == 1 or dot.depth == 1 or dot.flip:
        return None
    mr = even(spec.m, min(rows_in_l1(target, spec.k * spec.a_type.bytes), _INTERLEAVED_SUMS))
    vectors = min(max(_INTERLEAVED_SUMS // mr, 1), _INTERLEAVED_VECTORS, ceil_div(max(spec.n, 1), lanes))
    if _bytes_of_b(spec) > NEAR * target.l2.bytes:
        apart = rows_in_l1(target, spec.n * spec.b_type.bytes) == _ROWS_OF_A_TILE
        if spec.m > mr or _bytes_of_b(spec) > _FAR * target.l2.bytes or not (apart or vectors >= _WIDE_VECTORS):
            return None
    return mr, vectors * lanes


def _goes_through_a_once(spec: MatmulSpec, target: Target, sizes: Blocking) -> bool:
    """Whether the loop over rows is the outer one: A is read, and C written, once, and B again for each few rows, from L2 or nearer.

    Where rows of C have more lines than the block has steps, several are prefetched in a step, which may spill sums. Measured on Zen 3 with
    512 KiB of L2, times the speed of the other order: f32 65536 x 64 x 64 1.40, 65536 x 200 x 16 1.78, 16384 x 128 x 48 1.08,
    4096 x 400 x 48 0.93; f64 65536 x 24 x 64 3.5, 16384 x 128 x 48 1.53, 4096 x 96 x 100 1.04, 1024 x 232 x 100 0.96. Of 120 shapes for
    which this holds, the mean is 1.34 and the least 0.93; 4096 x 200 x 16 in f64, for which it does not, ran at half the speed.
    """
    if sizes.mr >= spec.m or sizes.nr >= spec.n:
        return False
    a, b = spec.m * sizes.kc * spec.a_type.bytes, sizes.kc * spec.n * spec.b_type.bytes
    lines = ceil_div(spec.n * spec.c_type.bytes, target.l1.line)
    return b <= target.l2.bytes // 2 and a > target.l2.bytes and lines <= sizes.kc


def interleaving(dot: Dot, target: Target) -> int:
    """Registers that rows of B take while they are interleaved: a row, and what says how, for whole vectors and for a last, short one.

    Without them LLVM moves all sums about in every step: bf16 18 x 44 x 390 with 9 x 48 sums took 1.7 times as long as packed (Zen 5).
    """
    return dot.depth // 2 + 1 if dot.depth > 1 and target.vector_registers >= MANY_REGISTERS else 0


def _waiting(spec: MatmulSpec, target: Target, *, ahead: bool = False) -> dict[str, Any]:
    """What `register_tile` is told of a core that waits for a B of more than half of L1, and for a C of more than its part of L2.

    Panels of B may be prefetched `ahead`.
    """
    m, n, k = (max(most_of(each), 1) for each in (spec.m, spec.n, spec.k))
    if not target.rows_ahead:
        return {}
    far = m * n * spec.acc_type.bytes > target.l2.bytes * _PANEL_SHARE and not spec.widens
    waits = (FOR_PANELS_AHEAD if ahead else FOR_B) if k * n * spec.b_type.bytes > target.l1.bytes // 2 else None
    return {"waits": waits, "odd": _ODD_LINE / k if far and not ahead else 0.0}


def _in_l1_again(spec: MatmulSpec, target: Target) -> bool:
    """Whether columns of B that a tile went down are in L1 for the next tile of rows, or are in too few of its sets.

    Where they are not, a tile of fewer rows reads them more often: 3 x 32 and 5 x 40 sums by 1024 x 1024 x 64 in f64 0.86 (Zen 4).
    """
    rows = rows_in_l1(target, most_of(spec.n) * spec.b_type.bytes)
    return not spec.widens and rows >= min(most_of(spec.k), _ROWS_OF_A_TILE)


def _steps(spec: MatmulSpec, dot: Dot) -> int:
    """The steps over K of a register tile."""
    return ceil_div(max(most_of(spec.k), 1), dot.depth)


def _reads_b_from_afar(spec: MatmulSpec, target: Target) -> bool:
    """Whether a B beyond L2 is read for each of two tiles of rows, which tiles of more rows and fewer columns read less often.

    Of more tiles of rows later ones find its columns nearer. A core that starts one multiply-add a cycle waits for those.
    """
    rows = 2 * ((target.vector_registers - _OTHER_REGISTERS) // _FEW_VECTORS)
    if target.fma_per_cycle == 1 or target.issue_per_cycle or most_of(spec.m) >= rows:
        return False
    return most_of(spec.k) * most_of(spec.n) * spec.b_type.bytes >= target.l2.bytes * _FAR_SHARE


def row_gap(target: Target, element: DType, row: int = 0) -> int:
    """Elements by which a row of a buffer is longer than needed: three cache lines, so that rows lie in different sets.

    Given how many elements a `row` has, rows are whole lines: vectors cross none, and threads that have columns of their own share none.
    Measured on Granite Rapids, `streamed` with an N of no whole lines, times the speed without, on one thread and on two: f32 1.04 and
    1.31, f64 1.02 and 1.11, bf16 1.05 and 1.15.
    """
    in_line = target.l1.line // element.bytes
    return 3 * in_line + -row % in_line


def most_rows(target: Target) -> int:
    """Rows of a register tile of one vector: the others are for B, an element of A and what the compiler needs."""
    return target.vector_registers - 4


def divisor(k: int, most: int, unit: int) -> int:
    """The depth of blocks, up to `most`, that divides K, a multiple of `unit` if K is one; even parts of K where it would be far less.

    Blocks of several elements a step have to divide K.
    """
    step = unit if k % unit == 0 else 1
    least = most // 2 if step == 1 else 1
    found = (size for size in range(most // step * step, least, -step) if k % size == 0)
    return next(found, even(k, most, step))


def overridden(sizes: Blocking, given: Mapping[str, int], spec: MatmulSpec) -> Blocking:
    """The sizes with `given` ones by name; a strip of A has the rows of a tile, whatever that has now."""
    found = sizes.replaced(given)
    strips = strips_of_a.are(sizes, most_of(spec.m)) and "mc" not in given
    return replace(found, mc=found.mr) if strips else found
