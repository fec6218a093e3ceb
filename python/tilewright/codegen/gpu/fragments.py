# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which elements of a block's tile of C each of its threads has, and how it multiplies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from tilewright.build.index import Index
from tilewright.codegen.gpu.staging import Tile
from tilewright.mlir import ir
from tilewright.schedules.gpu.matrix_cores import WaveTile
from tilewright.schedules.gpu.mma_sync import WarpTile
from tilewright.schedules.gpu.simt import ThreadTile


@dataclass(frozen=True, slots=True)
class Part:
    """A thread's elements of the tile: of some rows the same pieces.

    Attributes:
        rows: The rows, counted from the thread's first.
        pieces: Of each row so many neighbors: (columns right of the thread's first, how many).
    """

    rows: tuple[int, ...]
    pieces: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the vector that holds them: a row for each row, the pieces side by side."""
        return len(self.rows), sum(width for _, width in self.pieces)


@dataclass(frozen=True, slots=True)
class Staged:
    """An operand of the product.

    Attributes:
        tile: Its tile in shared memory.
        widening: What its elements still want to be widened by before they are multiplied.
    """

    tile: Tile
    widening: tuple[ir.Operation, ...] = ()


class Division(Protocol):
    """How the threads of a block divide its tile."""

    @property
    def part(self) -> Part:
        """What each has of the tile."""
        ...

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """The first row and column of a thread's part."""
        ...


class Multiplier(Division, Protocol):
    """How threads that are all alike multiply the parts that they have.

    Attributes:
        sizes: The strategy's.
        swizzles: Whether it reads tiles whose pieces are swizzled: never more than a piece at once.
        copies: Whether there are copies into shared memory that go on by themselves.
    """

    @property
    def sizes(self) -> ThreadTile | WarpTile | WaveTile: ...  # noqa: D102

    swizzles: ClassVar[bool] = True
    copies: ClassVar[bool] = False

    def is_swapped(self, operand: int, element: ir.Type, neighbors: int) -> bool:
        """Whether the tile of operand 0 (A) or 1 (B), whose neighbors in memory lie along that axis, has its axes swapped."""
        ...

    def takes(self, operand: int, element: ir.Type) -> bool:
        """Whether it multiplies elements of that type of operand 0 (A) or 1 (B), without their being widened first."""
        ...

    def multiply(self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """Adds the product of the tiles in `slot` to a thread's sums, as the contraction `op` says."""
        ...


def axis_of(expression: ir.AffineExpr) -> int | None:
    """The axis of an operand that an axis of the tile is; None where the operand is broadcast along it."""
    return expression.position if isinstance(expression, ir.AffineDimExpr) else None
