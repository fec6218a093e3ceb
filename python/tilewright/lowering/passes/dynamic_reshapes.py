# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memrefs of which one axis becomes several whose extents only a call tells, as views with strides that are computed.

Upstream's expand-strided-metadata finds such an extent by a division, and so takes one of them for each axis at most.
"""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith

_OPEN = ir.ShapedType.get_dynamic_size()
_OPEN_STRIDE = ir.ShapedType.get_dynamic_stride_or_offset()


def expand(module: ir.Operation) -> None:
    """Replaces each ``memref.expand_shape`` in `module` that upstream does not take. Needs an active `ir.Context`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.expand_shape" and any(_opens(op, each) > 1 for each in _groups(op)):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(_view(op))
        op.erase()


def _groups(op: ir.Operation) -> list[list[int]]:
    """The axes that each axis becomes."""
    groups = ir.ArrayAttr(op.attributes["reassociation"])
    return [[ir.IntegerAttr(each).value for each in ir.ArrayAttr(group)] for group in groups]


def _opens(op: ir.Operation, axes: list[int]) -> int:
    """How many of some axes of the result are open."""
    shape = ir.MemRefType(op.results[0].type).shape
    return sum(shape[each] == _OPEN for each in axes)


def _view(op: ir.Operation) -> ir.Value:
    """What an op gives: strides of the axes of a group are those of the one axis, times the extents further in."""
    kind, given = ir.MemRefType(op.results[0].type), ir.MemRefType(op.operands[0].type)
    index = ir.IndexType.get()
    results = [ir.MemRefType.get([], given.element_type), *[index] * (1 + 2 * given.rank)]
    metadata = ir.Operation.create(
        "memref.extract_strided_metadata", results=results, operands=[op.operands[0]]
    ).results
    open_sizes = list(op.operands)[1:]
    left = iter(open_sizes)
    sizes = [next(left) if each == _OPEN else arith.constant(index, each) for each in kind.shape]
    strides: list[ir.Value] = []
    for axis, group in enumerate(_groups(op)):
        stride, own = metadata[2 + given.rank + axis], list[ir.Value]()
        for each in reversed(group):
            own.insert(0, stride)
            if each != group[0]:
                stride = arith.muli(stride, sizes[each])
        strides += own
    known, offset = kind.get_strides_and_offset()
    offsets = [metadata[1]] if offset == _OPEN_STRIDE else []
    open_strides = [value for value, each in zip(strides, known, strict=True) if each == _OPEN_STRIDE]
    attributes = {
        "static_offsets": ir.DenseI64ArrayAttr.get([offset]),
        "static_sizes": ir.DenseI64ArrayAttr.get(kind.shape),
        "static_strides": ir.DenseI64ArrayAttr.get(known),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(offsets), len(open_sizes), len(open_strides)]),
    }
    operands = [metadata[0], *offsets, *open_sizes, *open_strides]
    return ir.Operation.create(
        "memref.reinterpret_cast", results=[kind], operands=operands, attributes=attributes
    ).results[0]
