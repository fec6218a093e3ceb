# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is done to a block of sums, element by element, on vectors whose length only the machine knows.

Upstream's ``structured.vectorize`` takes scalable sizes before bufferization, where the block is not there yet.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import mul, value
from tilewright.build.loops import loop
from tilewright.build.usedef import body, named
from tilewright.build.vectors import REGISTER_BITS, elementwise, lane_mask, scalable
from tilewright.lowering.types.math_functions import FUNCTIONS
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, memref, vector

_DIALECTS = frozenset({"arith", "math"})
"""Dialects whose ops on numbers take vectors of them."""


def vectorize(function: func.FuncOp) -> None:
    """Replaces each op on the elements of a matrix, ``linalg.generic``, by loops over vectors; others are left as they are.

    Before: ``C[:, :] = f(P[:, :], bias[:])``. After, with vectors of V, which the machine knows::

        for i in 0..m: for j in 0..n step V: C[i, j:j+V] = f(P[i, j:j+V], bias[j:j+V])       (under predicates)
    """
    found = named(function.operation, "linalg.generic")
    for op in found:
        with function.context, op.location:
            if _is_supported(op):
                with ir.InsertionPoint(op):
                    _write_out(op)
                op.erase()


@dataclass(frozen=True)
class _Access:
    """How an operand is read or written at (i, j).

    Attributes:
        buffer: The operand.
        dims: For each of its dimensions: 0 or 1, the one of (i, j) that is its index.
    """

    buffer: ir.Value
    dims: tuple[int, ...]

    @property
    def is_vector(self) -> bool:
        """Whether its elements lie side by side along j, and not at one place."""
        return 1 in self.dims

    @property
    def is_supported(self) -> bool:
        """Whether they do one of both."""
        if not self.is_vector:
            return True
        strides, _ = ir.MemRefType(self.buffer.type).get_strides_and_offset()
        return self.dims.index(1) == len(self.dims) - 1 and strides[-1] == 1

    def at(self, row: ir.Value, column: ir.Value) -> list[ir.Value]:
        """Its indices."""
        return [(row, column)[dim] for dim in self.dims]


def _accesses(op: ir.Operation) -> list[_Access] | None:
    """How each operand is accessed; None where that is not known here."""
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    found = []
    for operand, map_ in zip(op.operands, maps, strict=True):
        if not isinstance(operand.type, ir.MemRefType) or not all(
            isinstance(each, ir.AffineDimExpr) for each in map_.results
        ):
            return None
        found.append(_Access(operand, tuple(ir.AffineDimExpr(each).position for each in map_.results)))
    return found


def _is_supported(op: ir.Operation) -> bool:
    iterators = [str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"])]
    if iterators != ["#linalg.iterator_type<parallel>"] * 2:
        return False
    accesses = _accesses(op)
    if accesses is None or not all(each.is_supported for each in accesses) or accesses[-1].dims != (0, 1):
        return False
    return all(_takes_vectors(each.operation) for each in body(op).operations)


def _takes_vectors(op: ir.Operation) -> bool:
    """Whether an op of the body is one on numbers, and has a form for vectors. The C library's functions have none."""
    if op.name == "linalg.yield":
        return len(op.operands) == 1
    numbers = all(isinstance(each.type, ir.IntegerType | ir.FloatType) for each in (*op.operands, *op.results))
    in_library = op.name in FUNCTIONS and any(isinstance(each.type, ir.F64Type) for each in op.operands)
    return numbers and op.name.partition(".")[0] in _DIALECTS and not op.regions and not in_library


def _write_out(op: ir.Operation) -> None:
    accesses, block = _accesses(op), body(op)
    assert accesses is not None, "it is supported"
    values = [*block.arguments, *(result for each in block.operations for result in each.results)]
    lanes = REGISTER_BITS // max(bits_of(each.type) for each in values)
    m, n = (memref.dim(op.operands[len(op.operands) - 1], value(d)) for d in (0, 1))
    with loop(0, m, 1) as (row, _, _), loop(0, n, mul(vector.vscale(), lanes)) as (column, _, _):
        mask = lane_mask(lanes, column, n)
        given = [
            _read(access, row, column, lanes, mask) if list(argument.uses) else None
            for access, argument in zip(accesses, block.arguments, strict=True)
        ]
        result = elementwise(block, given, lambda element: scalable(lanes, element))
        vector.maskedstore(accesses[-1].buffer, accesses[-1].at(row, column), mask, result)


def _read(access: _Access, row: ir.Value, column: ir.Value, lanes: int, mask: ir.Value) -> ir.Value:
    """The elements of an operand that belong to a vector of C."""
    kind, at = scalable(lanes, ir.MemRefType(access.buffer.type).element_type), access.at(row, column)
    if access.is_vector:
        return vector.maskedload(kind, access.buffer, at, mask, zero(kind))
    return vector.broadcast(kind, memref.load(access.buffer, at))
