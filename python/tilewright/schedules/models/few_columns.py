# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When few columns are multiplied in vectors along K, of which every lane counts, and not in vectors along N with empty lanes."""

from __future__ import annotations

from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SUM_CYCLES = 4
"""Cycles that it takes to add up the lanes of one sum: in f32, 2048 x 8 x 128 takes 0.6 of the time of 2048 x 8 x 256, not half (Zen 5)."""
_COPY_CYCLES = 1
"""Cycles that it takes to copy an element of B, one by one, into rows along K."""
_SHARE = 3 / 4
"""Part of L1 that B may take in rows along K, which each few rows of A go through: the rest is for those."""
_LOSSES = {False: 1.1, True: 1.5}
"""Times the cycles of the multiply-adds that vectors along N take: for a B stored in rows, and a transposed one, which is packed first."""


def pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether `spec`, of static extents, has so few columns that vectors along K pay.

    Along N, a step over k takes a multiply-add for each row, however few columns a vector has. Along K, it takes one for each row and
    column and vector of elements; then come the sums of lanes, and first the copy of a B that is stored in rows. Two start in a cycle.
    Measured on Zen 5, times the speed of vectors along N, with 2, 3, 4, 8 columns, about 1024 deep: in f32 4.3, 3.4, 3.2, 2.1; bf16 3.4,
    3.5, 3.4, 2.0; u8 by i8 4.0, 3.3, 3.5, 2.0; f64 1.8, 1.7, 1.6, and none with 8; of 12 columns, 512 deep, f32 1.3, bf16 1.0. With a
    transposed B, of 16 columns and 512 deep, in f32 1.2, bf16 1.0, u8 by i8 0.9, f64 1.2.
    """
    if spec.dynamic or spec.a_transposed or spec.b_packed or spec.n < 2 or spec.prologue_b or spec.products > 1:
        return False
    lanes = target.lanes(spec.acc_type)
    if spec.n * spec.k * spec.b_type.bytes > _SHARE * target.l1.bytes:
        return False
    along_k = target.dot_along_k(spec.a_type.name, spec.b_type.name)
    along_n = target.dot(spec.a_type.name, spec.b_type.name)
    depth = 1 if along_k is None else along_k.depth
    each = spec.n * (-(-spec.k // (lanes * depth)) / 2 + _SUM_CYCLES)
    copied = 0 if spec.b_transposed else spec.n * spec.k * _COPY_CYCLES
    steps = -(-spec.k // along_n.depth) * -(-spec.n // lanes) / 2
    return spec.m * each + copied < spec.m * steps * _LOSSES[spec.b_transposed]
