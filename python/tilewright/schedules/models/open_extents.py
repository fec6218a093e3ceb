# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What strategies make of dynamic extents: which of them they take, and with which sizes."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import MAX_EXTENT, most
from tilewright.schedules.models.blocking import Blocking
from tilewright.spec import MatmulSpec

COLUMN = 1 << 16
"""Elements of a column that is copied first, at most: what it is copied to has this size."""

STREAMED_FEW = 8
"""Rows up to which kc, as for any few rows, is the ways of L1, and strips of C are whole rows, of `cases._WIDE` columns. In f32 by 4096 x
4096, of the speed of static code, so and by the code for more rows: 2 rows 1.04 and 0.43, 4 rows 1.02 and 0.43, 8 rows 1.07 and 0.66."""

STREAMED_ROWS, _STREAMED_TILE = 128, 12
"""Rows up to which a B from memory is streamed by one code for all of them, and those of its largest register tile, as each number
of rows is code. In f32 by 4096 x 4096, of the speed of static code (Zen 4, all extents open), streamed and packed: 16 rows
0.76 to 1.0 and 0.5, 24 1.0 and 0.63, 64 0.95 and 0.8, 128 0.94 and 0.90; in bf16 16 rows 0.92 and 0.67, 32 0.76 and 0.83."""


def along_k(spec: MatmulSpec) -> bool:
    """Whether vectors along K take the extents of `spec`: a column of B is copied first."""
    return spec.b_transposed or most(spec.k) <= COLUMN


def streamed(sizes: Blocking, spec: MatmulSpec) -> Blocking:
    """The sizes with blocks of as many rows as there can be."""
    if spec.m == 1:
        return sizes
    return replace(sizes, mc=sizes.mc if sizes.mc <= STREAMED_FEW else STREAMED_ROWS, mr=min(sizes.mr, _STREAMED_TILE))


def unpacked(sizes: Blocking, spec: MatmulSpec) -> Blocking:
    """The sizes, of which blocks that are all of a dynamic extent are without an end."""
    blocks = {"m": "mc", "n": "nc", "k": "kc"}
    return replace(sizes, **dict.fromkeys((blocks[each] for each in spec.dynamic), MAX_EXTENT))
