# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""When packed panels of B are one, which all columns of C need: each element of A is then used once, and is not packed."""

from __future__ import annotations

from tilewright.dims import most
from tilewright.schedules.models import tile_blocks
from tilewright.schedules.models.sizes import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_LEAST_PART = 8
"""Of the depth with which a lone panel of B has half of L2, the least part that a block has: beyond, C is read and written too often."""


def reads_a(spec: MatmulSpec, target: Target, sizes: Blocking) -> bool:
    """Whether strategy `packed` reads A where it lies: a block of all of its rows, which meets one panel of all columns of B.

    For tile registers: whole tiles of rows in blocks of one, which meet any number of panels.

    Measured in GFLOP/s, so and with A packed, on Zen 5 in f32, B packed: 2048 x 8 x 2048 51 and 18, 1536 x 24 x 6144 122 and 84, 33 x 7 x
    4096 86 and 37. On Zen 4: 65536 x 64 x 64 in bf16 205 and 173, 64 x 64 x 65536 187 and 151, B packed 224 and 175, in f32 110 and 86.
    In each entry of a batch, on Granite Rapids: 16 x 512 x 64 x 512 in bf16 926 and 700, u8 by i8 1714 and 1404.
    """
    if sizes.images or not may_read_a(spec, target):  # Of a matrix of patches, nothing lies in memory.
        return False
    if target.dot(*spec.multiplied).is_tile:
        return tile_blocks.is_in_whole_strips(spec.m, spec.k, sizes)
    if spec.n > sizes.nr:
        return False
    return sizes.mc >= spec.m and spec.k % min(sizes.kc, max(spec.k, 1)) == 0


def may_read_a(spec: MatmulSpec, target: Target) -> bool:
    """Whether A is stored as tiles of a known number of rows read it, and nothing else is to be done."""
    as_it_lies = not (spec.a_transposed or spec.prologue_a or spec.prologue_b or spec.dynamic)
    alone = spec.products == 1 and not spec.has_rows
    # Of elements as wide as the sums, a B that is not packed is read where it lies too.
    return as_it_lies and alone and as_panels(spec, target) and (spec.b_packed or spec.widens)


def as_panels(spec: MatmulSpec, target: Target) -> bool:
    """Whether rows of A, as they are stored, are what a panel would have, in whole steps: packing turns and widens nothing."""
    dot = target.dot(*spec.multiplied)
    if spec.split or (spec.widens and (dot.kind not in ("dot", "amx") or dot.storage or dot.flip)):
        return False
    if not dot.is_tile and most(spec.k) <= dot.step:  # There is no loop over K, whose reads could be told from packing.
        return False
    return spec.k % dot.step == 0


def depth(spec: MatmulSpec, target: Target, nr: int) -> int:
    """The depth of blocks where B is one panel of `nr` columns: all of K, if that stays in L2, or what divides K. C is then written seldom.

    0 where B is more panels, nothing of about that depth divides K, or rows of A are not what their panels would have. Measured on Zen 4 in
    GFLOP/s: f32 1536 x 24 x 6144 84 in one block, 80 in blocks of 1024; bf16 1000 x 32 x 16384 225 and 196.
    """
    if spec.n > nr or not as_panels(spec, target):
        return 0
    row_bytes, most, step = nr * spec.b_type.bytes, target.l2.bytes, target.dot(*spec.multiplied).step
    if spec.k * row_bytes <= most:
        return max(spec.k, 1)
    deepest = most // 2 // row_bytes // step * step
    return next((size for size in range(deepest, deepest // _LEAST_PART, -step) if spec.k % size == 0), 0)
