# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of strategy `scalable`: the model that computes them from a target's scalable vectors and its caches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.dims import least
from tilewright.errors import ScheduleError
from tilewright.schedules.models.blocking import B_BLOCK_LIMIT, Blocking, ceil_div, depth, even, rows_of_a
from tilewright.spec import MatmulSpec
from tilewright.targets.base import SCALABLE_BITS, Target
from tilewright.targets.dots import Dot

if TYPE_CHECKING:
    from tilewright.schedules.decisions import ScalableTiles

_TILES: Mapping[int, tuple[int, int]] = MappingProxyType({128: (6, 3), 64: (6, 2)})
"""Rows and registers of a row of the register tile, by bits of a register for each vscale. AArch64: 18 sums, and, with two words of K at
a time, 6 registers of A, which have to be among the first eight, and 6 of B. LLVM keeps all of it in registers, and llvm-mca gives it
96 to 100 % of the multiply-add bound on neoverse-v1, n2 and v2. 8 x 2 spills, and so does 5 x 4 on n2. RISC-V: 12 groups of two
registers, and two groups of B; numbers of A are in other registers."""
_LEAST_ROWS = 4
"""Rows of A from which on packing B, unlike fixed vectors' strategies for small products, is repaid."""
_LEAST_VECTORS = 2
"""Vectors of columns from which on packing A is repaid."""


def fits(spec: MatmulSpec, target: Target) -> bool:
    """Whether the strategy computes `spec`: one product, of operands as they are, and what is done to each element of it.

    Of a batch of single rows, columns or products, MLIR does not know which elements lie side by side.
    """
    further = spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows
    single = spec.batch and min(least(each) for each in (spec.m, spec.n, spec.k)) <= 1
    return _dot(spec, target) is not None and not (further or single or spec.b_packed)


def pays(spec: MatmulSpec, target: Target) -> bool:
    """Whether the target's scalable vectors are longer than its fixed ones, which have every other strategy, and C fills some.

    Packing A is repaid by more columns than a vector has, packing B by a few rows. Instructions executed for f32 on vectors of
    256 bits, and on fixed ones with packing or without, in thousands: 256x256x256 3404 and 5439, 96x128x64 185 and 264,
    123x121x61 233 and 377, 16x16x16 1.7 and 1.9, 4x512x512 342 and 346, 2x512x512 251 and 207, 64x16x64 21.4 and 22.1,
    512x9x64 181 and 134.
    """
    longer = target.scalable_group > target.vector_bits
    if not longer or not fits(spec, target):
        return False
    return spec.m >= _LEAST_ROWS and spec.n >= _LEAST_VECTORS * target.scalable_group // spec.acc_type.bits


def require(spec: MatmulSpec, target: Target, blocking: Blocking | ScalableTiles) -> Dot:
    """How products are made on scalable vectors.

    Raises:
        ScheduleError: They are not, the strategy does not compute `spec`, or a register tile is no whole number of registers.
    """
    dot = _dot(spec, target)
    if dot is None:
        raise ScheduleError(
            f"{target.name} has no products of {spec.a_type.name} and {spec.b_type.name} on scalable vectors",
            where="scalable",
            expected="a target with SVE, and types that it multiplies",
            remedy="Let the strategy be chosen",
        )
    if not fits(spec, target):
        raise ScheduleError(
            f"strategy scalable does not compute {spec}",
            where="scalable",
            expected="a B that comes unpacked, no prologue, an epilogue of elements, and no batch of single rows or columns",
            remedy="Let the strategy be chosen",
        )
    lanes = _lanes(spec)
    if blocking.nr % lanes or blocking.mr % dot.rows:
        raise ScheduleError(
            f"a register tile of {blocking.mr} x {blocking.nr}",
            where="scalable",
            expected=f"multiples of {dot.rows} rows and {lanes} columns, those of a register of {SCALABLE_BITS[0]} bits",
            remedy="Set other sizes mr and nr",
        )
    return dot


def blocking(spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes for `spec` on `target`, whose vectors are as long as its machines have them.

    Few rows, or columns, are a tile as small as they are, and others are evened out.
    """
    dot = _dot(spec, target)
    step, storage, group = (1, None, 1) if dot is None else (dot.step, dot.storage, dot.rows)
    times = max(target.scalable_group, SCALABLE_BITS[0]) // SCALABLE_BITS[0]
    lanes = _lanes(spec)
    rows, across = _TILES[target.scalable_unit]
    mr = even(spec.m, rows, group)
    nr = even(ceil_div(spec.n, lanes * times), across) * lanes
    element_bytes = spec.a_type.bytes if storage is None else int(storage.lstrip("bfi")) // 8
    kc = even(spec.k, depth(target, nr * times * element_bytes), step)
    depth_bytes = ceil_div(kc, step) * step * element_bytes
    mc = rows_of_a(spec, target, depth_bytes, mr)
    nc = even(spec.n, B_BLOCK_LIMIT // depth_bytes, nr * times)
    return Blocking(mr=mr, nr=nr, mc=mc, nc=nc, kc=kc)


def _dot(spec: MatmulSpec, target: Target) -> Dot | None:
    return target.scalable_dot(spec.a_type.name, spec.b_type.name)


def _lanes(spec: MatmulSpec) -> int:
    """Sums in 128 bits of a register."""
    return SCALABLE_BITS[0] // spec.acc_type.bits
