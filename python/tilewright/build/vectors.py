# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vectors of fixed length, and of a length that is a multiple of 128 bits only the machine knows: types, reads, writes and intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.constants import bits_of, integer, zero
from tilewright.build.index import Index, value, values
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

REGISTER_BITS = 128
"""The shortest scalable vector, of which every longer one is a multiple."""


def fixed(lanes: int, element: ir.Type) -> ir.VectorType:
    """The vector of `lanes` elements."""
    return ir.VectorType.get([lanes], element)


def scalable(lanes: int, element: ir.Type) -> ir.VectorType:
    """The vector of `lanes` elements for each 128 bits of a register."""
    return ir.VectorType.get([lanes], element, scalable=[True])


def lane_mask(lanes: int, start: Index, limit: Index) -> ir.Value:
    """Whether start + i < limit, for each lane i of a scalable vector: one ``whilelo``."""
    ends = [arith.index_cast(integer(64), value(each)) for each in (start, limit)]
    return intrinsic("llvm.get.active.lane.mask", scalable(lanes, integer(1)), *ends)


def bitcast(kind: ir.VectorType, source: ir.Value) -> ir.Value:
    """The bits of a vector as another one."""
    return source if source.type == kind else vector.bitcast(kind, source)


def bits_as(source: ir.Value, element: ir.Type) -> ir.Value:
    """The bits of a vector of fixed length as elements of another type."""
    kind = ir.VectorType(source.type)
    return bitcast(fixed(kind.shape[0] * bits_of(kind.element_type) // bits_of(element), element), source)


def read(matrix: ir.Value, at: Sequence[Index], count: int, *, inside: bool = True, along: int = -1) -> ir.Value:
    """`count` elements of `matrix`, along its last dimension or another; zeros for missing ones, unless all are `inside`."""
    kind = ir.MemRefType(matrix.type)
    padding = zero(kind.element_type)
    found, order = fixed(count, kind.element_type), _along(kind.rank, along % kind.rank)
    return vector.TransferReadOp(found, matrix, values(at), order, padding, [inside]).result


def write(source: ir.Value, matrix: ir.Value, at: Sequence[Index], *, inside: bool = True) -> None:
    """Writes elements along the last dimension of `matrix`, as far as it goes; `inside` says that all are there."""
    rank = ir.MemRefType(matrix.type).rank
    vector.TransferWriteOp(None, source, matrix, values(at), _along(rank, rank - 1), [inside])


def load(buffer: ir.Value, at: Sequence[Index], count: int, whole: int | None = None) -> ir.Value:
    """`count` elements of a row of `buffer`, from `at` on; those from number `whole` on, if given, are zeros and not read."""
    kind = fixed(count, ir.MemRefType(buffer.type).element_type)
    if whole is None or whole >= count:
        return vector.load(kind, buffer, values(at))
    return vector.maskedload(kind, buffer, values(at), first_lanes(count, whole), zero(kind))


def store(source: ir.Value, buffer: ir.Value, at: Sequence[Index], whole: int | None = None) -> None:
    """Writes a vector, or its first `whole` elements, to a row of `buffer` from `at` on."""
    count = ir.VectorType(source.type).shape[0]
    if whole is None or whole >= count:
        vector.store(source, buffer, values(at))
    else:
        vector.maskedstore(buffer, values(at), first_lanes(count, whole), source)


def first_lanes(count: int, whole: int) -> ir.Value:
    """A mask of `count` lanes that is set for the first `whole`."""
    return vector.constant_mask(fixed(count, integer(1)), [whole])


def elementwise(body: ir.Block, given: Sequence[ir.Value | None], kind: Callable[[ir.Type], ir.VectorType]) -> ir.Value:
    """What a body on single elements yields, as vectors.

    Args:
        body: Ops of elements, ended by what yields one of them.
        given: A vector for each argument that the body uses, in their order; what is missing at the end it does not use.
        kind: The vector type of an element type.
    """
    known = {argument: each for argument, each in zip(body.arguments, given, strict=False) if each is not None}

    def taken(operand: ir.Value) -> ir.Value:
        """The vector that stands for an operand; a value from outside is the same for all elements."""
        if operand not in known:
            known[operand] = vector.broadcast(kind(operand.type), operand)
        return known[operand]

    *ops, end = [each.operation for each in body.operations]
    for op in ops:
        result = kind(op.results[0].type)
        attributes = {name: op.attributes[name] for name in op.attributes}
        if op.name == "arith.constant":
            attributes["value"] = ir.DenseElementsAttr.get_splat(result, attributes["value"])
        operands = [taken(each) for each in op.operands]
        known[op.results[0]] = ir.Operation.create(op.name, [result], operands, attributes).results[0]
    return taken(end.operands[0])


def _along(rank: int, dimension: int) -> ir.AffineMapAttr:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(dimension)]))


def intrinsic(name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """A call of one of LLVM's intrinsics. The Python classes of the LLVM dialect take long to import."""
    attributes = {
        "intrin": ir.StringAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(arguments), 0]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [result], list(arguments), attributes).results[0]
