# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The sizes of a schedule's blocks, and arithmetic that splits extents into them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache

from tilewright.errors import ScheduleError
from tilewright.targets.base import Target

MAX_SIZE = 2**31 - 1
"""As the largest extent."""

_HELD_LIMIT = 32 << 20
"""Bytes of the last-level cache at most that one core counts on: virtual machines report all of a package's."""

AHEAD = 6
"""KiB that streams are prefetched ahead: what memory delivers within its latency, about 30 GB/s times 100 ns, twice."""

_MOST = {"order": 1, "exchanged": 1, "nest": 5, "past_l1": 3, "images": 3}
"""The largest number of a choice: two loops over register tiles, three over blocks; a bit for each of two operands; what is copied."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """The sizes of a schedule: those of its blocks, in elements, and what its lowering goes by.

    Attributes:
        mr: Rows of the register tile.
        nr: Columns of the register tile.
        mc: Rows of a block of A; a multiple of `mr` unless it covers all rows.
        nc: Columns of a block of B; a multiple of `nr` unless it covers all columns.
        kc: Depth of the blocks.
        unroll: Steps over K that an iteration takes at most; 0: as the compiler sees fit.
        ahead: KiB that streams are prefetched ahead; 0: no operand is prefetched.
        rows_ahead: Steps over K that rows of B are prefetched into L1 ahead of their use; 0: none are. What else is prefetched then is
            spread over strips of K.
        past_l1: Whose tiles do not stay in L1 when they are loaded into tile registers: 1, B's; 2, A's; 3, both; 0, neither's.
        images: What a convolution copies of its images, with zeros around them, to read patches there: 1, all; 2, for each block of rows
            what it reads; 0, nothing: patches are packed; 3, the same in tile registers, which read rows of A where they lie otherwise.
        order: Whether the loops over register tiles are the other way round than the strategy has them: 1, or 0.
        nest: Which order the loops over blocks have: the number of a permutation of those that there are; 0: as the strategy has them.
        across: How many threads are side by side across the outer of two nested loops that threads share, the others across the inner one;
            0: as leaves each the least to read.
        parts: Parts of K that are summed by themselves, and then added up: threads share them.
        exchanged: Whether the transpose is computed, B by A, whose rows and columns the sizes are then of: 1, or 0.
        threads: Threads that share the loops.
    """

    mr: int
    nr: int
    mc: int
    nc: int
    kc: int
    unroll: int = 0
    ahead: int = AHEAD
    rows_ahead: int = 0
    past_l1: int = 0
    images: int = 0
    order: int = 0
    nest: int = 0
    across: int = 0
    parts: int = 1
    exchanged: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        """Checks the sizes.

        Raises:
            ScheduleError: One is no int, or not from 1 to 2**31 - 1; those that may be absent from 0 on.
        """
        for name, (least, most) in _bounds().items():
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or not least <= size <= most:
                raise ScheduleError(
                    f"{name} is {size!r}", where="schedule parameters", expected=f"an int from {least} to {most}"
                )

    @property
    def by_name(self) -> dict[str, int]:
        """The sizes by name: those of blocks, and others where they are not the usual ones."""
        usual = {each.name: each.default for each in fields(self)}
        return {name: size for name, size in asdict(self).items() if size != usual[name]}

    def replaced(self, overrides: Mapping[str, int]) -> Blocking:
        """The same with some sizes overridden by name.

        Raises:
            ScheduleError: A name is unknown or a size is no int above zero.
        """
        if not isinstance(overrides, Mapping):
            raise ScheduleError(
                f"they are a {type(overrides).__name__}",
                where="schedule parameters",
                expected="a mapping of sizes by name",
            )
        known = asdict(self)
        unknown = sorted(set(overrides) - set(known))
        if unknown:
            raise ScheduleError(
                f"unknown parameter {unknown[0]!r}", where="schedule parameters", expected=f"one of {', '.join(known)}"
            )
        return Blocking(**{**known, **overrides})


@cache
def _bounds() -> Mapping[str, tuple[int, int]]:
    """The least and the most that each size may be, by name: one that may be absent may be 0."""
    return {
        each.name: (1 if each.default in (MISSING, 1) else 0, _MOST.get(each.name, MAX_SIZE))
        for each in fields(Blocking)
    }


def ceil_div(a: int, b: int) -> int:
    """The quotient rounded up."""
    return -(-a // b)


def even(extent: int, limit: int, unit: int = 1) -> int:
    """The block size, a multiple of `unit` about as large as `limit` at most, that splits `extent` most evenly."""
    blocks = max(1, ceil_div(extent, max(limit, unit)))
    return ceil_div(ceil_div(max(extent, 1), blocks), unit) * unit


def held_bytes(target: Target) -> int:
    """Bytes that one core can expect to find in its last-level cache again."""
    return min((target.l3 or target.l2).bytes, _HELD_LIMIT)
