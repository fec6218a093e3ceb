# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `mma_sync`: warps multiply with matrix instructions, of operands in shared memory that are copied there ahead of time."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.schedules.steps.knobs import NONE, Options
from tilewright.spec import MatmulSpec

WARP = 32
"""Threads of a warp."""


@dataclass(frozen=True, slots=True)
class WarpTile:
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a block's tile of C.
        bn: Columns of it.
        bk: Depth of the tiles of A and B in shared memory: a multiple of the instructions'.
        wm: Rows of a warp's part, a multiple of 16.
        wn: Columns of it, a multiple of 16.
        stages: Tiles of A and of B in shared memory: one is multiplied while the others are on their way.
    """

    bm: int = 128
    bn: int = 128
    bk: int = 32
    wm: int = 64
    wn: int = 32
    stages: int = 3

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: Parts do not make up a tile, or are no multiples of an instruction's, or there are too many warps.
        """
        block_tile.check_parts("warps", (self.bm, self.bn, self.bk), (self.wm, self.wn))
        if self.threads > 1024:
            raise ScheduleError(f"{self.threads} threads", where="schedule parameters", expected="at most 1024")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.bm // self.wm * (self.bn // self.wn) * WARP


def mma_sync(spec: MatmulSpec, sizes: WarpTile, options: Options = NONE) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors, of which each warp has a part; tiles in a pipeline.

    Sizes that have several `options` are knobs. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        size = knobs.of_options(sizes, options, (("wm", "bm"), ("wn", "bn")))
        blocks = block_tile.tile(script, spec, size["bm"], size["bn"], size["bk"])
        sharing.share_among_warps(blocks, rows=size["wm"], columns=size["wn"], instructions="mma_sync")
        sharing.pipeline(blocks, size["stages"])
    return script.module
