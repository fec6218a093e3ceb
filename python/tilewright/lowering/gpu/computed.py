# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pieces of what is made of A or B before it is multiplied, computed by the thread that puts them into shared memory.

Before, in a block::

    write made <- f(read A under a mask, read further operands)      # a buffer of one tile
    a = read made under a mask

After, in each thread, for a few neighbours of the tile: ``f(read A[...], read further operands[...])``, and zeros beyond the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import rows, staging
from tilewright.lowering.gpu.gathered import TABLE, Numbers
from tilewright.lowering.gpu.grouped import Grouped, element, number_of
from tilewright.lowering.gpu.index import Index, add, below
from tilewright.lowering.gpu.parts import axis_of, defined_by, retyped
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector


def made_in(read: ir.Operation) -> ir.Value | None:
    """The vector that was written to the buffer that `read` reads; None where that is no buffer of a block's own."""
    buffer = _buffer(read.operands[0])
    if buffer is None:
        return None
    for use in buffer.uses:
        user = use.owner.operation
        views = [user.results[0]] if user.name == "memref.subview" else [buffer]
        for each in (use.owner.operation for view in views for use in view.uses):
            if each.name == "vector.transfer_write":
                return each.operands[0]
    raise LoweringError("a buffer of a block that nothing writes", stage="threads")


def forms(multiplied: ir.Value) -> list[tuple[ir.Value, ir.Operation | None]]:
    """A vector of the block that is multiplied, and before it what it was, step by step, before it was widened.

    Beside each is the op that widens the next one to it.
    """
    op = multiplied.owner.operation
    made = made_in(op) if op.name == "vector.transfer_read" else None
    widening = op if made is None else made.owner.operation
    if widening.name not in _WIDEN:
        return [(multiplied, None)]
    return [(multiplied, widening), *forms(widening.operands[0])]


_WIDEN = frozenset({"arith.extf", "arith.extsi", "arith.extui"})


def matrix_of(vector_: ir.Value) -> ir.Value:
    """The matrix that a vector of the block is made of: the first one that is read as the tile lies.

    Raises:
        LoweringError: There is none.
    """
    found = _matrix_of(vector_)
    if found is None:
        raise LoweringError("a prologue that reads no matrix", stage="threads")
    return found


def _buffer(view: ir.Value) -> ir.Value | None:
    """The allocation that a view is of; None where it is of an operand."""
    subview = defined_by(view, "memref.subview")
    if subview is not None:
        return _buffer(subview.operands[0])
    return view if defined_by(view, "memref.alloc") is not None else None


def _matrix_of(vector_: ir.Value) -> ir.Value | None:
    op = vector_.owner
    if not isinstance(op, ir.Operation | ir.OpView):
        return None
    one = op.operation
    if one.name == "vector.transfer_read":
        made = made_in(one)
        if made is not None:
            return _matrix_of(made)
        return one.operands[0] if ir.AffineMapAttr(one.attributes["permutation_map"]).value.is_permutation else None
    return next((found for operand in one.operands if (found := _matrix_of(operand)) is not None), None)


@dataclass(frozen=True, slots=True)
class Computed:
    """A vector of the block, by pieces.

    Attributes:
        made: The vector.
        across: The axis of the tile along which pieces lie.
        of: Gives the value of a thread for one of the block: a view.
        extents_of: Gives, for a read and its view, how far each axis of the view goes.
        aligned: Whether rows of the matrix start at multiples of what is moved at once.
        groups: The operands that have an element for each group along K, by number.
        numbers: Those of the rows of the matrix, where it is a table.
    """

    made: ir.Value
    across: int
    of: Callable[[ir.Value], ir.Value]
    extents_of: Callable[[ir.Operation, ir.Value], Sequence[Index]]
    aligned: bool
    groups: Mapping[int, Grouped]
    numbers: Numbers | None = None

    def load(self, outer: Index, inner: Index, width: int) -> ir.Value:
        """The `width` elements of the tile from a place on; `inner` is along the axis of pieces."""
        return self._value(self.made, (outer, inner) if self.across == 1 else (inner, outer), width)

    def _inside(self, piece: ir.Value, at: tuple[Index, Index], extents: Sequence[Index]) -> ir.Value:
        """A piece with zeros for what is beyond the extents."""
        zero = staging.zero_of(ir.VectorType(piece.type).element_type)
        inner, outer = at[self.across], below(at[1 - self.across], extents[1 - self.across])
        elements = [
            arith.select(
                arith.andi(outer, below(add(inner, each), extents[self.across])),
                vector.extract(piece, [], [each]),
                zero,
            )
            for each in range(ir.VectorType(piece.type).shape[0])
        ]
        return vector.from_elements(piece.type, elements)

    def _value(self, whole: ir.Value, at: tuple[Index, Index], width: int) -> ir.Value:
        """The piece of a vector of the block."""
        kind = ir.VectorType.get([width], ir.VectorType(whole.type).element_type)
        constant = defined_by(whole, "arith.constant")
        if constant is not None:
            splat = ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()
            return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        owner = whole.owner
        if not isinstance(owner, ir.Operation | ir.OpView):
            raise LoweringError("a prologue that depends on a loop", stage="threads")
        op = owner.operation
        if op.name == "vector.transfer_read":
            made = made_in(op)
            if made is None:
                return self._read(op, at, kind)
            return self._inside(self._value(made, at, width), at, self.extents_of(op, op.operands[0]))
        if op.name == "vector.broadcast" and not isinstance(op.operands[0].type, ir.VectorType):
            return vector.broadcast(kind, self.of(op.operands[0]))
        return retyped(op, kind, [self._value(operand, at, width) for operand in op.operands])

    def _read_grouped(
        self, view: ir.Value, place: list[Index], along: int | None, grouped: Grouped, kind: ir.VectorType
    ) -> ir.Value:
        """A piece of an operand with an element for each group: one for all along K, for groups are multiples of pieces."""
        if along is None or along == len(place) + grouped.axis:
            return vector.broadcast(kind, element(view, place, grouped, self.of))
        elements = []
        for each in range(kind.shape[0]):
            one = [*place]
            one[along] = add(place[along], each)
            elements.append(element(view, one, grouped, self.of))
        return vector.from_elements(kind, elements)

    def _read(self, op: ir.Operation, at: tuple[Index, Index], kind: ir.VectorType) -> ir.Value:
        """A piece of what is read: neighbours, elements of several rows, or one element for all."""
        view = self.of(op.operands[0])
        permutation = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        axes = [axis_of(each) for each in permutation.results]
        place: list[Index] = [0] * permutation.n_dims
        for axis, index in zip(axes, at, strict=True):
            if axis is not None:
                place[axis] = index
        if not place:
            return vector.broadcast(kind, memref.load(view, []))
        along_piece = axes[self.across]
        number = number_of(op.operands[0])
        grouped = self.groups.get(number) if number is not None else None
        if self.numbers is not None and number == TABLE:
            source = self.numbers.source(op.operands[0], self.of, self.extents_of(op, view), aligned=self.aligned)
            return source.load(*place, kind.shape[0])
        if grouped is not None:
            return self._read_grouped(op.operands[0], place, along_piece, grouped, kind)
        extents, zero, along = (list(self.extents_of(op, view)), staging.zero_of(kind.element_type), axes[self.across])
        if along is None:
            return vector.broadcast(kind, vector.extract(rows.load(view, place, extents, 1, zero), [], [0]))
        if len(place) == 2 and staging.neighbours(view) == 0:
            view, place, extents, along = (staging.transposed(view), place[::-1], extents[::-1], 1 - along)
        if along == len(place) - 1:
            return rows.load(view, place, extents, kind.shape[0], zero, aligned=self.aligned and len(place) == 2)
        elements = []
        for each in range(kind.shape[0]):
            one = [*place]
            one[along] = add(place[along], each)
            elements.append(vector.extract(rows.load(view, one, extents, 1, zero), [], [0]))
        return vector.from_elements(kind, elements)
