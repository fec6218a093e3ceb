# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What strategies make of dynamic extents: which calls of a dynamic kernel each takes, by how many variants of its code, of which sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isqrt

from tilewright.dims import MAX_EXTENT, Dim, most
from tilewright.schedules.calls import Test
from tilewright.schedules.models import few_columns, pays, strip_form, strips_of_a
from tilewright.schedules.models.blocking import (
    Blocking,
    ceil_div,
    depth,
    even,
    keeps_b,
    most_rows,
    panel_bytes,
)
from tilewright.schedules.models.sizes import held_bytes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

DEPTHS = (1040, 4112)
"""Rows of B up to which panels hold all of K, as they have to where something is done to the sums: two sizes, so that the
panels of a small K do not lie far apart, and no multiples of a power of two, so that not all of them are in the same sets."""

DEEP = 16400
"""A third such size, for what every strategy fuses: above it B is not packed. In f32, 256 x 256 by 8192, of the speed of C += A·B of these
extents, so and unpacked (Zen 5): 0.79 and 0.69."""

_TALL_ROWS, _TALL_COLUMNS, _TALL_DEPTH = 1 << 16, 240, 64
"""Extents that are meant by many rows and a B in L2, whose rows are not in the same sets of L1."""

_COLUMN = 1 << 16
"""Elements of a column that is copied first, at most: what it is copied to has this size."""

_FEW_DEEP = 1 << 13
"""Elements of each of a few columns, at most, which are copied first. Of the speed of static code, so and along N (Zen 4): f32 32768 x 8 x
512 0.91 and 0.44, 500 x 4 x 500 0.85 and 0.32; bf16 0.82 and 0.35, 0.72 and 0.34; u8 by i8 0.96 and 0.66, 0.60 and 0.27."""

_STREAMED_FEW, _WIDE = 8, 1 << 14
"""Rows up to which kc, as for any few rows, is the ways of L1, and strips of C are whole rows, of so many columns. In f32 by 4096 x
4096, of the speed of static code, so and by the code for more rows: 2 rows 1.04 and 0.43, 4 rows 1.02 and 0.43, 8 rows 1.07 and 0.66."""

_STREAMED_ROWS, _STREAMED_TILE, _STREAMED_VECTORS = 40, 8, 2
"""Rows up to which a B from memory is streamed by one code for all of them, and the rows and vectors of columns of its largest register
tile, as each number of rows is code. In f32, of the speed of static code (Zen 5, all extents open): 16 x 4096 x 4096 1.26, 24 x 4096 x
1024 1.05; with tiles of 16 rows by one vector, whose loops over k were written out, 0.81 and 0.82, by twice the code."""

_WHOLE_ROWS = 32
"""Rows up to which whole rows of B are, on a core that waits for L2; more are packed. On Granite Rapids (2026-11-30), N and K known,
unpacked in place of packed, 40, 48 and 64 rows: f32 0.96, 0.88 and 0.84, f64 0.86, 0.86 and 0.75."""

_TILE_VECTORS = 4
"""Vectors of columns of a register tile of a B as it lies: of deep products they are in half of L2, or B is packed. 64 x 64 x 8192 in
f32 1.06 of the speed of static code, and 0.84 where it was left as it lies (Zen 5)."""

_STRIP_ROWS, _STRIP = 128, {"m": 64, "n": 4096, "k": 4096}
"""Rows up to which blocks of a B of narrow elements beyond L2 are small enough to wait there, and extents of which they have the sizes. Of
the speed of static code, so and by panels for all (Zen 4): bf16 64 x 4096 x 4096 0.88 and 0.83, 32 x 4096 x 4096 0.82 and 0.66; u8 by i8
0.83 and 0.70, 0.75 and 0.59."""

_FETCHED_ROWS = 64
"""Rows up to which a B beyond L2 is prefetched as it lies. Of the speed of static code, so and without, in f32 (Zen 4): 24 x 4096 x 1024
1.05 and 0.68, 64 x 4096 x 4096 0.98 and 0.83, 48 x 4096 x 2048 0.99 and 0.80, 128 x 4096 x 1024 0.92 and 0.90, 1000 x 1000 x 1000 0.93 and
1.01; packed 0.61, 0.84, 0.80, 1.00."""

_UNPACKED_ROWS = 128
"""Rows up to which a B that static code streams is left as it lies, where it does not come from memory."""

_PACKED_ROWS = (1, 2, 3, 4, 5, 8, 10)
"""Rows up to which a register tile of the usual height would be wasted in part, where B comes packed."""

_ALONG_K_SUMS = 6
"""Rows by one column of which vectors along K are added up at once: 8 are 2 KB more, and 1.09 times as fast by 100 x 100 in L1 (Zen 5)."""

_SHORT_ROWS = 8
"""Rows of a tile of one vector of columns where there are more: enough to hide a multiply-add's latency. With 11 code is 1.2 KB larger."""

_ROW_VECTORS = 8
"""Vectors of columns of one row by a B as it lies, which hide a multiply-add's latency: each number of them is code."""

_FEW_VECTORS = 10
"""Vectors of columns up to which the usual panels would be empty in a good part. Panels that fit: 784 x 128 x 1152 in bf16 0.98 of the
speed of static code, and 0.78 before; 1000 x 8 x 1000 in f32 with B stored transposed 0.93 and 0.33 (Zen 5)."""

_PANEL_COLUMNS = 1024
"""Columns of a block of panels, at most."""

_PANELS, _WIDE_PANEL = (5, 4, 3), 7
"""Vectors of a panel where more are needed, and one panel is not enough; and of one more panel for narrow elements, which are multiplied
faster than what does not fit is copied: 100 x 100 x 100 in bf16 0.92 of the speed of static code, and 0.81 without (Zen 5)."""

_MANY_VECTORS = 60
"""Vectors of columns that panels of up to six of them divide."""

_EVEN_ROWS = 16
"""Rows up to which tiles of four waste none where they are a multiple of it, and the usual tiles a good part: 8 x 1024 x 1024 in f32 1.05
and 0.87 of the speed of static code (Zen 5)."""

_HIGH = 8
"""Rows of a packed tile, at most, that are padded where there are fewer, and enough for few loads. In f32 with B stored transposed, of the
speed of static code, so and with tiles of up to 27 rows (Zen 5): 8 x 8 x 8 0.61 and 0.35, 28 x 16 x 64 0.72 and 0.48, 32 x 32 x 32 0.87
and 0.74, 1000 x 8 x 1000 0.91 and 0.97. Interleaving rows of a transposed A wants a multiple of four. Tiles of one vector have twice as
many where elements are narrow, which are multiplied faster than short panels are packed: 1000 x 16 x 1000 in u8 by i8 ran at 0.75."""

TINY = ((16, 1, 1024), (6, 2, 1024), (4, 4, 1024))
"""Rows, vectors of columns (more than half as many) and steps over K, at most, of products that are one register tile, of which the first
are compared before all else. Beyond that depth what is computed before the first sum costs nothing, and B may come from memory. Of the
speed of static code, so and without (Zen 5), in f32 8 x 8 x 8 0.92 and 0.70, 16 x 16 x 16 0.99 and 0.82; in u8 by i8, which static
code packs, 16 x 16 x 16 1.86 and 0.46."""
_APART = 64
"""Rows that panels are deeper than a power of two, so that not all of them are in the same sets of a cache: whole vectors of each type."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The code of a strategy for some extents.

    Attributes:
        tests: What the extents have to be, where those of the variants before are not.
        typical: Extents for which its sizes are computed; others are large.
        shared: Whether threads share a call of it.
        bounded: Whether its code is for no other extents, though panels would serve all.
    """

    tests: tuple[Test, ...] = ()
    typical: Mapping[str, int] = field(default_factory=dict)
    shared: bool = True
    bounded: bool = False


def from_memory(spec: MatmulSpec, target: Target) -> int:
    """Elements that a B has which comes from memory: more than half of the last-level cache holds."""
    return ceil_div(held_bytes(target) // 2, spec.b_type.bytes)


def tile_of_all(spec: MatmulSpec, target: Target) -> tuple[int, int] | None:
    """Rows and columns of a register tile of unpacked code for all of a tiny result, without a loop over either; None for others."""
    lanes = target.lanes(spec.acc_type)
    tiles = ((rows, vectors * lanes) for rows, vectors, _ in TINY)
    fitting = (tile for tile in tiles if target.masked and most(spec.m) <= tile[0] and most(spec.n) <= tile[1])
    return next(fitting, None)


def takes_along_k(spec: MatmulSpec, call: MatmulSpec, target: Target) -> bool:
    """Whether vectors along K take a call: a column of B is copied first, and several are not."""
    if few_columns.pays(call, target):
        return _copies_few(spec) and call.k <= _FEW_DEEP
    return spec.b_transposed or most(spec.k) <= _COLUMN or call.k <= _COLUMN


def takes_streamed(spec: MatmulSpec, call: MatmulSpec, target: Target) -> bool:
    """Whether going through B once does: a B from memory, as one that is in a cache gains less than blocks cost, or whole rows of any.

    One row of narrow elements is left to unpacked code: in bf16 1 x 4096 x 4096 streamed takes 1.2 times as long (Zen 5).
    """
    if call.m == 1:
        return not spec.widens
    if target.rows_ahead:
        return strip_form.takes(spec, target) and call.m <= _WHOLE_ROWS
    far = call.k * call.n >= from_memory(spec, target)
    return strip_form.takes(spec, target) and call.m <= _STREAMED_ROWS and far


def takes_unpacked(spec: MatmulSpec, call: MatmulSpec, target: Target) -> bool:
    """Whether code for a B as it lies does: not one from memory by more than few rows, which nothing fetches ahead of its use.

    Measured on Zen 5 in f32 with A stored transposed, packed and unpacked, in GFLOP/s: 12 x 2048 x 4096 80 and 79, 24 x 2048 x 4096 118
    and 105.
    """
    far = min(call.n, call.k) >= _far_side(spec, target)
    if far and spec.widens and call.m > max(_fetched_rows(spec), _STREAMED_FEW):
        return False
    few = call.m <= _STREAMED_FEW or spec.widens or pays.is_one_panel(call, target)
    # Each few rows go through the columns of a tile once more.
    columns = min(call.n, _TILE_VECTORS * target.lanes(spec.acc_type)) * call.k * spec.b_type.bytes
    fetched = far and call.m <= _fetched_rows(spec)
    return few or fetched or (call.k * call.n < from_memory(spec, target) and columns <= target.l2.bytes // 2)


def _far_side(spec: MatmulSpec, target: Target) -> int:
    """Rows and columns from which on a B does not stay in L2, so that it is prefetched."""
    return ceil_div(isqrt(target.l2.bytes // spec.b_type.bytes), 64) * 64


def _fetched_rows(spec: MatmulSpec) -> int:
    """Rows up to which such a B is prefetched as it lies, as each few rows do it again; none where it is not read in rows.

    Bytes are packed earlier: 16 x 1024 x 1024 in u8 by i8 0.64 of the speed of static code, and 0.92 without prefetches (Zen 4).
    """
    return 0 if spec.b_transposed or spec.fused or spec.b_type.bytes == 1 else _FETCHED_ROWS


def takes_packed(spec: MatmulSpec, call: MatmulSpec, target: Target) -> bool:
    """Whether packing does, but for so few rows that B would be streamed if all extents were known.

    Measured on Zen 5 in f32 with all extents open, unpacked and packed, in GFLOP/s, by 1024 x 1024: 24 rows 167 and 143, 48 200 and
    187, 64 213 and 193, 96 192 and 179, 128 175 and 196; with A stored transposed 24 162 and 155, 32 169 and 162, 64 166 and 176, 96
    159 and 195.
    """
    if not pays.is_plain(spec):
        return True
    # A last, short vector of sums waits in registers for what is done to it, unlike that of static code.
    lanes = target.lanes(spec.acc_type)
    whole = replace(call, n=ceil_div(call.n, lanes) * lanes) if spec.fused else call
    many = target.by_lane or call.m > (_WHOLE_ROWS if target.rows_ahead else _UNPACKED_ROWS)
    return pays.packing(whole, target) and (many or not pays.streaming(whole, target, held=False))


def _copies_few(spec: MatmulSpec) -> bool:
    """Whether there is code that copies a few columns of B."""
    return not spec.b_transposed and pays.is_plain(spec)


def along_k(spec: MatmulSpec, target: Target) -> Iterator[Variant]:
    """The variants of vectors along K: one column, one row, and some rows."""
    yield Variant((Test("n", most=1), Test("k", most=None if spec.b_transposed else _COLUMN)), {"n": 1})
    if _copies_few(spec):
        columns = target.lanes(spec.acc_type) - 1
        yield Variant((Test("n", 2, columns), Test("k", most=_FEW_DEEP)), {"n": min(8, columns), "k": 2048})
    if spec.b_transposed:
        yield Variant((Test("m", most=1),), {"m": 1})
        yield Variant((), {"m": 4, "n": 2048, "k": 2048})


def streamed(spec: MatmulSpec, target: Target) -> Iterator[Variant]:
    """The variants of going through B once: one row, few, and more."""
    yield Variant((Test("m", most=1),), {"m": 1, "n": 2048, "k": 2048})
    if strip_form.takes(spec, target):
        yield Variant((Test("m", 2, _STREAMED_FEW),), {"m": _STREAMED_FEW, "n": _WIDE, "k": 2048})
        yield Variant(
            (Test("m", _STREAMED_FEW + 1, _STREAMED_ROWS),),
            {"m": _narrow_rows(spec, target) if spec.widens else 32, "n": 2048, "k": 2048},
        )


def packed(spec: MatmulSpec, target: Target) -> Iterator[Variant]:
    """The variants of packed panels: tiles of few rows for a B that comes packed, and otherwise panels of few columns."""
    if spec.b_packed:
        yield from (Variant((Test("m", most=rows),), {"m": rows}) for rows in _PACKED_ROWS)
    elif (spec.widens or spec.b_transposed) and not spec.fused:  # Nearly always packed, unlike wide ones in rows.
        lanes = target.lanes(spec.acc_type)
        if _waits_in_l2(spec, target):
            sides = (Test(each, least=_far_side(spec, target)) for each in "nk")
            yield Variant((Test("m", 2, _STRIP_ROWS), *sides), _STRIP, bounded=True)
        panels = (*_PANELS, _WIDE_PANEL) if spec.widens else _PANELS
        for vectors in range(1, _FEW_VECTORS + 1):
            several = min(panels, key=lambda each: ceil_div(vectors, each) * each)
            panel = vectors if vectors <= max(_PANELS) else several
            yield Variant((Test("n", most=vectors * lanes),), {"n": panel * lanes})
        if not spec.b_transposed:  # Of few rows, vectors along K take most.
            yield Variant((Test("m", 4, _EVEN_ROWS, 4),), {"m": 4, "n": _MANY_VECTORS * lanes})
    yield Variant()


def unpacked(spec: MatmulSpec, target: Target) -> Iterator[Variant]:
    """The variants of register tiles on B as it lies: one row, columns for half a vector or one, four or eight rows, and more.

    In f32, of the speed of static code, with tiles of 6 rows by 4 vectors for all of two and more rows, and with others besides for two,
    for four and eight, and for up to five vectors of columns (Zen 5): 4 x 2048 x 1024 1.32 and 1.33, 8 x 512 x 512 1.05 and 1.02,
    100 x 100 x 100 1.00 and 0.96, 700 x 65 x 700 0.94 and 0.94, by 10 and 35 KB of code.
    """
    yield Variant((Test("m", most=1),), {"m": 1})
    half = target.lanes(spec.acc_type) // 2
    # Rows of A a power of two apart are in the same sets of L1: as many at a time as fit then.
    way = target.l1.bytes // target.l1.ways
    if spec.widens or not target.masked:  # Otherwise half a vector costs as much as a whole one.
        yield Variant((Test("n", most=half),), {"n": half, "k": way // spec.a_type.bytes})
    if not spec.widens:
        yield Variant((Test("n", most=2 * half),), {"m": _SHORT_ROWS, "n": 2 * half, "k": 512})
    else:  # Rows of B are short, and are read in longer parts.
        yield Variant((Test("m", 4, _EVEN_ROWS // 2, 4),), {"m": 4, "n": 512, "k": 512})
    rows = _fetched_rows(spec)
    if rows:
        sides = (Test(each, least=_far_side(spec, target)) for each in "nk")
        yield Variant((Test("m", 2, rows), *sides), {"m": most_rows(target), "n": 512, "k": 512})
    if not spec.widens:  # Narrow elements are packed where rows are many.
        yield tall(spec, target)
    yield Variant((), {"m": most_rows(target), "n": 512, "k": 512})


def tall(spec: MatmulSpec, target: Target) -> Variant:
    """The variant of many rows by a B that stays in L2, whose loop over rows is the outer one (`blocking.unpacked_blocking`)."""
    a, b = target.l2.bytes // spec.a_type.bytes, target.l2.bytes // 2 // spec.b_type.bytes
    k = _TALL_DEPTH if isinstance(spec.k, Dim) else spec.k
    n = min(_TALL_COLUMNS, b // max(k, 1)) if isinstance(spec.n, Dim) else spec.n
    typical = {"m": _TALL_ROWS, "n": n, "k": min(k, b // max(n, 1))}
    return Variant((Test("mk", least=a + 1), Test("nk", most=b)), typical)


def _narrow_rows(spec: MatmulSpec, target: Target) -> int:
    """Half of the rows from which on narrow elements are packed."""
    return pays.NARROW_PRODUCTS // target.dots(spec.a_type.name, spec.b_type.name)[-1].depth // 2


def along_k_sizes(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes, by one column with few rows at a time, as each number of them is code, and by more with room for masks.

    Every step over K is masked where that costs nothing, and a mask of narrow elements is compared a register of indices at a time.
    """
    if spec.n == 1:
        return replace(sizes, mr=min(sizes.mr, _ALONG_K_SUMS))
    if not target.masked:
        return sizes
    dot = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    room = target.vector_registers - 1 - (1 if dot is None or dot.depth == 1 else dot.depth + 1)
    return replace(sizes, nr=min(sizes.nr, max(room // (sizes.mr + 1), 1)))


def streamed_sizes(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes with blocks of as many rows as there can be."""
    if spec.m == 1:
        return sizes
    nr = _STREAMED_VECTORS * target.lanes(spec.acc_type)
    mc, mr = sizes.mc if sizes.mc <= _STREAMED_FEW else _STREAMED_ROWS, min(sizes.mr, _STREAMED_TILE)
    return replace(sizes, mc=mc, mr=mr, nr=nr, nc=max(sizes.nc // nr, 1) * nr)


def packed_sizes(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes, with a depth for every K and blocks for every M and N, so that tiles of the same size are one code.

    Rows of A's panels lie so far apart for each K: half of the rows that L2 has room for are on as many pages as the first TLB knows.
    """
    if spec.fused or spec.b_packed or not isinstance(spec.k, Dim) or target.dot(*spec.multiplied).is_tile:
        return sizes
    if _waits_in_l2(spec, target) and most(spec.m) <= _STRIP_ROWS and isinstance(spec.m, Dim):
        return replace(sizes, mc=ceil_div(most(spec.m), sizes.mr) * sizes.mr)
    if sizes.rows_ahead and strips_of_a.are(sizes, most(spec.m)):  # Strips of A have their own depth.
        return sizes
    element = panel_bytes(spec, target)
    sums = max(target.fma_latency * target.fma_per_cycle, 2 * _HIGH if spec.widens else _HIGH)
    enough = max(ceil_div(sums, sizes.nr // target.lanes(spec.acc_type) * _HIGH), 1) * _HIGH
    mr = min(sizes.mr, enough)
    kc = even(1 << 10, depth(target, sizes.nr * element)) + _APART
    mc = max(target.l2.bytes // 4 // (kc * element) // mr, 1) * mr
    nc = max(_PANEL_COLUMNS // sizes.nr, 1) * sizes.nr
    mc, nc = mc if isinstance(spec.m, Dim) else min(mc, sizes.mc), nc if isinstance(spec.n, Dim) else sizes.nc
    return replace(sizes, mr=mr, mc=mc, nc=nc, kc=kc)


def _waits_in_l2(spec: MatmulSpec, target: Target) -> bool:
    """Whether blocks of B can wait in L2 while few rows meet them."""
    large = replace(spec, batch=(), a_batch=(), b_batch=(), **_STRIP)
    return spec.widens and {"m", "n", "k"} <= set(spec.dynamic) and keeps_b(large, target)


def unpacked_sizes(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes, of which blocks that are all of a dynamic extent are without an end, and one row is not too wide."""
    tile = tile_of_all(spec, target)
    if tile is not None:
        sizes = replace(sizes, mr=most(spec.m), nr=tile[1])
    elif spec.m == 1:
        sizes = replace(sizes, nr=min(sizes.nr, _ROW_VECTORS * target.lanes(spec.acc_type)))
    blocks = {"m": "mc", "n": "nc", "k": "kc"}
    return replace(sizes, **dict.fromkeys((blocks[each] for each in spec.dynamic), MAX_EXTENT))
