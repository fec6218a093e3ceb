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
from dataclasses import dataclass

from tilewright.build.constants import bits_of, like, zero
from tilewright.build.index import Index, add, less, sub, value
from tilewright.build.views import transposed
from tilewright.codegen.gpu import staging
from tilewright.codegen.gpu.fragments import axis_of
from tilewright.codegen.gpu.gathered_rows import TABLE, Gathered, Numbers
from tilewright.codegen.gpu.grouped import Grouped, element, number_of
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
        numbers: Those of the rows of A, where it is a table.
    """

    of: Callable[[ir.Value], ir.Value]
    extents_of: Callable[[ir.Operation, ir.Value], Sequence[Index]]
    aligned: bool
    groups: Mapping[int, Grouped]
    numbers: Numbers | None = None


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
        count, size = 1 if self._is_one else self.width, bits_of(self._element)
        if size >= _WORD:
            return ir.VectorType.get([count], self._element)
        word = min(_WORD, count * size) if self.at_once else _WORD
        return ir.VectorType.get([count * size // word if self.at_once else count], ir.IntegerType.get_signless(word))

    def begin(self) -> ir.Value:
        """Emits the loads. Returns what is held."""
        view, place, extents = self._by_rows()
        if self.at_once:
            start = [_least(place[0], sub(extents[0], 1)), _least(place[1], sub(extents[1], self.width))]
            bytes_ = min(staging.PIECE_BYTES, self.width * bits_of(self._element) // 8)
            loaded = vector.load(self._piece, view, [value(each) for each in start], alignment=bytes_)
        else:
            elements = self._elements(view, place, extents)
            loaded = vector.from_elements(self._loaded, elements)
        if loaded.type == self.kind:
            return loaded
        if self.at_once:
            return vector.bitcast(self.kind, loaded)
        codes = like(loaded.type, f"i{bits_of(self._element)}")
        return arith.extui(self.kind, loaded if loaded.type == codes else arith.bitcast(codes, loaded))

    def finish(self, held: ir.Value) -> ir.Value:
        """Emits what makes a piece of what is held; of one that was loaded at once, zeros where it is beyond the edges."""
        if self.at_once:
            _, place, extents = self._by_rows()
            inside = arith.andi(*(less(index, extent) for index, extent in zip(place, extents, strict=True)))
            # In words: LLVM would take them apart where they are loaded, if elements were all that is made of them.
            held = arith.select(inside, held, zero(held.type))
        elif (gathered := self._gathered) is not None:
            held = _where(gathered.exists(self.at[0]), held)
        if held.type != self._loaded:
            held = self._unpacked(held)
        return vector.broadcast(self._piece, vector.extract(held, [], [0])) if self._is_one else held

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
        return ir.VectorType.get([1 if self._is_one else self.width], self._element)

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
    def _gathered(self) -> Gathered | None:
        """What the operand is, where it is a table of rows."""
        source, reading = self.op.operands[0], self.reading
        if reading.numbers is None or number_of(source) != TABLE:
            return None
        return reading.numbers.source(source, reading.of, reading.extents_of(self.op, reading.of(source)))

    @property
    def at_once(self) -> bool:
        """Whether elements are loaded at once."""
        source = self.op.operands[0]
        if not self.reading.aligned or self._grouped is not None or self._rank != 2:
            return False
        if self.width * bits_of(self._element) % 8:
            return False  # A piece of half a byte.
        return self._axes[self.across] == staging.neighbors(source)

    @property
    def _is_one(self) -> bool:
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

    def _by_rows(self) -> tuple[ir.Value, list[Index], list[Index]]:
        """The view, the place and the extents; of pieces of neighbors, with the axis of neighbors last."""
        view, place, gathered = self.reading.of(self.op.operands[0]), self._place(), self._gathered
        if gathered is not None:
            return gathered.place(*place)
        extents = list(self.reading.extents_of(self.op, view))
        if self.at_once and staging.neighbors(self.op.operands[0]) == 0:
            return transposed(view), place[::-1], extents[::-1]
        return view, place, extents

    def _elements(self, view: ir.Value, place: list[Index], extents: Sequence[Index]) -> list[ir.Value]:
        """Loads elements one by one."""
        grouped, along = self._grouped, None if self._is_one else self._axes[self.across]
        loaded = []
        for each in range(1 if along is None else self.width):
            one = [add(index, each) if axis == along else index for axis, index in enumerate(place)]
            if grouped is not None:
                loaded.append(element(self.op.operands[0], one, grouped, self.reading.of))
            else:
                inside = [_least(index, sub(extent, 1)) for index, extent in zip(one, extents, strict=True)]
                loaded.append(memref.load(view, [value(index) for index in inside]))
        return loaded


def _where(condition: ir.Value, held: ir.Value) -> ir.Value:
    """What is held, or zeros."""
    kind = ir.VectorType(held.type)
    nothing = zero(kind.element_type)
    words = [arith.select(condition, vector.extract(held, [], [each]), nothing) for each in range(kind.shape[0])]
    return vector.from_elements(kind, words)


def _least(a: Index, b: Index) -> Index:
    """The smaller one of two places in a tile, for which 32 bits are enough."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    word = ir.IntegerType.get_signless(_WORD)
    found = arith.minui(*(arith.index_cast(word, value(each)) for each in (a, b)))
    return arith.index_castui(ir.IndexType.get(), found)
