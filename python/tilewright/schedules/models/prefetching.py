# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which operands are prefetched by software: what places prefetches goes by it, and what schedules offer to leave out."""

from __future__ import annotations

from tilewright.dims import least
from tilewright.schedules.models import finishing
from tilewright.schedules.models.sizes import AHEAD, Blocking, ceil_div, held_bytes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

HELD = 1 / 2
"""Part of L2 up to which an operand is left alone: what is larger passes through with others, and comes from beyond."""
SHARE = 1 / 2
"""Part of L2 that the next block may take: it waits there while this one is used."""
FEW_ROWS = 2
"""Times the ways of L1: rows of a block at most whose streams are left alone where it is read as it lies. With 12 rows of 4096 elements,
2 x 4096 x 4096 in f32 took 1.8 times as long."""
_LONG = 8
"""Lines of a row of A from which on the next rows are prefetched: shorter ones lie together, and the hardware goes on into them. From
memory, 32768 x 8 x 512 went from 58 to 101 GFLOP/s in f32, from 82 to 200 in bf16, and from 93 to 305 in bytes; 262144 x 8 x 64, without
this limit, from 99 to 86 (Zen 5)."""
_PAGE = 4096
"""Bytes of a row of A up to which the hardware stops at its end before it has run far ahead. It follows longer ones well enough from the
last-level cache: with prefetches, 2048 x 8 x 2048 in f32 lost a tenth (Zen 5)."""
_DISTANCES = (0, 2, AHEAD, 16)
"""KiB that a stream may be prefetched ahead."""
_AHEAD_SHARE = 1 / 4
"""Part of L2 that is prefetched ahead at most (`PrefetchStreams.cpp`): where several whole rows are no more, it is those, however far."""
_ON_OR_OFF = ((0,), (AHEAD,))
"""The same of blocks, of which the next one is prefetched."""
_ROWS_AHEAD = (0, 1, 2, 4, 8)
"""Steps over K that rows may be prefetched ahead."""
_STREAM_SHARE = 8
"""How far ahead what is read once is prefetched into L1, where a target does not say: that share of L1, which two streams do not fill then.
Measured on Zen 5, whose L1 has 48 KiB, 4096 x 4096 in groups of 32 from memory by one row, in microseconds, without, and 2048, 4096, 6144,
8192 and 16384 bytes ahead: i4 by bf16 336, 287, 264, 259, 268, 273; i4 by f32 402, 331, 314, 306, 312, 317; i8 by bf16 742, 510, 554, 538,
564, 568."""
Options = tuple[tuple[int, ...], ...]


def stream_ahead(target: Target) -> int:
    """Bytes ahead of its use at which what lies in order, and is read once, is prefetched into L1."""
    return target.stream_ahead or target.l1.bytes // _STREAM_SHARE


def rows_pay(row_bytes: int, operand_bytes: int | None, target: Target) -> bool:
    """Whether prefetches help where rows of A, each of so many bytes, are read as they lie, and are not gone through again.

    None are the bytes of an operand that is larger than any cache.
    """
    held = operand_bytes is not None and operand_bytes <= held_bytes(target) // 2
    return row_bytes >= _LONG * target.l1.line and not (held and row_bytes > _PAGE)


def reads_weights(spec: MatmulSpec, target: Target) -> bool:
    """Whether a B of dynamic rows is known to fill L2 or more: it is for rows that are few, or packing paid."""
    return "m" in spec.dynamic and least(spec.k) * least(spec.n) * spec.b_type.bytes >= target.l2.bytes


def packed(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Whether a block of A or of B is prefetched while the one before it is multiplied, by strategy `packed`."""
    m, n, k = int(spec.m), int(spec.n), int(spec.k)
    deep = sizes.kc < k and (not spec.fused or finishing.is_apart(spec, sizes))
    a = _passes(m * k * spec.a_type.bytes, min(sizes.mc, m) * min(sizes.kc, k) * spec.a_type.bytes, target)
    b = _passes(n * k * spec.b_type.bytes, min(sizes.nc, n) * min(sizes.kc, k) * spec.b_type.bytes, target)
    found = (a and (deep or sizes.mc < m)) or (b and (deep or sizes.nc < n))
    return _ON_OR_OFF if found and not spec.batch else ()


def streamed(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """The same by `streamed`: blocks of B of several rows; with one row of A, B is a stream."""
    k, b = int(spec.k), int(spec.n) * int(spec.k) * spec.b_type.bytes
    if spec.batch:
        return ()
    if spec.m == 1:
        return _distances(spec, target, sizes) if b > target.l2.bytes else ()
    blocks = sizes.kc < k and sizes.kc > FEW_ROWS * target.l1.ways
    return _ON_OR_OFF if blocks and _passes(b, sizes.kc * sizes.nc * spec.b_type.bytes, target) else ()


def _distances(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Distances of a stream of B along rows, in whole steps: those that are other ones than the usual one."""
    step = sizes.kc * min(sizes.nr, int(spec.n)) * spec.b_type.bytes
    if step * ceil_div(int(spec.n), sizes.nr) <= target.l2.bytes * _AHEAD_SHARE:
        return _ON_OR_OFF
    usual = ceil_div(AHEAD << 10, step)
    return tuple((each,) for each in _DISTANCES if each in (0, AHEAD) or ceil_div(each << 10, step) != usual)


def in_place(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """The same by strategies that read operands where they lie: rows of A that are read once."""
    row = int(spec.k) * spec.a_type.bytes
    large = spec.m * row > target.l2.bytes * HELD and sizes.mr * row <= target.l2.bytes * SHARE
    once = sizes.nr >= spec.n > 1 and sizes.mr < spec.m
    pays = large and once and rows_pay(row, int(spec.m) * row, target)
    return _ON_OR_OFF if pays and not (spec.batch or spec.a_transposed) else ()


def rows_ahead(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """Steps over K that rows of B are prefetched ahead where it is read as it lies."""
    return tuple((each,) for each in _ROWS_AHEAD) if _goes_beyond_l1(spec, target, sizes) else ()


def packed_rows_ahead(spec: MatmulSpec, target: Target, sizes: Blocking) -> Options:
    """The same of panels that are packed."""
    panel = sizes.kc * sizes.nr * spec.b_type.bytes
    rows = not (spec.dynamic or target.dot(*spec.multiplied).is_tile)  # Tiles are not read in rows.
    return tuple((each,) for each in _ROWS_AHEAD) if panel > target.l1.bytes // 2 and rows else ()


def usual_rows_ahead(spec: MatmulSpec, target: Target, sizes: Blocking) -> int:
    """The steps that the target's core needs.

    Measured on Cascade Lake in f32, with and without, in GFLOP/s, B unpacked: 512 x 512 x 512 72 and 52, 256 x 256 x 256 140 and 130,
    48 x 512 x 512 93 and 68, 24 x 384 x 384 90 and 65, 12 x 512 x 512 81 and 64, 12 x 600 x 600 73 and 73; streamed 24 x 1024 x 512 84 and
    60, 96 x 1024 x 512 102 and 82, 126 x 768 x 768 94 and 85.

    On Emerald Rapids, with all that the models choose for such a core: f32 1024 x 1024 x 1024 145 and 51, 1000 x 1000 x 1000 151 and 110,
    384 x 1024 x 1024 93 and 39, 24 x 4096 x 1024 90 and 62, 128 x 768 x 768 85 and 78, transposed B 145 and 101; f64 512 x 512 x 512 75 and
    33; bf16 8 x 4096 x 1024 54 and 33, u8 by i8 130 and 79.
    """
    return target.rows_ahead if _goes_beyond_l1(spec, target, sizes) else 0


def _goes_beyond_l1(spec: MatmulSpec, target: Target, sizes: Blocking) -> bool:
    """Whether the columns of B that a register tile goes down are more than half of L1: rows of A and C pass through it too."""
    strip = sizes.kc * min(sizes.nr, int(spec.n)) * spec.b_type.bytes
    return strip > target.l1.bytes // 2 and not (spec.dynamic or spec.b_transposed or spec.b_packed)


def _passes(operand_bytes: int, block_bytes: int, target: Target) -> bool:
    """Whether an operand comes from beyond L2, in blocks that wait there."""
    return operand_bytes > target.l2.bytes * HELD and block_bytes <= target.l2.bytes * SHARE
