# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How many columns of a transposed B vectors along K read side by side, far apart: few streams, each of which goes straight on.

Neighbors are read a row of B each, and all jump at once when the row ends: what the hardware fetched ahead is then for
nothing, and what is needed next comes late. A column that is far from the others goes on where the row before ended.
"""

from __future__ import annotations

from tilewright.schedules.models.code_tables import STREAMS, table
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MOST = 4
"""Columns. Measured on Zen 4, one row by 4096 x 4096, in GB/s of about 29 that a loop of loads reads, neighbors, two and four far apart:
f8E4M3FN 16, 29, 27 to 30; i8 by i8 18, 32, 33; bf16 25, 28, 30; f32 27, 26, 28. Eight: f8E4M3FN 25, i8 by i8 26, bf16 27."""
_ROWS, _ROWS_OF_INTEGERS, _ROWS_OF_BYTES = 2, 4, 8
"""Rows of A up to which it pays, where elements of B are integers of a byte that are multiplied as such, and other bytes or less. With more
rows, sums of neighbors take fewer loads. Measured as above, neighbors and four far apart, GB/s of B: 2 rows f32 26 and 23 (256 x 256: 45
and 70), bf16 22 and 22 (50 and 70), 4 rows f32 21 and 16, bf16 18 and 14; f8E4M3FN 15 and 20, with 8 rows 5.0 and 6.2; from memory u8 by
i8, 5632 x 2048, 2, 3, 4, 6 and 8 rows 22 and 30, 23 and 29, 23 and 23, 25 and 17, 21 and 16."""
_HELD = 2
"""Times L1 up to which B is left to neighbors: f8E4M3FN 256 x 256 28 and 25 GB/s, bf16 256 x 256 65 and 85."""


def count(spec: MatmulSpec, target: Target) -> int:
    """How many; 1 where columns that are far apart are no better than neighbors, or do not divide N."""
    most = STREAMS if table(spec, target) is not None else _MOST
    if most == _MOST and not _pays(spec, target):
        return 1
    return max(streams for streams in range(1, most + 1) if spec.n % streams == 0)


def _pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether B is large, and its rows are what takes time."""
    if not spec.b_transposed or spec.dynamic:
        return False
    whole = spec.acc_type.kind == "int"
    rows = (_ROWS_OF_INTEGERS if whole else _ROWS_OF_BYTES) if spec.b_stored.bits <= 8 else _ROWS
    return spec.m <= rows and spec.n * spec.k * spec.b_stored.bits > 8 * _HELD * target.l1.bytes
