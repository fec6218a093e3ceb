# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `matrix_cores`: waves multiply with AMD's matrix instructions, of operands in the local data share."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.schedules.steps.knobs import NONE, Options
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, slots=True)
class WaveTile:
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a block's tile of C.
        bn: Columns of it.
        bk: Depth of the tiles of A and B in the local data share: a multiple of the instructions'.
        wm: Rows of a wave's part, a multiple of 16.
        wn: Columns of it, likewise.
        wave: Threads of a wave, 64 or 32: the target's.
        stages: Tiles of A and of B in the local data share: with two, one is multiplied while memory is read for the other.
    """

    bm: int = 128
    bn: int = 128
    bk: int = 32
    wm: int = 64
    wn: int = 64
    wave: int = 64
    stages: int = 2

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: Parts do not make up a tile, or are no multiples of an instruction's, or there are too many waves.
        """
        block_tile.check_parts("waves", (self.bm, self.bn, self.bk), (self.wm, self.wn))
        if self.wave not in (32, 64) or self.threads > 1024:
            raise ScheduleError(
                f"{self.threads} threads in waves of {self.wave}",
                where="schedule parameters",
                expected="at most 1024, in waves of 32 or 64",
            )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.bm // self.wm * (self.bn // self.wn) * self.wave


def matrix_cores(spec: MatmulSpec, sizes: WaveTile, options: Options = NONE) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors, of which each wave has a part; tiles in a pipeline.

    Sizes that have several `options` are knobs. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        size = knobs.of_options(sizes, options, (("wm", "bm"), ("wn", "bn")))
        blocks = block_tile.tile(script, spec, size["bm"], size["bn"], size["bk"])
        sharing.share_among_warps(blocks, rows=size["wm"], columns=size["wn"], instructions="matrix_cores")
        sharing.pipeline(blocks, size["stages"])
    return script.module
