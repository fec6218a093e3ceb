# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of tiles whose vectors are along K."""

from __future__ import annotations

from tilewright.schedules.models import far_columns, few_columns
from tilewright.schedules.models.blocking import MANY_REGISTERS, rows_in_l1
from tilewright.schedules.models.code_tables import table
from tilewright.schedules.models.sizes import Blocking, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_TALL, _SHORT = (6, 4), 1024
"""Rows and columns of a tile of many rows whose sums are added up four at a time, and the bytes of a row of A up to which that counts. In
GFLOP/s, so and with 4 x 6 (Zen 4): 32 x 64 x 64 f32 78 and 75, bf16 142 and 127, u8 by i8 213 and 185; 32 x 256 x 256 97 and 96, 203 and
196, 356 and 331; longer ones f32 64 x 768 x 3072 87 and 106, bf16 64 x 4096 x 4096 199 and 192."""
_TURNED = 8
"""Rows of a tile where signs of A are turned, and each column has one more vector of sums for all of them, and registers are many. With
8 x 3, 4 x 4, 8 x 2 and 6 x 3 (Zen 4), i8 by i8 8 x 1024 x 1024 350, 330, 343 and 322 GFLOP/s; with four rows 8 x 4096 x 4096 takes 1.3
times as long."""


def inner_product_blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes of strategy `inner_product`: partial sums in three quarters of the registers, the rest for A and B.

    Four rows by six columns take the fewest loads. Measured on Zen 4 with a transposed B of 4096 x 4096 in f32, 4 x 4, 4 x 6,
    6 x 4 and 8 x 3, in ms: 8 rows 3.5, 3.1, 3.2, 3.8; 16 rows 5.9, 5.1, 5.2, 5.1; in bf16 2.3, 1.9, 1.8, 2.4 and 3.3, 2.8, 2.7, 2.8.

    With one column, rows have three eighths of the registers: sixteen at a time outrun what fetches lines ahead. Of a 1000 x
    1000 matrix, 16 run at 35 GFLOP/s, 12 at 38, 8 at 37; of a 500 x 500 one at 37, 36 and 32 (Zen 4). No more than L1
    holds a line of: of a 1000 x 1024 matrix, 16 rows at a time take 98 us and 8 take 61 (Zen 4, 8 ways). With one row, the same
    holds of columns.

    With few columns, as `few_columns.tile` says.
    """
    most = min(target.vector_registers * 3 // 8, rows_in_l1(target, spec.k * spec.a_type.bytes))
    if spec.n == 1:
        mr, nr = even(spec.m, most), 1
    elif few_columns.pays(spec, target):
        mr, nr = few_columns.tile(spec, target)
    else:
        many = target.vector_registers >= MANY_REGISTERS
        in_fours = target.shuffle_bits // spec.acc_type.bits == _TALL[1] and many
        tall = in_fours and spec.m > 4 and spec.k * spec.a_type.bytes <= _SHORT
        turned = few_columns.turns(spec, target)
        mr = even(spec.m, _TURNED if turned and many else _TALL[0] if tall else 4)
        held = (target.vector_registers - 2) // (mr + 2) if turned else target.vector_registers * 3 // 4 // mr
        nr = even(spec.n, max(1, min(most, held)))
        far = far_columns.count(spec, target)
        if far > 1 or table(spec, target) is not None:
            nr = far
    return Blocking(mr=mr, nr=nr, mc=max(spec.m, 1), nc=max(spec.n, 1), kc=max(spec.k, 1))
