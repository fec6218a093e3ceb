# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads of operands for a piece of a tile, in two halves: the loads, and later what is made of the registers that they fill.

Between the two a thread multiplies, so that it does not wait for memory. What is held meanwhile are the registers as loads fill
them: whoever took elements out of them at once would wait for them at once. Nothing is loaded from beyond the edges of an operand:
there the nearest elements inside stand for those of the tile, until zeros are put in their place.

Before: ``piece = read view[i, k:k+8]``. After::

    words = load view[min(i, last), min(k, last)] : vector<4xi32>
    ...
    piece = bitcast words : vector<8xbf16>
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.build.constants import bits_of, like, zero
from tilewright.build.index import Index, add, less, sub, value
from tilewright.build.views import transposed
from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu.fragments import axis_of
from tilewright.codegen.gpu.grouped import Grouped, element, number_of
from tilewright.codegen.gpu.scattered import Pieces, Scattered
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_WORD = 32


@dataclass(frozen=True, slots=True)
class Reading:
    """What is common to the reads of a kernel.

    Attributes:
        of: Gives the value of a thread for one of the block: a view.
        extents_of: Gives, for a read and its view, how far each axis of the view goes.
        aligned: Whether rows start at multiples of the bytes that are moved at once, and are multiples of pieces long.
        groups: The operands that have an element for each group along K, by number.
        scattered: The operands whose matrix is not in memory as it is multiplied, by number.
    """

    of: Callable[[ir.Value], ir.Value]
    extents_of: Callable[[ir.Operation, ir.Value], Sequence[Index]]
    aligned: bool
    groups: Mapping[int, Grouped]
    scattered: Mapping[int, Scattered] = field(default_factory=dict)

    def scattered_of(self, op: ir.Operation) -> Scattered | None:
        """The operand that a read is of, where that is such a one."""
        number = number_of(op.operands[0])
        return None if number is None else self.scattered.get(number)

    def is_whole(self, op: ir.Operation, width: int) -> bool:
        """Whether pieces of so many elements of what is read are neighbors in memory, where rows are aligned."""
        found = self.scattered_of(op)
        return found is None or found.is_whole(width)

    def pieces(self, op: ir.Operation) -> Pieces | None:
        """What a read is of, where the matrix is not in memory as it is multiplied."""
        found, view = self.scattered_of(op), op.operands[0]
        return None if found is None else found.source(view, self.of, self.extents_of(op, self.of(view)))


@dataclass(frozen=True, slots=True)
class Read:
    """What a ``vector.transfer_read`` of the block reads for a piece.

    Attributes:
        op: The read.
        at: Where in the tile the piece starts.
        across: The axis of the tile along which it lies.
        width: Its elements.
        reading: What is common to all.
    """

    op: ir.Operation
    at: tuple[Index, Index]
    across: int
    width: int
    reading: Reading

    @property
    def kind(self) -> ir.VectorType:
        """The type of what is held: words, of which narrow elements that are loaded one by one have one each."""
        count, size = 1 if self.is_one else self.width, bits_of(self._element)
        if size >= _WORD:
            return ir.VectorType.get([count], self._element)
        word = min(_WORD, count * size) if self.at_once else _WORD
        return ir.VectorType.get([count * size // word if self.at_once else count], ir.IntegerType.get_signless(word))

    def begin(self) -> ir.Value:
        """Emits the loads. Returns what is held."""
        if self.at_once:
            view, start = self._start()
            bytes_ = min(staging.PIECE_BYTES, self.width * bits_of(self._element) // 8)
            loaded = vector.load(self._piece, view, start, alignment=bytes_)
        else:
            loaded = vector.from_elements(self._loaded, self._elements())
        if loaded.type == self.kind:
            return loaded
        if self.at_once:
            return vector.bitcast(self.kind, loaded)
        codes = like(loaded.type, f"i{bits_of(self._element)}")
        return arith.extui(self.kind, loaded if loaded.type == codes else arith.bitcast(codes, loaded))

    def finish(self, held: ir.Value) -> ir.Value:
        """Emits what makes a piece of what is held; of one that was loaded at once, zeros where it is beyond the edges."""
        pieces = self.reading.pieces(self.op)
        if self.at_once:
            if pieces is not None:
                inside = pieces.exists(*self._place())
            else:
                _, place, extents = self._by_rows()
                inside = arith.andi(*(less(index, extent) for index, extent in zip(place, extents, strict=True)))
            # In words: LLVM would take them apart where they are loaded, if elements were all that is made of them.
            held = arith.select(inside, held, zero(held.type))
        elif pieces is not None:
            held = _where([pieces.exists(*place) for place in self._places()], held)
        if held.type != self._loaded:
            held = self._unpacked(held)
        return vector.broadcast(self._piece, vector.extract(held, [], [0])) if self.is_one else held

    def _unpacked(self, held: ir.Value) -> ir.Value:
        """The elements that are held as words."""
        if self.at_once:
            return vector.bitcast(self._loaded, held)
        codes = arith.trunci(like(self._loaded, f"i{bits_of(self._element)}"), held)
        return codes if codes.type == self._loaded else arith.bitcast(self._loaded, codes)

    @property
    def _piece(self) -> ir.VectorType:
        return ir.VectorType.get([self.width], self._element)

    @property
    def _loaded(self) -> ir.VectorType:
        return ir.VectorType.get([1 if self.is_one else self.width], self._element)

    @property
    def _element(self) -> ir.Type:
        return ir.VectorType(self.op.results[0].type).element_type

    @property
    def _axes(self) -> list[int | None]:
        """Which axis of the operand each axis of the tile is; without any for an operand of one element."""
        permutation = ir.AffineMapAttr(self.op.attributes["permutation_map"]).value
        return [axis_of(each) for each in permutation.results] if permutation.n_dims else []

    @property
    def _grouped(self) -> Grouped | None:
        number = number_of(self.op.operands[0])
        return None if number is None else self.reading.groups.get(number)

    @property
    def at_once(self) -> bool:
        """Whether elements are loaded at once."""
        source = self.op.operands[0]
        if not self.reading.aligned or self._grouped is not None or self._rank != 2:
            return False
        if self.width * bits_of(self._element) % 8 or not self.reading.is_whole(self.op, self.width):
            return False  # A piece of half a byte, or of several places.
        return self._axes[self.across] == staging.neighbors(source)

    @property
    def is_one(self) -> bool:
        """Whether one element is for all: along the piece the operand is broadcast, or the piece is within a group."""
        if not self._axes or (along := self._axes[self.across]) is None:
            return True
        return self._grouped is not None and along == self._rank + self._grouped.axis

    @property
    def _rank(self) -> int:
        return ir.MemRefType(self.op.operands[0].type).rank

    def _place(self) -> list[Index]:
        """Where in the operand the piece starts."""
        place: list[Index] = [0] * self._rank
        for axis, index in zip(self._axes, self.at, strict=False):
            if axis is not None:
                place[axis] = index
        return place

    def _places(self) -> list[list[Index]]:
        """Where each element of the piece is."""
        place, along = self._place(), None if self.is_one else self._axes[self.across]
        return [
            [add(index, each) if axis == along else index for axis, index in enumerate(place)]
            for each in range(1 if along is None else self.width)
        ]

    def _by_rows(self) -> tuple[ir.Value, list[Index], list[Index]]:
        """The view, the place and the extents; of pieces of neighbors, with the axis of neighbors last."""
        view, place = self.reading.of(self.op.operands[0]), self._place()
        extents = list(self.reading.extents_of(self.op, view))
        if self.at_once and staging.neighbors(self.op.operands[0]) == 0:
            return transposed(view), place[::-1], extents[::-1]
        return view, place, extents

    def _start(self) -> tuple[ir.Value, list[ir.Value]]:
        """What a piece is loaded from at once, and where."""
        pieces = self.reading.pieces(self.op)
        if pieces is not None:
            row, column = self._place()
            return pieces.place(row, column, self.width)
        view, (outer, inner), extents = self._by_rows()
        start = staging.least(outer, sub(extents[0], 1)), staging.least(inner, sub(extents[1], self.width))
        return view, [value(each) for each in start]

    def _elements(self) -> list[ir.Value]:
        """Loads elements one by one."""
        grouped, pieces = self._grouped, self.reading.pieces(self.op)
        if grouped is not None:
            return [element(self.op.operands[0], one, grouped, self.reading.of) for one in self._places()]
        if pieces is not None:
            return [memref.load(*pieces.place(row, column, 1)) for row, column in self._places()]
        view, _, extents = self._by_rows()
        return [
            memref.load(
                view,
                [value(staging.least(index, sub(extent, 1))) for index, extent in zip(one, extents, strict=True)],
            )
            for one in self._places()
        ]


def _where(conditions: Sequence[ir.Value], held: ir.Value) -> ir.Value:
    """The words that are held whose conditions hold, and zeros."""
    kind = ir.VectorType(held.type)
    nothing = zero(kind.element_type)
    words = [arith.select(each, vector.extract(held, [], [at]), nothing) for at, each in enumerate(conditions)]
    return vector.from_elements(kind, words)
