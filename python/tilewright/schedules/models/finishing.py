# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where sums wait until something is done to them: in registers over all of K, or in scratch, while slices of K are added to them.

Registers ask for panels with all of K, and a panel of B that is much of L2 comes from beyond it for each register tile of rows. Measured on
Granite Rapids (2026-11-30) with a bias, in scratch, times the speed in registers: f32 with `x86-64-v4`'s schedules 512 x 1024 x 4096
1.4, 100 x 1024 x 4096 1.6, 64 x 512 x 8192 with B packed 2.9; with tile registers, bf16 24 x 4096 x 1024 1.9, 100 x 1024 x 4096 1.7.
"""

from __future__ import annotations

from tilewright.dims import Dim
from tilewright.schedules.models.sizes import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_MOST_BYTES = 16 << 20
"""Of the sums of all rows that wait: of more rows, they do in blocks."""


def may(spec: MatmulSpec) -> bool:
    """Whether something is done to the sums that can be done to those of a block when they are complete."""
    if not spec.fused or isinstance(spec.k, Dim):
        return False
    shared = spec.batch and len(spec.b_axes) < len(spec.batch)
    return not (spec.prologue_a or spec.prologue_b or spec.products > 1 or spec.has_rows or shared)


def is_apart(spec: MatmulSpec, sizes: Blocking) -> bool:
    """Whether strategy `packed` sums a block of C in scratch, in slices of K, and then does what is done to the sums."""
    return may(spec) and sizes.kc < spec.k and not sizes.images


def loops_around(spec: MatmulSpec, target: Target, sizes: Blocking) -> tuple[str, ...]:
    """The loops of strategy `packed` around a block of C whose sums wait: inside of them are those over slices of K.

    All rows meet a slice of B before the next one comes, as without anything done to the sums. With tile registers a block stays in L2 over
    all of K; and so it does where there is no telling how many rows there are, or they are many.
    """
    if target.dot(*spec.multiplied).is_tile or isinstance(spec.m, Dim):
        return ("jc", "ic")
    return ("jc",) if spec.m * sizes.nc * spec.acc_type.bytes <= _MOST_BYTES else ("jc", "ic")
