# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where sums wait until something is done to them: in registers over all of K, or in scratch, while slices of K are added to them.

Registers ask for panels with all of K, and a panel of B that is much of L2 comes from beyond it for each register tile of rows. Measured on
Granite Rapids (2026-11-30) with a bias, in scratch, times the speed in registers: f32 with `x86-64-v4`'s schedules 512 x 1024 x 4096
1.4, with B packed 100 x 1024 x 4096 1.6 and 64 x 512 x 8192 2.8; with tile registers, bf16 24 x 4096 x 1024 1.9, 100 x 1024 x 4096 1.7.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import Dim, most
from tilewright.schedules.models import strips_of_a
from tilewright.schedules.models.sizes import Blocking, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SHARE = 1 / 4
"""Part of L2 from which on a panel of B is so much. With less, f32 with `x86-64-v4`'s schedules, B packed, 30 x 768 x 1280 0.95, 148 x 1040
x 1024 0.98, packed in the call 64 x 2240 x 768 0.97."""
_AHEAD_SHARE = 7 / 16
"""The same where B comes packed, and rows of its panels are prefetched: f32, 8 and 128 rows by 1024 columns, K of 2560, 3072, 4096 and
6144: 0.94 and 0.98, 1.03 and 1.01, 1.27 and 1.14, 1.67 and 1.49."""
_SUMS_SHARE = 1 / 4
"""Part of L2 for the sums of a block of which it is not known how many there are."""
_MOST_BYTES = 16 << 20
"""Of the sums of all rows that wait: of more rows, they do in blocks."""


def may(spec: MatmulSpec) -> bool:
    """Whether something is done to the sums that can be done to those of a block when they are complete."""
    if not spec.fused or isinstance(spec.k, Dim):
        return False
    shared = spec.batch and len(spec.b_axes) < len(spec.batch)
    return not (spec.prologue_a or spec.prologue_b or spec.has_rows or shared)


def pays(spec: MatmulSpec, target: Target, sums: Blocking, element_bytes: int) -> bool:
    """Whether scratch is faster, with the sizes that the sums alone would have, and elements of so many bytes in panels."""
    panel = spec.k * sums.nr * element_bytes
    share = _AHEAD_SHARE if spec.b_packed and strips_of_a.reads_ahead(spec, target) else _SHARE
    return may(spec) and sums.kc < spec.k and panel > target.l2.bytes * share


def blocks(
    sums: Blocking, spec: MatmulSpec, target: Target, element_bytes: int, most_of_b: int, *, is_open: bool
) -> Blocking:
    """The sizes where sums wait in scratch, given those of the sums alone.

    Args:
        sums: Those of the sums alone.
        spec: What is computed.
        target: For which target.
        element_bytes: Bytes of an element in panels.
        most_of_b: Bytes of a block of B that passes by blocks of A, at most.
        is_open: Whether the spec stands for products with dynamic extents.
    """
    if is_open and strips_of_a.are(sums, most(spec.m)):
        # Strips would meet all of B one after the other, if their sums are to wait meanwhile.
        rows = int(target.l2.bytes * _SUMS_SHARE) // (sums.nc * spec.acc_type.bytes)
        return replace(sums, mc=even(spec.m, rows, sums.mr))
    if spec.b_packed or "ic" not in loops_around(spec, target, sums) or sums.mc >= most(spec.m):
        return sums
    # Blocks of rows that meet all of K, one after the other, meet a B that was packed for all of them.
    nc = even(spec.n, most_of_b // (spec.k * element_bytes), sums.nr)
    return replace(sums, nc=min(nc, sums.nc))


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
