# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of A and B in shared memory, which all threads of a block bring there together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        aligned: Whether rows of operands start at multiples of the bytes that are moved at once.
    """

    thread: ir.Value
    count: int
    aligned: bool = False


def fill(tile: Tile, slot: Index, view: ir.Value, extents: Sequence[Index], team: Team, *, ahead: bool) -> None:
    """Copies `view`, of which `extents` may be read, into a slot of a tile; zeros stand for what is beyond.

    The threads' pieces lie along the axis whose elements are neighbours in memory. With `ahead`, which wants aligned rows and a
    tile that lies as they do, the copies go on by themselves. Before: ``read view[...]`` of a whole block. After, in each
    thread::

        for step: tile[piece] = view[piece number step * threads + thread]
        # The caller lets them meet.
    """
    across = neighbours(view)
    if across == 0:
        view, extents = _transposed(view), extents[::-1]
    element = ir.MemRefType(view.type).element_type
    move = _Piece(
        tile, slot, view, tuple(extents), _width(tile, across, bits(element), team), across, team.aligned, ahead
    )
    pieces = tile.shape[0] * tile.shape[1] // move.width
    for step in range(-(-pieces // team.count)):
        number = add(team.thread, step * team.count)
        if (step + 1) * team.count <= pieces:
            move.make(number)
            continue
        some = scf.IfOp(below(number, pieces))
        with ir.InsertionPoint(some.then_block):
            move.make(number)
            scf.yield_([])


@dataclass(frozen=True, slots=True)
class _Piece:
    """How pieces of a view, whose last axis is that of neighbours, are moved into a tile."""

    tile: Tile
    slot: Index
    view: ir.Value
    extents: tuple[Index, ...]
    width: int
    across: int
    aligned: bool
    ahead: bool

    def make(self, number: Index) -> None:
        """Copies one piece."""
        inner_extent = self.tile.shape[self.across]
        outer, inner = divide(number, inner_extent // self.width)
        inner = multiply(inner, self.width)
        if self.ahead:
            self._copy_ahead(outer, inner)
            return
        zero = zero_of(ir.MemRefType(self.view.type).element_type)
        piece = rows.load(self.view, (outer, inner), self.extents, self.width, zero, aligned=self.aligned)
        if self.tile.swapped == (self.across == 0):
            at = [value(each) for each in (self.slot, outer, inner)]
            vector.store(piece, self.tile.buffer, at, alignment=self.width * bits(zero.type) // 8)
            return
        for each in range(self.width):
            at = [value(index) for index in (self.slot, add(inner, each), outer)]
            memref.store(vector.extract(piece, [], [each]), self.tile.buffer, at)

    def _copy_ahead(self, outer: Index, inner: Index) -> None:
        """Begins a copy of as many elements as are inside; the rest becomes zero."""
        inside = least(subtract(self.extents[1], least(inner, self.extents[1])), self.width)
        some = arith.select(below(outer, self.extents[0]), value(inside), value(0))
        index = ir.IndexType.get()
        ir.Operation.create(
            "nvgpu.device_async_copy",
            results=[ir.Type.parse("!nvgpu.device.async.token")],
            operands=[
                self.tile.buffer,
                *(value(each) for each in (self.slot, outer, inner)),
                self.view,
                value(outer),
                value(inner),
                some,
            ],
            attributes={
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 3, 1, 2, 1]),
                "dstElements": ir.IntegerAttr.get(index, self.width),
                "bypassL1": ir.UnitAttr.get(),
            },
        )


def _width(tile: Tile, across: int, size: int, team: Team) -> int:
    """Elements of a piece: as many as are moved at once, but not so many that threads have none."""
    width = PIECE_BYTES * 8 // size
    elements = tile.shape[0] * tile.shape[1]
    while width > 1 and (tile.shape[across] % width or (not team.aligned and width * team.count > elements)):
        width //= 2
    return width


def _transposed(view: ir.Value) -> ir.Value:
    kind = ir.MemRefType(view.type)
    strides, offset = kind.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset, strides[::-1])
    result = ir.MemRefType.get(kind.shape[::-1], kind.element_type, layout, kind.memory_space)
    return memref.TransposeOp(result, view, ir.AffineMapAttr.get(ir.AffineMap.get_permutation([1, 0]))).result
