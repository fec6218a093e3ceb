# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of strategy `packed` where strips of A are packed one by one, each for all panels of a block of B that waits in L2.

So is it for a core that waits for L2 unless it is told what comes: panels of B, one after the other, are all that comes from there, a few
rows ahead of their use, and a strip of A stays in L1. Elsewhere a block of A waits in L2, and panels of B pass by.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import most
from tilewright.schedules.models.sizes import Blocking, ceil_div, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_DEPTH_BYTES = 1024
"""Bytes of a row of a strip. Measured on Cascade Lake, as all here, f32, 8 x 48 sums, in GFLOP/s, kc x nc: 1536 x 1536 x 1536 256 x 528
127, 256 x 288 116, 384 x 384 128, 384 x 192 116."""
_FEW_DEPTH_BYTES, _FEW_SHARE = 512, 1 / 5
"""The same, and part of L2 for a block of B, where few rows meet it: the next block is fetched meanwhile, and sums wait in L2
too. 128 x 3072 x 768 128 x 384 116, 256 x 384 109, 256 x 528 106, 192 x 288 109, 128 x 528 109; 128 x 768 x 768 124, 118, 120, 117, 118."""
_SHARE = 1 / 2
"""Part of L2 for a block of B that many rows meet."""
_FURTHER = 2
"""Times as far ahead as rows that lie apart: panels follow each other. f32 384 x 1024 x 1024 so 122, and as far 119 GFLOP/s."""
_LEAST_COLUMNS = 256
"""Columns of such a block, at least, for which a strip is packed; threads have at least as many each to have blocks of their own."""
_MANY_ROWS, _SMALL_B = 512, 1 / 4
"""Rows from which on a B that comes packed meets strips, and the part of L2 up to which it always does. Measured on Granite Rapids
(2026-11-29), f32, from caches, times the speed of blocks of A in L2: 1536 x 384 x 4096 1.10, 1536 x 1000 x 4096 1.04, 1024 x 2048 x 2048
0.96; 96 x 128 x 384 1.08, 512 x 256 x 256 1.04, 2048 x 2048 x 64 with an epilogue 1.16; but 128 x 2048 x 128 0.94, 24 x 4096 x 384 0.76."""
_B_LIMIT = 5 << 18
"""Bytes of a block of B that strips of threads meet, at most: a block as deep as K, with an epilogue, may be more than L2 holds."""
_A_LIMIT = 64 << 20
"""Bytes of A that are packed at once at most, where each panel of B meets all of them: they come in order, from wherever they are.
Measured there, with an epilogue, times the speed of what half of L2 holds: 768 x 3072 x 3072 1.18, 4096 x 512 x 3072 1.16."""


def reads_ahead(spec: MatmulSpec, target: Target) -> bool:
    """Whether panels of B are prefetched some rows ahead of their use, in strips of A or in other blocks."""
    return bool(target.rows_ahead) and not (spec.dynamic or spec.has_rows)


def cuts_k(spec: MatmulSpec, target: Target, element_bytes: int) -> bool:
    """Whether K can be cut, or is so short that a block of B as deep as K has some columns."""
    return not spec.fused or most(spec.k) * element_bytes * _LEAST_COLUMNS <= target.l2.bytes * _SHARE


def wanted(spec: MatmulSpec, target: Target, element_bytes: int) -> bool:
    """Whether packed operands are to have these blocks: where panels are read ahead, and `cuts_k`.

    Few rows do not meet a B that comes packed so: its blocks and the next ones, which come meanwhile, are more than L2 has room for, and
    each is met once for each strip. Where they pass by a block of A, each panel is met once.
    """
    few = most(spec.m) < _MANY_ROWS and most(spec.n) * most(spec.k) * element_bytes > target.l2.bytes * _SMALL_B
    return reads_ahead(spec, target) and cuts_k(spec, target, element_bytes) and not (spec.b_packed and few)


def depth(element_bytes: int, *, few: bool) -> int:
    """The depth of blocks that `few` rows meet, or many, with elements of so many bytes in panels."""
    return (_FEW_DEPTH_BYTES if few else _DEPTH_BYTES) // element_bytes


def blocks(spec: MatmulSpec, target: Target, tile: tuple[int, int, int], element_bytes: int, *, few: bool) -> Blocking:
    """The sizes for a register tile of rows and columns, and a depth, where `cuts_k`; the rest as for `depth`.

    A block of A has the rows of a strip where these are wanted, and those that half of L2 holds elsewhere.
    """
    mr, nr, kc = tile
    strips, row = wanted(spec, target, element_bytes), kc * element_bytes
    held = int(target.l2.bytes * (_FEW_SHARE if few and strips else _SHARE))
    nc = even(spec.n, held // spec.products // row, nr)
    mc = min(mr, max(spec.m, 1)) if strips else even(spec.m, max(held // row, 1), mr)
    return Blocking(mr=mr, nr=nr, mc=mc, nc=nc, kc=kc, rows_ahead=_FURTHER * target.rows_ahead)


def as_deep_as_k(sizes: Blocking, spec: MatmulSpec, target: Target, row_bytes: int, *, is_open: bool) -> Blocking:
    """The sizes where sums wait in registers for a deep K, with panels of rows of so many bytes, that are read ahead.

    All rows of A, packed once, meet each panel of B, which would come from beyond L2 for each block of A again. Where products of any
    number of rows are meant, or so many that A is cut, A is packed for each block of B, and the blocks stay.
    """
    sizes = replace(sizes, rows_ahead=_FURTHER * target.rows_ahead)
    if is_open or most(spec.m) * row_bytes > _A_LIMIT:
        return sizes
    held = int(target.l2.bytes * _SHARE) // spec.products
    nc = sizes.nc if spec.b_packed else even(spec.n, held // row_bytes, sizes.nr)
    return replace(sizes, mc=even(spec.m, max(spec.m, 1), sizes.mr), nc=nc)


def are(sizes: Blocking, m: int) -> bool:
    """Whether a strategy's sizes for m rows are such ones."""
    return sizes.mc <= sizes.mr and sizes.mc < m


def pay_shared(sizes: Blocking, spec: MatmulSpec, threads: int) -> bool:
    """Whether several threads, each with strips of its own, meet a packed B sooner than with panels of their own.

    That is where each has few panels, or many rows: a block of A that all of them have packed goes from core to core. Measured on two
    threads of Granite Rapids (2026-11-29), f32, in GFLOP/s, strips and panels: 48 x 256 x 768 291 and 198, 96 x 384 x 768 311 and 252,
    384 x 2304 x 1536 323 and 258; but 128 x 4096 x 512 277 and 308, 24 x 4096 x 256 235 and 290.
    """
    wide = sizes.nc >= min(_LEAST_COLUMNS, most(spec.n)) and sizes.nc * sizes.kc * spec.b_type.bytes <= _B_LIMIT
    many = 2 * most(spec.m) >= _MANY_ROWS or most(spec.n) < threads * _LEAST_COLUMNS
    return bool(spec.b_packed and sizes.rows_ahead and wide and many)


def for_threads(sizes: Blocking, spec: MatmulSpec, threads: int) -> Blocking:
    """The sizes for several threads: each has blocks of B of its own, if there are columns for that. Otherwise they share a block's strips.

    Measured in f32 on two threads, in GFLOP/s, so, and where they take half of every block's strips each: 48 x 2048 x 2048 152
    and 99, 128 x 3072 x 768 228 and 173, 384 x 1024 x 1024 230 and 221, 1024 x 1024 x 1024 231 and 235.
    """
    n = most(spec.n)
    if spec.b_packed or n < threads * _LEAST_COLUMNS:
        return replace(sizes, mc=min(sizes.mr, max(spec.m, 1)), threads=threads)
    count = ceil_div(ceil_div(n, sizes.nc), threads) * threads
    return replace(sizes, nc=ceil_div(ceil_div(n, count), sizes.nr) * sizes.nr, threads=threads)
