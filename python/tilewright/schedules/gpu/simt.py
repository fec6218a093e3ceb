# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `simt`: every thread of a block multiplies and adds its own part of a tile, of operands in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.schedules.steps.knobs import NONE, Options
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, slots=True)
class ThreadTile:
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a block's tile of C.
        bn: Columns of it.
        bk: Depth of the tiles of A and B in shared memory.
        rows: Rows of a thread's part.
        columns: Columns of it, which are neighbors.
        stages: Tiles of A and of B in shared memory: with two, one is multiplied while memory is read for the other.
    """

    bm: int = 64
    bn: int = 64
    bk: int = 16
    rows: int = 4
    columns: int = 4
    stages: int = 2

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: Parts do not make up a tile, or threads are not whole warps, or too many.
        """
        if self.bm % self.rows or self.bn % self.columns:
            raise ScheduleError(
                f"parts of {self.rows}x{self.columns} in a tile of {self.bm}x{self.bn}",
                where="schedule parameters",
                expected="a tile that is a multiple of them",
            )
        if self.threads % 32 or self.threads > 1024:
            raise ScheduleError(
                f"{self.threads} threads", where="schedule parameters", expected="a multiple of 32, at most 1024"
            )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.bm // self.rows * (self.bn // self.columns)


def simt(spec: MatmulSpec, sizes: ThreadTile, options: Options = NONE) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors, of which each thread has a part; tiles in a pipeline.

    Sizes that have several `options` are knobs. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        size = knobs.of_options(sizes, options, (("rows", "bm"), ("columns", "bn")))
        blocks = block_tile.tile(script, spec, size["bm"], size["bn"], size["bk"])
        sharing.share_among_threads(blocks, rows=size["rows"], columns=size["columns"])
        sharing.pipeline(blocks, size["stages"])
    return script.module
