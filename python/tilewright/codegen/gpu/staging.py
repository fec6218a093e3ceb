# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of A and B in shared memory, which all threads of a block bring there together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.build.constants import bits_of
from tilewright.build.index import Index, add, div, div_rem, less, minimum, mul, rem, sub, value, xor
from tilewright.build.loops import when
from tilewright.build.views import transposed
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref

SHARED = 3
"""The memory space of what the threads of a block share. A number, because not every pass knows the gpu dialect's name for it."""
PIECE_BYTES = 16
"""Bytes that a thread moves at once."""


_BANKS_BYTES = 128
"""Bytes of shared memory that are accessed at once, one of each bank."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory, in as many slots as are in use at once.

    Pieces of 16 bytes that lie below one another have to be in different banks, because fragments are read from several rows at
    once. So rows are a little longer than needed, or else pieces of a row are swizzled.

    Attributes:
        buffer: Its memory: slots, rows, columns.
        shape: The tile's extents, as the product has it.
        swapped: Whether rows of the buffer are the tile's columns.
        swizzled: Whether the pieces of a row are in another order in each row: piece p of row r is at p xor r, of rows of 128 bytes,
            and of shorter ones at p xor r / (rows in 128 bytes).
    """

    buffer: ir.Value
    shape: tuple[int, int]
    swapped: bool
    swizzled: bool

    def at(self, slot: Index, row: Index, column: Index) -> list[ir.Value]:
        """Where an element of the tile is in its buffer, and behind it its neighbors of the same piece."""
        return self.of_rows(slot, column, row) if self.swapped else self.of_rows(slot, row, column)

    def of_rows(self, slot: Index, outer: Index, inner: Index) -> list[ir.Value]:
        """The same for an element by its row and column of the buffer."""
        if not self.swizzled:
            return [value(each) for each in (slot, outer, inner)]
        kind = ir.MemRefType(self.buffer.type)
        per = PIECE_BYTES * 8 // bits_of(kind.element_type)
        in_row = kind.shape[2] // per
        among = _BANKS_BYTES // PIECE_BYTES
        turn = rem(div(outer, max(1, among // in_row)), min(in_row, among))
        piece, rest = div_rem(inner, per)
        return [value(slot), value(outer), value(add(mul(xor(piece, turn), per), rest))]


def allocate(shape: tuple[int, int], element: ir.Type, slots: int, *, swapped: bool, swizzled: bool) -> Tile:
    """Shared memory for a tile; `swizzled` only has an effect on rows of whole pieces, as many as a power of two."""
    down, across = shape[::-1] if swapped else shape
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), SHARED)
    per = PIECE_BYTES * 8 // bits_of(element)
    swizzled = swizzled and across % per == 0 and (across // per).bit_count() == 1
    kind = ir.MemRefType.get([slots, down, across + (0 if swizzled else per)], element, memory_space=space)
    return Tile(memref.alloc(kind, [], []), shape, swapped, swizzled)


def bytes_of(shape: tuple[int, int], size: int) -> int:
    """Bytes of a slot of a tile, of elements of so many bits, whose rows lie as the tile's do."""
    return shape[0] * (shape[1] * size // 8 + PIECE_BYTES)


def neighbors(view: ir.Value) -> int:
    """The axis along which elements of a matrix lie side by side."""
    strides, _ = ir.MemRefType(view.type).get_strides_and_offset()
    return 1 if strides[1] == 1 else 0


@dataclass(frozen=True, slots=True)
class Team:
    """The threads of a block.

    Attributes:
        thread: The number of the one whose code this is.
        count: How many there are.
    """

    thread: ir.Value
    count: int


@dataclass(frozen=True, slots=True)
class Stored:
    """An operand that copies bring into shared memory by themselves, as it is stored; its rows are aligned to what is moved at once.

    Attributes:
        view: The matrix.
        extents: How far its axes may be read.
    """

    view: ir.Value
    extents: Sequence[Index]

    @property
    def across(self) -> int:
        """The axis along which elements are neighbors."""
        return neighbors(self.view)

    def copy(self, tile: Tile, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbors as are inside to the same place of a slot; the rest becomes zero."""
        view, extents = self._by_rows()
        copy_inside(view, (outer, inner), extents, tile, (slot, outer, inner), width)

    def _by_rows(self) -> tuple[ir.Value, Sequence[Index]]:
        """The matrix and its extents, the axis of neighbors last."""
        return (self.view, self.extents) if self.across == 1 else (transposed(self.view), self.extents[::-1])


def copy_inside(
    view: ir.Value, at: Sequence[Index], extents: Sequence[Index], tile: Tile, to: Sequence[Index], width: int
) -> None:
    """Begins a copy of the neighbors of a matrix that are inside to a slot, row and column of a buffer; the rest becomes zero."""
    (outer, inner), (slot, *place) = at, to
    inside = minimum(sub(extents[1], minimum(inner, extents[1])), width)
    some = arith.select(less(outer, extents[0]), value(inside), value(0))
    begin_copy(view, at, tile, tile.of_rows(slot, *place), width, some)


def begin_copy(
    view: ir.Value, at: Sequence[Index], tile: Tile, to: Sequence[ir.Value], width: int, some: ir.Value
) -> None:
    """Begins a copy of the first `some` of `width` neighbors of a view to shared memory; the others become zero."""
    ir.Operation.create(
        "nvgpu.device_async_copy",
        results=[ir.Type.parse("!nvgpu.device.async.token")],
        operands=[tile.buffer, *to, view, *map(value, at), some],
        attributes={
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(to), 1, len(at), 1]),
            "dstElements": ir.IntegerAttr.get(ir.IndexType.get(), width),
            "bypassL1": ir.UnitAttr.get(),
        },
    )


class Source(Protocol):
    """What copies are of, by pieces of neighbors."""

    @property
    def across(self) -> int:
        """The axis of the tile along which pieces lie."""
        ...

    def copy(self, tile: Tile, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbors as are inside to the same place of a slot; the rest becomes zero."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Neighbors of a tile that one thread brings there.

    Attributes:
        outer: Where they are along the other axis.
        inner: Where the first one is along their own.
        number: The piece's number, where not all threads have this one, and others have the last place instead; None where they have.
    """

    outer: Index
    inner: Index
    number: Index | None


def pieces(tile: Tile, across: int, width: int, team: Team) -> list[Piece]:
    """A thread's pieces, of `width` neighbors along an axis: every so-manieth of the tile as there are threads."""
    count = tile.shape[0] * tile.shape[1] // width
    found = []
    for step in range(-(-count // team.count)):
        number = add(team.thread, step * team.count)
        all_have = (step + 1) * team.count <= count
        outer, inner = div_rem(number if all_have else minimum(number, count - 1), tile.shape[across] // width)
        found.append(Piece(outer, mul(inner, width), None if all_have else number))
    return found


def for_those(tile: Tile, width: int, piece: Piece, emit: Callable[[], None]) -> None:
    """Emits what the threads do that have a piece."""
    if piece.number is None:
        emit()
        return
    with when(less(piece.number, tile.shape[0] * tile.shape[1] // width)):
        emit()


def begin_copies(tile: Tile, slot: Index, source: Source, team: Team) -> None:
    """Begins the copies of a thread's pieces into a slot of a tile, which lies as `source` does.

    Before: ``read view[...]`` of a whole block. After, in each thread::

        for step: begin tile[piece] = view[piece number step * threads + thread]
    """
    width = width_of(tile, source.across, team, aligned=True)
    for piece in pieces(tile, source.across, width, team):
        for_those(tile, width, piece, lambda piece=piece: source.copy(tile, slot, piece.outer, piece.inner, width))


def width_of(tile: Tile, across: int, team: Team, *, aligned: bool) -> int:
    """Elements of a piece: as many as are moved at once, but, of rows that are not aligned, not so many that threads have none."""
    width = PIECE_BYTES * 8 // bits_of(ir.MemRefType(tile.buffer.type).element_type)
    elements = tile.shape[0] * tile.shape[1]
    while width > 1 and (tile.shape[across] % width or (not aligned and width * team.count > elements)):
        width //= 2
    return width


def least(a: Index, b: Index) -> Index:
    """The smaller one of two places in a tile, for which 32 bits are enough."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    word = ir.IntegerType.get_signless(32)
    found = arith.minui(*(arith.index_cast(word, value(each)) for each in (a, b)))
    return arith.index_castui(ir.IndexType.get(), found)
