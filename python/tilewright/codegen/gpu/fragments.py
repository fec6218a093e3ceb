# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which elements of a block's tile of C each of its threads has, and how it multiplies them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.build.index import Index
from tilewright.codegen.gpu.staging import Tile
from tilewright.mlir import ir


@dataclass(frozen=True, slots=True)
class Part:
    """A thread's elements of the tile: of some rows the same pieces.

    Attributes:
        rows: The rows, counted from the thread's first.
        pieces: Of each row so many neighbours: (columns right of the thread's first, how many).
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

    @property
    def threads(self) -> int:
        """Threads of a block."""
        ...

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """The first row and column of a thread's part."""
        ...


class Multiplier(Division, Protocol):
    """How threads that are all alike multiply the parts that they have."""

    @property
    def stages(self) -> int:
        """Tiles of each operand that are in shared memory at once, on their way but for one."""
        ...

    @property
    def swizzles(self) -> bool:
        """Whether it reads tiles whose pieces are swizzled: never more than a piece at once."""
        ...

    @property
    def copies(self) -> bool:
        """Whether there are copies into shared memory that go on by themselves."""
        ...

    def is_swapped(self, operand: int, element: ir.Type, neighbours: int) -> bool:
        """Whether the tile of operand 0 (A) or 1 (B), whose neighbours in memory lie along that axis, has its axes swapped."""
        ...

    def takes(self, operand: int, element: ir.Type) -> bool:
        """Whether it multiplies elements of that type of operand 0 (A) or 1 (B), without their being widened first."""
        ...

    def multiply(self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """Adds the product of the tiles in `slot` to a thread's sums, as the contraction `op` says."""
        ...


def defined_by(value_: ir.Value, name: str) -> ir.Operation | None:
    """The op of that name that defines a value; None for any other value."""
    owner = value_.owner
    found = isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == name
    return owner.operation if found else None


def axis_of(expression: ir.AffineExpr) -> int | None:
    """The axis of an operand that an axis of the tile is; None where the operand is broadcast along it."""
    try:
        return ir.AffineDimExpr(expression).position
    except ValueError:
        return None


def retyped(op: ir.Operation, kind: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    """The same op on other vectors."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, results=[kind], operands=list(operands), attributes=attributes).results[0]
