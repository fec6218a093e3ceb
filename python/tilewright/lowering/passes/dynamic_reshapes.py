# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memrefs of which one axis becomes several of dynamic extents, as views with strides that are computed.

Upstream's expand-strided-metadata finds such an extent by a division, and so takes one of them for each axis at most.
"""

from __future__ import annotations

from tilewright.build.index import values
from tilewright.build.usedef import named, replace
from tilewright.build.views import DYNAMIC, mixed
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith


def expand(module: ir.Operation) -> None:
    """Replaces each ``memref.expand_shape`` in `module` that upstream does not take. Needs an active `ir.Context`."""
    for op in named(module, "memref.expand_shape"):
        if all(_opens(op, each) <= 1 for each in _groups(op)):
            continue
        with ir.InsertionPoint(op), op.location:
            replace(op, _view(op))


def _groups(op: ir.Operation) -> list[list[int]]:
    """The axes that each axis becomes."""
    groups = ir.ArrayAttr(op.attributes["reassociation"])
    return [[ir.IntegerAttr(each).value for each in ir.ArrayAttr(group)] for group in groups]


def _opens(op: ir.Operation, axes: list[int]) -> int:
    """How many of some axes of the result are open."""
    shape = ir.MemRefType(op.results[0].type).shape
    return sum(shape[each] == DYNAMIC for each in axes)


def _view(op: ir.Operation) -> ir.Value:
    """What an op gives: strides of the axes of a group are those of the one axis, times the extents further in."""
    kind, given = ir.MemRefType(op.results[0].type), ir.MemRefType(op.operands[0].type)
    index = ir.IndexType.get()
    results = [ir.MemRefType.get([], given.element_type), *[index] * (1 + 2 * given.rank)]
    metadata = ir.Operation.create(
        "memref.extract_strided_metadata", results=results, operands=[op.operands[0]]
    ).results
    open_sizes = list(op.operands)[1:]
    sizes = values(mixed(kind.shape, open_sizes))
    strides: list[ir.Value] = []
    for axis, group in enumerate(_groups(op)):
        stride, own = metadata[2 + given.rank + axis], list[ir.Value]()
        for each in reversed(group):
            own.insert(0, stride)
            if each != group[0]:
                stride = arith.muli(stride, sizes[each])
        strides += own
    known, offset = kind.get_strides_and_offset()
    offsets = [metadata[1]] if offset == DYNAMIC else []
    open_strides = [value for value, each in zip(strides, known, strict=True) if each == DYNAMIC]
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
