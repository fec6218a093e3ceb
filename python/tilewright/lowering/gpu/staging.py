# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of A and B in shared memory, which all threads of a block bring there together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lowering.gpu import rows
from tilewright.lowering.gpu.index import Index, add, below, divide, multiply, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector

SHARED = 3
"""The memory space of what the threads of a block share. A number, because not every pass knows the gpu dialect's name for it."""
_LOAD_BYTES = 16
"""Bytes that a thread loads at once."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory.

    Attributes:
        buffer: Its memory, whose rows are a little longer than the tile's, so that they start in different banks.
        shape: Its extents.
    """

    buffer: ir.Value
    shape: tuple[int, int]


def allocate(shape: tuple[int, int], element: ir.Type) -> Tile:
    """Shared memory for a tile."""
    gap = _LOAD_BYTES * 8 // _bits(element)
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), SHARED)
    kind = ir.MemRefType.get([shape[0], shape[1] + gap], element, memory_space=space)
    return Tile(memref.alloc(kind, [], []), shape)


def fill(tile: Tile, view: ir.Value, extents: Sequence[Index], zero: ir.Value, thread: ir.Value, threads: int) -> None:
    """Copies `view`, of which `extents` may be read, into a tile; `zero` stands for what is beyond.

    The threads' pieces lie along the axis whose elements are neighbours in memory. Before: ``read view[...]`` of a whole
    block. After, in each thread::

        for step: tile[piece] = view[piece number step * threads + thread]
        # The caller lets them meet.
    """
    element = ir.MemRefType(view.type).element_type
    across = _axis_of_neighbours(view)
    if across == 0:
        view = _transposed(view)
        extents = extents[::-1]
    outer_extent, inner_extent = tile.shape if across == 1 else tile.shape[::-1]
    width = _width(tile.shape[0] * tile.shape[1], inner_extent, _bits(element), threads)
    pieces = outer_extent * inner_extent // width
    for step in range(-(-pieces // threads)):
        number = add(thread, step * threads)
        if (step + 1) * threads <= pieces:
            _move(tile, view, extents, zero, number, inner_extent, width, across)
            continue
        some = scf.IfOp(below(number, pieces))
        with ir.InsertionPoint(some.then_block):
            _move(tile, view, extents, zero, number, inner_extent, width, across)
            scf.yield_([])


def _move(
    tile: Tile,
    view: ir.Value,
    extents: Sequence[Index],
    zero: ir.Value,
    number: Index,
    inner_extent: int,
    width: int,
    across: int,
) -> None:
    """Copies one piece."""
    outer, inner = divide(number, inner_extent // width)
    inner = multiply(inner, width)
    piece = rows.load(view, (outer, inner), extents, width, zero)
    if across == 1:
        vector.store(piece, tile.buffer, [value(outer), value(inner)])
        return
    for each in range(width):
        memref.store(vector.extract(piece, [], [each]), tile.buffer, [value(add(inner, each)), value(outer)])


def _width(elements: int, inner_extent: int, bits: int, threads: int) -> int:
    """Elements of a piece: as many as a load takes, but not so many that threads have none."""
    width = _LOAD_BYTES * 8 // bits
    while width > 1 and (inner_extent % width or width * threads > elements):
        width //= 2
    return width


def _bits(element: ir.Type) -> int:
    return ir.IntegerType(element).width if isinstance(element, ir.IntegerType) else ir.FloatType(element).width


def _axis_of_neighbours(view: ir.Value) -> int:
    strides, _ = ir.MemRefType(view.type).get_strides_and_offset()
    return 1 if strides[1] == 1 else 0


def _transposed(view: ir.Value) -> ir.Value:
    kind = ir.MemRefType(view.type)
    strides, offset = kind.get_strides_and_offset()
    layout = ir.StridedLayoutAttr.get(offset, strides[::-1])
    result = ir.MemRefType.get(kind.shape[::-1], kind.element_type, layout, kind.memory_space)
    return memref.TransposeOp(result, view, ir.AffineMapAttr.get(ir.AffineMap.get_permutation([1, 0]))).result


def zero_of(element: ir.Type) -> ir.Value:
    """Zero."""
    return arith.constant(element, 0 if isinstance(element, ir.IntegerType) else 0.0)
