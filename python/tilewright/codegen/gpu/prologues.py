# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pieces of A or B, or of what is made of them before it is multiplied, computed by the thread that puts them into shared memory.

Before, in a block::

    write made <- f(read A under a mask, read further operands)      # a buffer of one tile
    a = read made under a mask

After, in each thread, for a few neighbors of the tile: ``f(read A[...], read further operands[...])``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index
from tilewright.build.usedef import defined_by, retyped
from tilewright.codegen.gpu.reads import Read, Reading
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector


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
        reading: How operands are read.
    """

    made: ir.Value
    across: int
    reading: Reading

    def is_whole(self, width: int) -> bool:
        """Whether pieces of so many elements are neighbors in memory, where rows are aligned."""
        return all(self.reading.is_whole(read, width) for read in _reads(self.made))

    def reads(self, outer: Index, inner: Index, width: int) -> list[Read]:
        """What is read for the `width` elements of the tile from a place on; `inner` is along the axis of pieces."""
        at = (outer, inner) if self.across == 1 else (inner, outer)
        ops = dict.fromkeys(read.results[0] for read in _reads(self.made))
        return [Read(found.owner.operation, at, self.across, width, self.reading) for found in ops]

    def piece(self, found: Mapping[ir.Value, ir.Value], width: int) -> ir.Value:
        """What is made of the pieces that were read, by the results of the reads; beyond the edges it is anything."""
        return self._value(self.made, found, width)

    def extents(self) -> Sequence[Index]:
        """How far the tile goes: beyond are zeros."""
        read = _outermost(self.made)
        return self.reading.extents_of(read, read.operands[0])

    def _value(self, whole: ir.Value, found: Mapping[ir.Value, ir.Value], width: int) -> ir.Value:
        """The piece of a vector of the block."""
        if whole in found:
            return found[whole]
        kind = ir.VectorType.get([width], ir.VectorType(whole.type).element_type)
        constant = defined_by(whole, "arith.constant")
        if constant is not None:
            splat = ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()
            return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        op = _definition(whole)
        if op.name == "vector.transfer_read":
            made = made_in(op)
            assert made is not None, "all others were read"
            return self._value(made, found, width)
        if op.name == "vector.broadcast" and not isinstance(op.operands[0].type, ir.VectorType):
            return vector.broadcast(kind, self.reading.of(op.operands[0]))
        return retyped(op, kind, [self._value(operand, found, width) for operand in op.operands])


def _definition(whole: ir.Value) -> ir.Operation:
    """The op that makes a vector of the block.

    Raises:
        LoweringError: There is none.
    """
    owner = whole.owner
    if not isinstance(owner, ir.Operation | ir.OpView):
        raise LoweringError("a prologue that depends on a loop", stage="threads")
    return owner.operation


def _reads(whole: ir.Value) -> Iterator[ir.Operation]:
    """The ops that read operands for a vector of the block."""
    op = _definition(whole)
    if op.name == "vector.transfer_read":
        made = made_in(op)
        if made is None:
            yield op
        else:
            yield from _reads(made)
    elif op.name != "arith.constant":
        for operand in op.operands:
            if isinstance(operand.type, ir.VectorType):
                yield from _reads(operand)


def _outermost(whole: ir.Value) -> ir.Operation:
    """The last one of the ops that read a matrix, an operand or a buffer, for a vector of the block."""
    op = _definition(whole)
    if op.name == "vector.transfer_read":
        return op
    return _outermost(next(operand for operand in op.operands if _matrix_of(operand) is not None))
