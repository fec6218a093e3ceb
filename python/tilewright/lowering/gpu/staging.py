# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of A and B in shared memory, which all threads of a block bring there together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tilewright.lowering.gpu import rows
from tilewright.lowering.gpu.index import Index, add, below, divide, least, multiply, subtract, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector

SHARED = 3
"""The memory space of what the threads of a block share. A number, because not every pass knows the gpu dialect's name for it."""
PIECE_BYTES = 16
"""Bytes that a thread moves at once."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory, in as many slots as are in use at once.

    Attributes:
        buffer: Its memory: slots, rows, columns. Rows are a little longer than needed, so that they start in different banks.
        shape: The tile's extents, as the product has it.
        swapped: Whether rows of the buffer are the tile's columns.
    """

    buffer: ir.Value
    shape: tuple[int, int]
    swapped: bool


def allocate(shape: tuple[int, int], element: ir.Type, slots: int, *, swapped: bool) -> Tile:
    """Shared memory for a tile."""
    down, across = shape[::-1] if swapped else shape
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), SHARED)
    kind = ir.MemRefType.get([slots, down, across + PIECE_BYTES * 8 // bits(element)], element, memory_space=space)
    return Tile(memref.alloc(kind, [], []), shape, swapped)


def neighbours(view: ir.Value) -> int:
    """The axis along which elements of a matrix lie side by side."""
    strides, _ = ir.MemRefType(view.type).get_strides_and_offset()
    return 1 if strides[1] == 1 else 0


def bits(element: ir.Type) -> int:
    """Bits of an element."""
    return ir.IntegerType(element).width if isinstance(element, ir.IntegerType) else ir.FloatType(element).width


def zero_of(element: ir.Type) -> ir.Value:
    """Zero."""
    return arith.constant(element, 0 if isinstance(element, ir.IntegerType) else 0.0)


def zero_attribute(element: ir.Type) -> ir.Attribute:
    """Zero, as an attribute."""
    return ir.IntegerAttr.get(element, 0) if isinstance(element, ir.IntegerType) else ir.FloatAttr.get(element, 0.0)


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
    """An operand that is put into shared memory as it is stored.

    Attributes:
        view: The matrix.
        extents: How far its axes may be read.
        aligned: Whether its rows start at multiples of the bytes that are moved at once.
    """

    view: ir.Value
    extents: Sequence[Index]
    aligned: bool

    @property
    def across(self) -> int:
        """The axis along which elements are neighbours."""
        return neighbours(self.view)

    def load(self, outer: Index, inner: Index, width: int) -> ir.Value:
        """The `width` neighbours from a place on; `inner` is along the axis of neighbours."""
        view, extents = self._by_rows()
        zero = zero_of(ir.MemRefType(view.type).element_type)
        return rows.load(view, (outer, inner), extents, width, zero, aligned=self.aligned)

    def copy_ahead(self, buffer: ir.Value, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbours as are inside to the same place of a slot; the rest becomes zero."""
        view, extents = self._by_rows()
        inside = least(subtract(extents[1], least(inner, extents[1])), width)
        some = arith.select(below(outer, extents[0]), value(inside), value(0))
        begin_copy(view, (outer, inner), buffer, (slot, outer, inner), width, some)

    def _by_rows(self) -> tuple[ir.Value, Sequence[Index]]:
        """The matrix and its extents, the axis of neighbours last."""
        return (self.view, self.extents) if self.across == 1 else (transposed(self.view), self.extents[::-1])


def begin_copy(
    view: ir.Value, at: Sequence[Index], buffer: ir.Value, to: Sequence[Index], width: int, some: ir.Value
) -> None:
    """Begins a copy of the first `some` of `width` neighbours of a matrix to shared memory; the others become zero."""
    ir.Operation.create(
        "nvgpu.device_async_copy",
        results=[ir.Type.parse("!nvgpu.device.async.token")],
        operands=[buffer, *map(value, to), view, *map(value, at), some],
        attributes={
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 3, 1, 2, 1]),
            "dstElements": ir.IntegerAttr.get(ir.IndexType.get(), width),
            "bypassL1": ir.UnitAttr.get(),
        },
    )


class Source(Protocol):
    """What a tile is filled from, by pieces of neighbours."""

    @property
    def across(self) -> int:
        """The axis of the tile along which pieces lie."""
        ...

    @property
    def aligned(self) -> bool:
        """Whether pieces of the bytes that are moved at once are aligned to them."""
        ...

    def load(self, outer: Index, inner: Index, width: int) -> ir.Value:
        """The `width` elements from a place on, `inner` being along the axis of pieces; zeros for those beyond the edges."""
        ...


@runtime_checkable
class Ahead(Protocol):
    """A source of which copies go on by themselves."""

    def copy_ahead(self, buffer: ir.Value, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbours as are inside to the same place of a slot; the rest becomes zero."""
        ...


def fill(tile: Tile, slot: Index, source: Source, team: Team, *, ahead: bool) -> None:
    """Brings `source` into a slot of a tile.

    The threads' pieces lie along the axis whose elements are neighbours in memory. With `ahead`, which wants an operand as it is
    stored, aligned rows and a tile that lies as they do, copies go on by themselves. Before: ``read view[...]`` of a whole
    block. After, in each thread::

        for step: tile[piece] = view[piece number step * threads + thread]
        # The caller lets them meet.
    """
    width = _width(tile, source, team)
    pieces = tile.shape[0] * tile.shape[1] // width
    for step in range(-(-pieces // team.count)):
        number = add(team.thread, step * team.count)
        if (step + 1) * team.count <= pieces:
            _move(tile, slot, source, number, width, ahead=ahead)
            continue
        some = scf.IfOp(below(number, pieces))
        with ir.InsertionPoint(some.then_block):
            _move(tile, slot, source, number, width, ahead=ahead)
            scf.yield_([])


def _move(tile: Tile, slot: Index, source: Source, number: Index, width: int, *, ahead: bool) -> None:
    """Brings one piece."""
    outer, inner = divide(number, tile.shape[source.across] // width)
    inner = multiply(inner, width)
    if ahead and isinstance(source, Ahead):
        source.copy_ahead(tile.buffer, slot, outer, inner, width)
        return
    piece = source.load(outer, inner, width)
    size = bits(ir.VectorType(piece.type).element_type)
    if tile.swapped == (source.across == 0):
        at = [value(each) for each in (slot, outer, inner)]
        vector.store(piece, tile.buffer, at, alignment=width * size // 8)
        return
    for each in range(width):
        at = [value(index) for index in (slot, add(inner, each), outer)]
        memref.store(vector.extract(piece, [], [each]), tile.buffer, at)


def _width(tile: Tile, source: Source, team: Team) -> int:
    """Elements of a piece: as many as are moved at once, but not so many that threads have none."""
    width = PIECE_BYTES * 8 // bits(ir.MemRefType(tile.buffer.type).element_type)
    elements = tile.shape[0] * tile.shape[1]
    while width > 1 and (tile.shape[source.across] % width or (not source.aligned and width * team.count > elements)):
        width //= 2
    return width


def transposed(view: ir.Value) -> ir.Value:
    """A matrix with its axes swapped."""
    kind = ir.MemRefType(view.type)
    strides, offset = kind.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset, strides[::-1])
    result = ir.MemRefType.get(kind.shape[::-1], kind.element_type, layout, kind.memory_space)
    return memref.TransposeOp(result, view, ir.AffineMapAttr.get(ir.AffineMap.get_permutation([1, 0]))).result
