# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the matrices of a product are split over a grid of processes: the schedules of distributed products."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.errors import SpecError

Split = tuple[tuple[int, ...], tuple[int, ...]]
"""The axes of the grid that split the rows of a matrix, and those that split its columns."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """Who has which blocks. What a sharding leaves open, MLIR's propagation decides.

    Attributes:
        a: How A is split, M by K.
        b: How B is split, K by N.
        c: How C is split, M by N.
        sums: How the sums are split before they are complete, where axes split K: each of these processes has a part of every sum. None:
            as C.
    """

    a: Split
    b: Split
    c: Split
    sums: Split | None = None

    @property
    def axes(self) -> int:
        """How many axes a grid for it has, at least."""
        splits = (self.a, self.b, self.c, *([] if self.sums is None else [self.sums]))
        return max((axis + 1 for split in splits for each in split for axis in each), default=1)


_ALONG_ROWS: Split = ((0,), ())
_ALONG_COLUMNS: Split = ((), (0,))
_WHOLE: Split = ((), ())
_BLOCKS: Split = ((0,), (1,))
_BLOCKS_ACROSS: Split = ((1,), (0,))

SCHEDULES: Mapping[str, Sharding] = MappingProxyType(
    {
        # C stays where it is; rows of processes gather A, columns of processes B. Source: van de Geijn and Watts, SUMMA, 1997.
        "summa": Sharding(_BLOCKS, _BLOCKS, _BLOCKS),
        # A stays: columns of processes gather B, whose K is split as A's is, and each row adds up its parts of C. Source: Schatz,
        # van de Geijn, Poulson, Parallel matrix multiplication: a systematic journey, 2016.
        "stationary_a": Sharding(_BLOCKS, _BLOCKS_ACROSS, _BLOCKS, sums=((0,), ())),
        "stationary_b": Sharding(_BLOCKS_ACROSS, _BLOCKS, _BLOCKS, sums=((), (1,))),
        "rows": Sharding(_ALONG_ROWS, _ALONG_ROWS, _ALONG_ROWS),
        "columns": Sharding(_ALONG_COLUMNS, _ALONG_COLUMNS, _ALONG_COLUMNS),
        # Each process multiplies its part of K; the sums are added where they go.
        "k": Sharding(_ALONG_COLUMNS, _ALONG_ROWS, _ALONG_ROWS, sums=_WHOLE),
        # As the second layer of a feed-forward after "columns": A comes split along K, and all processes get all of C.
        "k_all": Sharding(_ALONG_COLUMNS, _ALONG_ROWS, _WHOLE, sums=_WHOLE),
        # Weights that stay: all processes have all of A, and each gets its columns of C.
        "weights": Sharding(_WHOLE, _ALONG_COLUMNS, _ALONG_COLUMNS),
    }
)
"""By name."""


def named(schedule: str | Sharding) -> Sharding:
    """The sharding of a name, or the one that is given.

    Raises:
        SpecError: There is none.
    """
    if isinstance(schedule, Sharding):
        return schedule
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise SpecError(
            f"schedule {schedule!r}", where="distributed", expected=f"a Sharding, or {', '.join(SCHEDULES)}"
        )
    return SCHEDULES[schedule]


def block(shape: tuple[int, int], split: Split, grid: tuple[int, ...], name: str) -> tuple[int, int]:
    """The shape of each process's block of a matrix.

    Raises:
        SpecError: The grid has no such axis, or an extent is no multiple of the processes that split it.
    """
    found = []
    if len(set(split[0] + split[1])) < len(split[0]) + len(split[1]):
        raise SpecError(f"{name} is split twice by one axis: {split}", where="distributed", expected="each axis once")
    for extent, axes in zip(shape, split, strict=True):
        if any(not 0 <= axis < len(grid) for axis in axes):
            raise SpecError(
                f"{name} is split by axes {axes} of grid {grid}",
                where="distributed",
                expected=f"axes of the grid, 0 to {len(grid) - 1}",
            )
        count = math.prod(grid[axis] for axis in axes)
        if extent % count:
            raise SpecError(
                f"an extent of {extent} of {name} over {count} processes",
                where="distributed",
                expected="blocks of one size",
                remedy="Pad it with zeros, or take another grid",
            )
        found.append(extent // count)
    return found[0], found[1]
