# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `tensor_memory`: one thread copies tiles to shared memory, one multiplies them, four warps finish sums in tensor memory."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.gpu.warpgroup import FLAG_BYTES, MOST_BLOCKS, SUM_BYTES, WARP_GROUP, Swappable
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.schedules.steps.knobs import NONE, Options
from tilewright.spec import MatmulSpec

LANES = 128
"""Lanes of tensor memory: rows that an instruction multiplies."""
COLUMNS = 512
"""Columns of tensor memory, of 32 bits each."""
_GRANULE = 16
"""Columns that an instruction multiplies are a multiple of so many."""
_MOST_COLUMNS = 256
"""Columns that an instruction multiplies at most."""
_LEAST_STAGES = 2
_PAIR = 2
"""Blocks that multiply together."""
_CLAUSES = ("buffers", "cluster", "pair", "split", "streamed", "swapped", "band")
"""The sizes that are clauses of the op that shares a tile."""


@dataclass(frozen=True, slots=True)
class TensorMemoryTile(Swappable):
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a tile of C.
        bn: Columns of it.
        bk: Depth of the tiles of A and B in shared memory: a multiple of 128 bytes of their elements.
        stages: Tiles of A and of B in shared memory.
        buffers: Tiles of sums in tensor memory: with 2, one is finished while the next one is summed up.
        swapped: Whether C is computed as the transpose of the product of the transposes: instructions have 128 rows, which are then
            columns of C, and as few columns as 16, which are rows of C.
        cluster: Blocks of a cluster: 2 below one another share the tile of B, of which each has one half copied to both.
        pair: Whether the two blocks of a cluster multiply together: each has its own rows of A, half of B, and its own rows of sums.
        split: Parts of K: so many blocks, a cluster, sum a tile up together.
        streamed: Whether blocks divide the steps over K of the last tiles evenly among them (stream-K), where these would fill the chip
            in part; sums of the same tile are added up through memory.
        band: Rows of tiles that blocks go through together, column by column, so that what they read is still in the L2 cache.
    """

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4
    buffers: int = 2
    swapped: bool = False
    cluster: int = 1
    pair: bool = False
    split: int = 1
    streamed: bool = False
    band: int = 8

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: They are no multiples of an instruction's, or too large, or do not go together.
        """
        if self.down % LANES or self.across % _GRANULE or self.across > _MOST_COLUMNS or self.bk % 32:
            raise ScheduleError(
                f"a tile of {self.bm}x{self.bn}x{self.bk}",
                where="schedule parameters",
                expected=f"bm a multiple of {LANES}, bn of {_GRANULE} and at most {_MOST_COLUMNS}, bk of 32; if swapped, bm as bn",
            )
        if self.buffers * self.columns > COLUMNS:
            raise ScheduleError(
                f"{self.buffers} times {self.bm}x{self.bn} sums",
                where="schedule parameters",
                expected=f"at most {LANES}x{COLUMNS}, which is all of tensor memory",
            )
        if self.stages < _LEAST_STAGES:
            raise ScheduleError(f"{self.stages} stages", where="schedule parameters", expected="at least 2")
        self._check_blocks()

    def _check_blocks(self) -> None:
        wrong = None
        if self.cluster not in (1, 2) or (self.cluster > 1 and (self.swapped or self.split > 1)):
            wrong = f"cluster={self.cluster}", "1, or 2 where nothing is split or swapped"
        elif self.pair and (self.cluster != _PAIR or self.down != LANES or self.across % (_PAIR * _GRANULE)):
            wrong = "pair", f"cluster={_PAIR}, bm={LANES}, and bn a multiple of {_PAIR * _GRANULE}"
        elif self.streamed and self.split > 1:
            wrong = "streamed", "no split"
        elif not 1 <= self.split <= MOST_BLOCKS:
            wrong = f"split={self.split}", f"at most {MOST_BLOCKS}"
        if wrong:
            raise ScheduleError(wrong[0], where="schedule parameters", expected=wrong[1])

    @property
    def threads(self) -> int:
        """Threads of a block: four warps that copy and multiply, and four that finish sums."""
        return 2 * WARP_GROUP

    @property
    def consumers(self) -> int:
        """Groups of four warps that finish sums."""
        return 1

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster * self.split

    @property
    def beside(self) -> int:
        """Blocks that share the tile of A."""
        return 1

    @property
    def shared(self) -> int:
        """Blocks of a cluster that have tiles of their own."""
        return self.cluster

    @property
    def held_columns(self) -> int:
        """Columns of B that a block has in its shared memory."""
        return self.bn // _PAIR if self.pair else self.bn

    @property
    def workspace(self) -> int:
        """Bytes of memory, zeros at first, that a block of a launch leaves sums of a tile in for others; and flags that they are there."""
        return self.bm * self.bn * SUM_BYTES + FLAG_BYTES if self.streamed else 0

    @property
    def fetched(self) -> bool:
        """Whether what is added to a tile is copied to shared memory before."""
        return False

    @property
    def products(self) -> int:
        """Matrices like B that the tile of A is multiplied by."""
        return 1

    @property
    def columns(self) -> int:
        """Columns of tensor memory that a tile's sums take."""
        return self.down // LANES * self.across

    @property
    def groups(self) -> int:
        """Groups of 16 rows of instructions that a warp finishes: two in the quarter of the lanes that is its own."""
        return self.down // LANES * 2


def tensor_memory(spec: MatmulSpec, sizes: TensorMemoryTile, options: Options = NONE) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors; who copies, multiplies and finishes; tiles in a pipeline.

    Sizes that have several `options` are knobs. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        size = knobs.of_options(sizes, options)
        blocks = block_tile.tile(script, spec, size["bm"], size["bn"], size["bk"])
        sharing.specialize_warps(blocks, **{name: size[name] for name in _CLAUSES})
        sharing.pipeline(blocks, size["stages"])
    return script.module
