# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When few columns are multiplied in vectors along K, of which every lane counts, and not in vectors along N with empty lanes."""

from __future__ import annotations

from tilewright.dims import Dim, most
from tilewright.schedules.models.blocking import rows_in_l1
from tilewright.schedules.models.sizes import even, held_bytes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SUM_CYCLES = {True: 1.5, False: 4}
"""Cycles that it takes to add up the lanes of one sum: where a block of several is added up at a time, and otherwise. With `_COPY_CYCLES`,
`_LOSSES` and `_IN_FEW_SETS`, the former is what 114 products in three types went by (Zen 4): where these do not choose the faster of along
K and along N, which is for one in eight, it is by 1.2 in the mean."""
_COPY_CYCLES = 1.5
"""Cycles that it takes to copy an element of B, one by one, into rows along K."""
_SHARE = 1 / 2
"""Part of L2 that B may take in rows along K, which each few rows of A go through."""
_LOSSES = {False: 1.25, True: 1.5}
"""Times the cycles of the multiply-adds that vectors along N take: for a B stored in rows, and a transposed one, which is packed first."""
_FROM_MEMORY = 1.2
"""The same where A comes from memory in short rows: along N, they come in many streams. 32768 x 8 x 512 in f32: 80 GFLOP/s, along K 95
(Zen 4)."""
_IN_FEW_SETS = 1.3
"""The same with vectors of half a register, where rows of A are in the same sets of L1, so that a tile has no more of them than keep the
units busy. On Zen 4, along K and along N in GFLOP/s: f32 33 x 7 x 4096 60 and 46, 64 x 8 x 1024 78 and 53, 12 x 8 x 2048 44 and 84."""
_TURNED = 1.35
"""Times the cycles along K where signs of A are turned, for which each column of a tile has one more vector of sums; along N those of the
columns come first, however B is stored. Measured on Zen 4, i8 by i8, times the speed of vectors along N: 2048 x 8 x 2048 1.4, 2000 x 5 x
700 1.8, 4096 x 4 x 512 2.4, 1024 x 12 x 1024 1.3; of a transposed B 2048 x 8 x 2048 1.5, 512 x 12 x 512 1.2, 512 x 16 x 512 0.9."""
_FEW_COLUMNS = 5
"""Columns at most of a tile where there are fewer than 32 registers: three quarters of 16 registers leave too few for A
and B. Measured on Zen 3, in f32, 3 x 4, 2 x 4 and 2 x 5 sums, in GFLOP/s: 512 x 8 x 512 42, 66, 69; 512 x 4 x 512 50, 66, 66; 512 x 7 x 333
46, 64, 61."""
_SHORT, _SHORT_IN_MEMORY = 1024, 2048
"""Bytes of a row of A below which it ends before the hardware fetches far ahead: in a cache, and in memory."""


def pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether `spec`, of static extents, has so few columns that vectors along K pay.

    Along N, a step over k takes a multiply-add for each row, however few columns a vector has; of half a vector's, half as long on a core
    that starts one whole one in a cycle, or two halves. Along K, it takes one for each row and column and vector of elements; then come the
    sums of lanes, and first the copy of a B that is stored in rows.
    Measured on Zen 5, times the speed of vectors along N, with 2, 3, 4, 8 columns, about 1024 deep: in f32 4.3, 3.4, 3.2, 2.1; bf16 3.4,
    3.5, 3.4, 2.0; u8 by i8 4.0, 3.3, 3.5, 2.0; f64 1.8, 1.7, 1.6, and none with 8; of 12 columns, 512 deep, f32 1.3, bf16 1.0. With a
    transposed B, of 16 columns and 512 deep, in f32 1.2, bf16 1.0, u8 by i8 0.9, f64 1.2. On Zen 4, 8 columns of f32: 500 x 8 x 500 0.9,
    2048 x 8 x 512 1.05; 4 columns 4096 x 4 x 1024 1.8; in bf16 1000 x 8 x 1000 2.4, 2048 x 8 x 2048 2.6;
    512 deep with a transposed B, of 16, 24, 32, 48 columns, f32 1.2, 1.3, 1.0, 1.0; of 16, 32 bf16 1.3, 0.9, u8 by i8 1.0, 0.9.
    """
    if (
        spec.a_transposed
        or isinstance(spec.n, Dim)
        or isinstance(spec.k, Dim)
        or spec.n < 2
        or spec.prologue_b
        or spec.products > 1
    ):
        return False
    if spec.deterministic if spec.b_packed else spec.dynamic:
        return False
    lanes = target.lanes(spec.acc_type)
    in_rows = not (spec.b_transposed or spec.b_packed)
    if spec.n * spec.k * spec.b_type.bytes > _SHARE * target.l2.bytes or spec.n >= 2 * lanes:
        return False
    if spec.n == lanes and in_rows:
        return False  # No lane would be empty.
    along_k = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    along_n = target.dot(spec.a_type.name, spec.b_type.name)
    if along_n.is_tile:
        return False  # Sixteen columns take a sixteenth of the time, full or not.
    depth = 1 if along_k is None else along_k.depth
    sums = _SUM_CYCLES[target.shuffle_bits > 0]
    turned = turns(spec, target)
    each = spec.n * ((_TURNED if turned else 1) * -(-spec.k // (lanes * depth)) / target.fma_per_cycle + sums)
    if spec.b_packed:  # One packed B is for every M.
        return each < -(-spec.k // along_n.depth) * -(-spec.n // lanes) / target.fma_per_cycle
    copied = spec.n * spec.k * _COPY_CYCLES if in_rows else 0
    parts = target.passes
    rate = target.fma_per_cycle * parts
    steps = -(-spec.k // along_n.depth) * -(-spec.n // (lanes // parts)) / rate
    losses = _LOSSES[spec.b_transposed or turned] * (_FROM_MEMORY if _comes_in_short_rows(spec, target) else 1)
    if parts * spec.n <= lanes and rows_in_l1(target, spec.k * spec.a_type.bytes) <= rate * target.fma_latency:
        losses *= _IN_FEW_SETS
    return spec.m * each + copied < spec.m * steps * losses


def turns(spec: MatmulSpec, target: Target) -> bool:
    """Whether signs of A are turned: each column of a tile has one more vector of sums then, beside one of B."""
    dot = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    return dot is not None and dot.flip


def tile(spec: MatmulSpec, target: Target) -> tuple[int, int]:
    """Rows and columns of a register tile.

    More rows at once are fetched ahead better, and the rows of B are gone through less often. Short rows are read in few, which lie
    together. Measured on Zen 4, in GFLOP/s, with 2 x 8, 4 x 4, 6 x 4 sums: f32 2048 x 8 x 2048 47, 71, 82; bf16 155, 185, 192; u8 by i8
    2048 x 8 x 4096 313, 362, 387; short rows, bf16 16384 x 8 x 256 146, 131, 130, u8 by i8 32768 x 8 x 512 317, 263, 189; from memory, f32
    8192 x 8 x 2048 47, 74, 86, and 32768 x 8 x 512 96, 86, 88.
    """
    registers = target.vector_registers
    if registers < 32:
        nr = even(spec.n, _FEW_COLUMNS)
        return even(most(spec.m), max(1, registers * 5 // 8 // nr)), nr
    together = spec.k * spec.a_type.bytes < _SHORT or _comes_in_short_rows(spec, target)
    turned = turns(spec, target)
    nr = even(spec.n, registers // 4 if together and not turned else 4)
    mr = (registers - 2) // nr - 2 if turned else registers * 5 // 8 // nr if together else registers * 3 // 4 // nr
    return even(most(spec.m), max(1, min(8, mr))), nr


def _comes_in_short_rows(spec: MatmulSpec, target: Target) -> bool:
    """Whether A is more than half of the last-level cache holds, and its rows end before the hardware fetches them from memory."""
    row = spec.k * spec.a_type.bytes
    return most(spec.m) * row > held_bytes(target) // 2 and row <= _SHORT_IN_MEMORY
