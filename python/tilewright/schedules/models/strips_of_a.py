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


_A_LIMIT = 64 << 20
"""Bytes of A that are packed at once at most, where each panel of B meets all of them: they come in order, from wherever they are."""


def reads_ahead(spec: MatmulSpec, target: Target) -> bool:
    """Whether panels of B are prefetched some rows ahead of their use, in strips of A or in other blocks."""
    return bool(target.rows_ahead) and not (spec.dynamic or spec.has_rows)


def wanted(spec: MatmulSpec, target: Target, element_bytes: int) -> bool:
    """Whether packed operands are to have these blocks: where K can be cut, or is so short that a block has some columns.

    A B that comes packed passes by once, as elsewhere: blocks of it and the next ones are more than L2 has room for.
    """
    if spec.b_packed or not reads_ahead(spec, target):
        return False
    return not spec.fused or most(spec.k) * element_bytes * _LEAST_COLUMNS <= target.l2.bytes * _SHARE


def steps_ahead(target: Target) -> int:
    """How many rows ahead of their use those of panels are prefetched."""
    return _FURTHER * target.rows_ahead


def depth(element_bytes: int, *, few: bool) -> int:
    """The depth of blocks that `few` rows meet, or many, with elements of so many bytes in panels."""
    return (_FEW_DEPTH_BYTES if few else _DEPTH_BYTES) // element_bytes


def blocks(spec: MatmulSpec, target: Target, tile: tuple[int, int, int], element_bytes: int, *, few: bool) -> Blocking:
    """The sizes for a register tile of rows and columns, and a depth; the rest as for `depth`."""
    mr, nr, kc = tile
    held = int(target.l2.bytes * (_FEW_SHARE if few else _SHARE)) // spec.products
    nc = even(spec.n, held // (kc * element_bytes), nr)
    return Blocking(mr=mr, nr=nr, mc=min(mr, max(spec.m, 1)), nc=nc, kc=kc, rows_ahead=steps_ahead(target))


def whole(sizes: Blocking, spec: MatmulSpec, target: Target, row_bytes: int) -> Blocking:
    """The sizes of a product that is fused with more, and has no strips: all rows of A, each of so many bytes, meet a panel of B."""
    mc = even(spec.m, max(_A_LIMIT // row_bytes, 1), sizes.mr)
    held = int(target.l2.bytes * _SHARE) // spec.products
    nc = sizes.nc if spec.b_packed else even(spec.n, held // row_bytes, sizes.nr)
    return replace(sizes, mc=mc, nc=nc)


def are(sizes: Blocking, m: int) -> bool:
    """Whether a strategy's sizes for m rows are such ones."""
    return sizes.mc <= sizes.mr and sizes.mc < m


def for_threads(sizes: Blocking, spec: MatmulSpec, threads: int) -> Blocking:
    """The sizes for several threads: each has blocks of B of its own, if there are columns for that. Otherwise they share a block's strips.

    Measured in f32 on two threads, in GFLOP/s, so, and where they take half of every block's strips each: 48 x 2048 x 2048 152
    and 99, 128 x 3072 x 768 228 and 173, 384 x 1024 x 1024 230 and 221, 1024 x 1024 x 1024 231 and 235.
    """
    n = most(spec.n)
    if spec.b_packed or n < threads * _LEAST_COLUMNS:
        return replace(sizes, threads=threads)
    count = ceil_div(ceil_div(n, sizes.nc), threads) * threads
    return replace(sizes, nc=ceil_div(ceil_div(n, count), sizes.nr) * sizes.nr, threads=threads)
