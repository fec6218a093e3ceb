# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup`: one group of four warps has tiles copied to shared memory, the others multiply them from there."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tilewright.dtypes import DType, dtype
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.steps import block_tile, knobs, sharing
from tilewright.schedules.steps.knobs import NONE, Options
from tilewright.spec import MatmulSpec

WARP_GROUP = 128
"""Threads of four warps."""
_WARP = 32
"""Threads of a warp."""
ROWS = 64
"""Rows that a warp group multiplies at once."""
ROW_BYTES = 128
"""Bytes of a row of a tile in shared memory: the widest pattern in which rows are swizzled."""
_MOST_COLUMNS = 256
"""Columns that a warp group multiplies at once, at most, and those of 64 rows of sums that it has: more than 128 registers of a thread
leave too few for the rest."""
MOST_PRODUCTS = _MOST_COLUMNS // ROWS
"""Matrices like B at most that a tile of A is multiplied by: 64 columns of each."""
_MOST_PROMOTED = 384
"""Columns of 64 rows of sums that are promoted, and of those that are added to them: 192 registers of a thread."""
_MOST_OF_A_BOX = 256
"""Elements of a box along an axis. Source: CUDA Driver API, cuTensorMapEncodeTiled."""
_HELD_DEPTH = 16
"""Elements along K of an instruction that takes the first matrix from registers."""
_LEAST_STAGES = 2
SUM_BYTES = 4
"""Of a sum."""
FLAG_BYTES = 128
"""Of memory for flags of a block, one for each warp: a line of the cache."""
WARP_ROWS = 16
"""Rows of instructions that a warp has of every 64."""
BOX_ALIGNMENT = 1024
"""Bytes at whose multiples the pattern of a box's swizzle starts."""
_MOST_BOX_BYTES = WARP_ROWS * ROW_BYTES
"""Of a box of C."""
MOST_BLOCKS = 8
"""Blocks of a cluster at most, on every chip."""
_CLAUSES = (
    "consumers",
    "pingpong",
    "cluster",
    "beside",
    "split",
    "streamed",
    "fetched",
    "swapped",
    "band",
    "promote",
)
"""The sizes that are clauses of the op that shares a tile."""


def atom(spec: MatmulSpec) -> int:
    """Elements of a row of the widest swizzle pattern."""
    return row_of(spec.a_stored)


def makes_weights(spec: MatmulSpec) -> bool:
    """Whether consumers can make B of what is stored in 4 or 8 bits, in registers: floats of 16 bits, as A's are stored.

    Pairs of neighbors along K share a register, and a step over K what they are made with.
    """
    codes, multiplied = spec.b_stored, spec.a_stored
    if spec.prologue_a or multiplied.kind != "float" or multiplied.bits != 16 or spec.b_type != spec.a_type:
        return False
    if codes.bits not in (4, 8) or not spec.transposed[1]:
        return False
    return all(set(each.axes) <= {"g", "n"} and _fits(each.group, row_of(codes)) for each in spec.chain_b.operands)


def row_of(stored: DType) -> int:
    """Elements of a row of the widest swizzle pattern."""
    return ROW_BYTES * 8 // stored.bits


def _fits(group: int, step: int) -> bool:
    """Whether all elements along K of an instruction share one of an operand, with so many in a group, or 0 for all."""
    return not group or (group % _HELD_DEPTH == 0 and max(step, group) % min(step, group) == 0)


def check_atoms(spec: MatmulSpec, bm: int, bn: int, parts: int = 1) -> None:
    """Checks that operands whose neighbors lie across K are whole swizzle patterns, also where blocks hold one of `parts` of B each.

    Matrices in shared memory consist of whole swizzle atoms; an instruction with fewer rows or columns than one is not described.
    Source: the PTX ISA manual, "Shared Memory Matrix Layout" of wgmma and tcgen05, the table of swizzle-atom layouts.

    Raises:
        ScheduleError: One is not.
    """
    for name, size, matrix, across, least in (
        ("bm", bm, "A", spec.transposed[0], atom(spec)),
        ("bn", bn, "B", not spec.transposed[1], parts * atom(spec)),
    ):
        if across and size % least:
            raise ScheduleError(
                f"{name}={size}, and {matrix}'s neighbors lie along it",
                where="schedule parameters",
                expected=f"a multiple of {least}, for the {ROW_BYTES} bytes of a swizzle pattern"
                + (" in each block" if least > atom(spec) else ""),
            )


def box_of_c(sizes: Swappable, bytes_: int) -> tuple[int, int]:
    """Rows and columns of a box of C, of elements of so many bytes: of a warp's 16 rows as many columns as a swizzle takes."""
    if sizes.swapped:
        return gcd(sizes.across, _MOST_BOX_BYTES // (WARP_ROWS * bytes_)), WARP_ROWS
    return WARP_ROWS, gcd(ROW_BYTES, sizes.across * bytes_) // bytes_


def place_of_c(box: tuple[int, int], bytes_: int) -> int:
    """Bytes of shared memory that such a box takes."""
    return -(-box[0] * box[1] * bytes_ // BOX_ALIGNMENT) * BOX_ALIGNMENT


def added_bits(spec: MatmulSpec) -> list[int]:
    """Bits of the elements of each matrix that is read as C's tile lies when its sums are finished: C itself, or others."""
    return [dtype(str(each.type)).bits for each in spec.finish.operands if each.axes == "mn"]


def sums_fit(groups: int, across: int, *, promote: bool) -> bool:
    """Whether sums of a consumer, of so many times 64 rows, fit into registers; if they are promoted, with 64 rows of a step."""
    return (groups + promote) * across <= (_MOST_PROMOTED if promote else _MOST_COLUMNS)


class Swappable:
    """Sizes of a tile that may be computed as the transpose of the product of the transposes."""

    __slots__ = ()
    bm: int
    bn: int
    swapped: bool

    @property
    def down(self) -> int:
        """Elements of a tile along the rows of instructions."""
        return self.bn if self.swapped else self.bm

    @property
    def across(self) -> int:
        """Elements of a tile along the columns of instructions."""
        return self.bm if self.swapped else self.bn


@dataclass(frozen=True, slots=True)
class WarpGroupTile(Swappable):
    """The sizes of the strategy, in elements.

    Attributes:
        bm: Rows of a tile of C.
        bn: Columns of it.
        bk: Depth of the tiles of A and B in shared memory: a multiple of 128 bytes of their elements.
        stages: Tiles of A and of B in shared memory.
        consumers: Warp groups of a block that multiply.
        pingpong: Whether each of two consumers has a tile of its own, and multiplies while the other one finishes its sums. If not,
            they have a part of the same tile each.
        cluster: Blocks of a cluster: 2 below one another share the tile of B, of which each has one half copied to both.
        beside: 2 beside one another share the tile of A likewise; with `cluster`, a cluster has 2x2 blocks.
        split: Parts of K: so many blocks, a cluster, sum a tile up together.
        streamed: Whether blocks divide the steps over K of the last tiles evenly among them (stream-K), where these would fill the chip
            in part; sums of the same tile are added up through memory.
        fetched: Whether what is added to the tile of C, C itself or a matrix of its extents with elements of as many bits, is copied to
            shared memory while the tile's products go on: to where the tile of C is put together, all of which then has a place.
        swapped: Whether C is computed as the transpose of the product of the transposes: instructions have 64 rows, which are then
            columns of C, and as few columns as 8, which are rows of C.
        band: Rows of tiles that blocks go through together, column by column, so that what they read is still in the L2 cache.
        promote: 1: sums of each step over K are added to others in f32, 64 rows of a consumer at a time, because 8-bit floats are summed
            with fewer bits. 0: never.
        products: Matrices like B that the tile of A is multiplied by (`glu`), each of which has sums of its own.
    """

    bm: int = 128
    bn: int = 256
    bk: int = 64
    stages: int = 4
    consumers: int = 2
    pingpong: bool = False
    cluster: int = 1
    beside: int = 1
    split: int = 1
    streamed: bool = False
    fetched: bool = False
    swapped: bool = False
    band: int = 8
    promote: int = 0
    products: int = 1

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: They are no multiples of an instruction's, or too large, or do not go together.
        """
        rows = ROWS if self.pingpong else ROWS * self.consumers
        least = 8 if self.swapped else ROWS
        if self.down % rows or self.across % least or self.across > _MOST_COLUMNS or self.bk % 32:
            raise ScheduleError(
                f"a tile of {self.bm}x{self.bn}x{self.bk} for {self.consumers} consumers",
                where="schedule parameters",
                expected=f"bm a multiple of {rows}, bn of 64 and at most 256, bk of 32; if swapped, bn of {rows}, bm of 8",
            )
        if not sums_fit(self.summed, self.across, promote=False):
            raise ScheduleError(
                f"{self.summed * ROWS}x{self.across} sums of a consumer",
                where="schedule parameters",
                expected="at most 64x256, which are 128 registers of a thread",
            )
        if self.threads > 1024 or self.stages < _LEAST_STAGES:
            raise ScheduleError(
                f"{self.threads} threads, {self.stages} stages",
                where="schedule parameters",
                expected="at most 1024 threads, and at least 2 stages",
            )
        if max(self.bm, self.bn, self.bk) > _MOST_OF_A_BOX:
            raise ScheduleError(
                f"a tile of {self.bm}x{self.bn}x{self.bk}",
                where="schedule parameters",
                expected=f"at most {_MOST_OF_A_BOX} rows, columns and depth: boxes that are copied have no more",
            )
        self._check_blocks()

    def _check_blocks(self) -> None:
        wrong = None
        if self.pingpong and (self.consumers != 2 or self.split > 1):
            wrong = "pingpong", "2 consumers, and no split"
        elif self.streamed and (self.pingpong or self.split > 1):
            wrong = "streamed", "neither pingpong nor split"
        elif self.fetched and self.split > 1:
            wrong = "fetched", "no split: blocks that have the same tile finish a part of it each"
        elif {self.cluster, self.beside} - {1, 2} or (self.shared > 1 and (self.swapped or self.split > 1)):
            wrong = f"cluster={self.cluster}, beside={self.beside}", "1, or 2 where nothing is split or swapped"
        elif self.split > MOST_BLOCKS:
            wrong = f"split={self.split}", f"at most {MOST_BLOCKS}"
        elif self.promote not in (0, 1) or not sums_fit(self.summed, self.across, promote=bool(self.promote)):
            wrong = (
                "promote",
                "0 or 1; and at most 64x192 or 128x128 sums of a consumer, which needs 64 rows of them again",
            )
        if wrong:
            raise ScheduleError(wrong[0], where="schedule parameters", expected=wrong[1])

    @property
    def threads(self) -> int:
        """Threads of a block: the group that copies is the first."""
        return (1 + self.consumers) * WARP_GROUP

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.shared * self.split

    @property
    def shared(self) -> int:
        """Blocks of a cluster that have tiles of their own, of an A or a B that others have too."""
        return self.cluster * self.beside

    @property
    def workspace(self) -> int:
        """Bytes of memory, zeros at first, that a block of a launch leaves sums of a tile in for others; and flags that they are there."""
        return self.products * self.bm * self.bn * SUM_BYTES + FLAG_BYTES if self.streamed else 0

    def boxes_of_c(self, bytes_: int) -> int:
        """Bytes of places for all boxes of C of a block, of elements of so many bytes."""
        box = box_of_c(self, bytes_)
        boxes = self.groups * self.across // box[0 if self.swapped else 1]
        return self.consumers * WARP_GROUP // _WARP * boxes * place_of_c(box, bytes_)

    @property
    def resident(self) -> int:
        """Blocks at a time that a multiprocessor has registers for: two where one group multiplies, with few sums."""
        sums = (self.summed + self.promote) * self.across
        return 2 if self.consumers == 1 and sums <= _MOST_COLUMNS // 2 else 1

    @property
    def groups(self) -> int:
        """Groups of 64 rows of instructions that a consumer has."""
        return self.down // (ROWS if self.pingpong else ROWS * self.consumers)

    @property
    def summed(self) -> int:
        """Groups of 64 rows of sums that a consumer has: those of the first product, then of the next."""
        return self.products * self.groups


def warpgroup(spec: MatmulSpec, sizes: WarpGroupTile, options: Options = NONE) -> ir.Module:
    """The schedule: blocks, steps over K, everything in vectors; one warp group copies, the others multiply; tiles in a pipeline.

    Sizes that have several `options` are knobs. Needs an active `ir.Context`.
    """
    with steps.script() as script:
        size = knobs.of_options(sizes, options)
        blocks = block_tile.tile(script, spec, size["bm"], size["bn"], size["bk"])
        sharing.specialize_warp_groups(blocks, **{name: size[name] for name in _CLAUSES})
        sharing.pipeline(blocks, size["stages"])
    return script.module
