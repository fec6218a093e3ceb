# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the threads that share rows of a tile find the largest number, or the sum, of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, div, rem, value
from tilewright.codegen.gpu import shared, staging
from tilewright.mlir import ir
from tilewright.mlir.dialects import gpu, memref

Combine = Callable[[ir.Value, ir.Value], ir.Value]


@dataclass(frozen=True, slots=True)
class Sharers:
    """The threads that have elements of one row: those whose numbers differ by multiples of `step`, `count` of them.

    Attributes:
        count: How many there are, a power of two.
        step: Between neighbors, a power of two.
    """

    count: int
    step: int

    def number(self, thread: ir.Value) -> Index:
        """The number of a thread among those that share its rows."""
        return rem(div(thread, self.step), self.count)


class Exchange:
    """What threads tell each other of the rows that they share."""

    def __init__(self, sharers: Sharers, team: staging.Team, rows: Sequence[Index], bm: int, *, shuffled: bool) -> None:
        """Makes it for a thread's rows of a tile of `bm`: by shuffles in a warp, or through shared memory."""
        self._sharers, self._team, self._rows = sharers, team, rows
        self._shuffled = shuffled
        self._buffer: ir.Value | None = None
        if not shuffled and sharers.count > 1:
            space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), staging.SHARED)
            kind = ir.MemRefType.get([sharers.count, bm], ir.F32Type.get(), memory_space=space)
            self._buffer = memref.alloc(kind, [], [])

    def combined(self, own: Sequence[ir.Value], combine: Combine) -> list[ir.Value]:
        """For each row what `combine` makes of the numbers that its threads have.

        Through shared memory, threads meet in it once; before the next time they have to have met again.
        """
        if self._shuffled:
            return [self._in_warp(each, combine) for each in own]
        if self._buffer is None:
            return list(own)
        mine = value(self._sharers.number(self._team.thread))
        for row, each in zip(self._rows, own, strict=True):
            memref.store(each, self._buffer, [mine, value(row)])
        gpu.barrier()
        found = []
        for row in self._rows:
            whole = memref.load(self._buffer, [value(0), value(row)])
            for other in range(1, self._sharers.count):
                whole = combine(whole, memref.load(self._buffer, [value(other), value(row)]))
            found.append(whole)
        return found

    def _in_warp(self, own: ir.Value, combine: Combine) -> ir.Value:
        reach = self._sharers.step
        while reach < self._sharers.step * self._sharers.count:
            other = gpu.shuffle(own, shared.i32(reach), shared.i32(32), gpu.ShuffleMode.XOR)[0]
            own = combine(own, other)
            reach *= 2
        return own


def rows_of(origin: Index, offsets: Sequence[int]) -> list[Index]:
    """A thread's rows of the tile."""
    return [add(origin, each) for each in offsets]
