# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup`: one group of four warps has tiles copied to shared memory, the others multiply them from there."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import block_tile
from tilewright.spec import MatmulSpec

WARP_GROUP = 128
"""Threads of four warps."""
ROWS = 64
"""Rows of C that a warp group multiplies at once."""
ROW_BYTES = 128
"""Bytes of a row of a tile in shared memory: the widest pattern in which rows are swizzled."""
_MOST_COLUMNS = 256
_LEAST_STAGES = 2


@dataclass(frozen=True, slots=True)
class WarpGroupTile:
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a block's tile of C: 64 for each warp group that multiplies.
        bn: Columns of it, a multiple of 64, at most 256.
        bk: Depth of the tiles of A and B in shared memory: 128 bytes of their elements.
        stages: Tiles of A and of B in shared memory.
    """

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: They are no multiples of an instruction's, or too large.
        """
        if self.bm % ROWS or self.bn % ROWS or self.bn > _MOST_COLUMNS or self.bk % ROWS:
            raise ScheduleError(
                f"a tile of {self.bm}x{self.bn}x{self.bk}",
                where="schedule parameters",
                expected="multiples of 64, at most 256 columns",
            )
        if self.threads > 1024 or self.stages < _LEAST_STAGES:
            raise ScheduleError(
                f"{self.threads} threads, {self.stages} stages",
                where="schedule parameters",
                expected="at most 1024 threads, and at least 2 stages",
            )

    @property
    def threads(self) -> int:
        """Threads of a block: the group that copies is the first."""
        return (1 + self.bm // ROWS) * WARP_GROUP


def warpgroup(spec: MatmulSpec, sizes: WarpGroupTile) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors. Who copies and who multiplies comes later, by `sizes`.

    Needs an active `ir.Context`.
    """
    return block_tile.schedule(spec, sizes.bm, sizes.bn, sizes.bk)
