# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memrefs of which one axis becomes several of dynamic extents, as views with strides that are computed.

Upstream's expand-strided-metadata finds such an extent by a division, and so takes one of them for each axis at most.
"""

from __future__ import annotations

from tilewright.build.index import values
from tilewright.build.usedef import named, replace
from tilewright.build.views import DYNAMIC, metadata, mixed, reinterpreted
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
    kind = ir.MemRefType(op.results[0].type)
    base, start, _, given = metadata(op.operands[0])
    open_sizes = list(op.operands)[1:]
    sizes = values(mixed(kind.shape, open_sizes))
    strides: list[ir.Value] = []
    for stride, group in zip(given, _groups(op), strict=True):
        own = [stride]
        for each in reversed(group[1:]):
            own.insert(0, arith.muli(own[0], sizes[each]))
        strides += own
    known, offset = kind.get_strides_and_offset()
    open_strides = [value for value, each in zip(strides, known, strict=True) if each == DYNAMIC]
    return reinterpreted(kind, base, [start] if offset == DYNAMIC else [], open_sizes, open_strides)
