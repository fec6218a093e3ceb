# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of a block of which all that passes through the caches once waits in L2 while the block before it is computed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.dims import most
from tilewright.errors import SpecError
from tilewright.schedules.models import tiles
from tilewright.schedules.models.sizes import Blocking, even
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SHARE = 1 / 4
"""Part of L2 for a block of A, of C and of what is fused with the sums, and for the panels of B that each block meets. Measured on Zen 4 in
f32, all but B from memory, in GFLOP/s so, and before in blocks that fill half of L2 with A: 3136x64x256 110 and 80, 3136x256x64 with a
residual 94 and 70."""

_ROWS_SHARE = 1 / 2
"""Part of L2 for a block of whole rows of C, which are read again three times."""


def rows(spec: MatmulSpec, target: Target, sizes: Blocking, element_bytes: int) -> int:
    """The rows of a block of A with which the next block can be prefetched while this one is multiplied (`prefetch_blocks`).

    That is those of `sizes` where everything stays in L2, where C is read again for each slice of K, and where panels of B are so large
    that each block would fetch them from beyond.

    Args:
        spec: The product.
        target: For which target.
        sizes: The sizes of its blocks.
        element_bytes: Bytes of an element in panels.
    """
    held = target.l2.bytes * _SHARE
    panels = sizes.kc * sizes.nc * spec.products * element_bytes
    if spec.dynamic or sizes.kc < spec.k or panels > held:
        return sizes.mc
    beside = sum(each.type.bytes for each in spec.further if each.axes == "mn")
    row = sizes.kc * spec.a_type.bytes + sizes.nc * (spec.c_type.bytes + beside)
    return sizes.mc if most(spec.m) * row <= held else min(sizes.mc, even(spec.m, int(held) // row, sizes.mr))


def with_rows(sizes: Blocking, spec: MatmulSpec, target: Target) -> Blocking:
    """The sizes for whole rows of C, of which a block stays in L2 until it is complete: with all of N, and fewer rows.

    Raises:
        SpecError: Not one register tile of rows fits.
    """
    dot = target.dot(*spec.multiplied)
    least = tiles.AMX_ROWS if dot.is_tile else dot.rows
    rows = int(target.l2.bytes * _ROWS_SHARE) // (max(spec.n, 1) * spec.inner.c_type.bytes)
    if rows < least:
        raise SpecError(
            f"{least} rows of {spec.n} elements are more than L2 of {target.name} holds",
            where=str(spec),
            expected=f"rows of at most {int(target.l2.bytes * _ROWS_SHARE) // least // spec.inner.c_type.bytes} elements",
            remedy="Leave out softmax, or the reduction of rows, and do it afterwards",
        )
    mr = sizes.mr if sizes.mr <= rows else rows // least * least
    return replace(sizes, mr=mr, mc=min(sizes.mc, even(spec.m, rows // mr * mr, mr)), nc=max(spec.n, 1))
