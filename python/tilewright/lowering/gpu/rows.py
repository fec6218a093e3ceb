# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pieces of rows, moved by one thread: whole ones as vectors, those over an edge element by element."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.lowering.gpu.index import Index, add, at_most, below, least, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector

_ROW_ALIGNMENT = 16
"""Bytes to which rows are aligned where they are said to be."""


def load(
    view: ir.Value, at: Sequence[Index], extents: Sequence[Index], width: int, fill: ir.Value, *, aligned: bool = False
) -> ir.Value:
    """The `width` elements of the last axis from `at` on; `fill` stands for those beyond the extents.

    The extents are those of `view` that may be read, each at least 1. `aligned` says that a whole piece is aligned to its size.
    """
    kind = ir.VectorType.get([width], ir.MemRefType(view.type).element_type)
    whole = _inside(at[:-1], extents[:-1])
    whole = _both(whole, at_most(add(at[-1], width), extents[-1]))
    branch = scf.IfOp(whole, [kind], has_else=True)
    otherwise = branch.else_block
    assert otherwise is not None, "as asked for"
    with ir.InsertionPoint(branch.then_block):
        scf.yield_([vector.load(kind, view, [value(each) for each in at], alignment=_alignment(kind, aligned=aligned))])
    with ir.InsertionPoint(otherwise):
        outer = [least(index, _last(extent)) for index, extent in zip(at[:-1], extents[:-1], strict=True)]
        inside = _inside(at[:-1], extents[:-1])
        elements = []
        for each in range(width):
            column = add(at[-1], each)
            element = memref.load(view, [value(index) for index in (*outer, least(column, _last(extents[-1])))])
            elements.append(arith.select(_both(inside, below(column, extents[-1])), element, fill))
        scf.yield_([vector.from_elements(kind, elements)])
    return branch.results[0]


def store(row: ir.Value, view: ir.Value, at: Sequence[Index], extents: Sequence[Index]) -> None:
    """Writes a vector to the elements of the last axis from `at` on, as far as they are within the extents."""
    width = ir.VectorType(row.type).shape[0]
    inside = _inside(at[:-1], extents[:-1])
    branch = scf.IfOp(_both(inside, at_most(add(at[-1], width), extents[-1])), has_else=True)
    otherwise = branch.else_block
    assert otherwise is not None, "as asked for"
    with ir.InsertionPoint(branch.then_block):
        vector.store(row, view, [value(each) for each in at])
        scf.yield_([])
    with ir.InsertionPoint(otherwise):
        for each in range(width):
            column = add(at[-1], each)
            one = scf.IfOp(_both(inside, below(column, extents[-1])))
            with ir.InsertionPoint(one.then_block):
                element = vector.extract(row, [], [each])
                memref.store(element, view, [value(index) for index in (*at[:-1], column)])
                scf.yield_([])
        scf.yield_([])


def _inside(at: Sequence[Index], extents: Sequence[Index]) -> ir.Value | None:
    """Whether all of `at` are; None where there are none."""
    inside = None
    for index, extent in zip(at, extents, strict=True):
        inside = _both(inside, below(index, extent))
    return inside


def _both(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else arith.andi(a, b)


def _last(extent: Index) -> Index:
    """The last index."""
    return extent - 1 if isinstance(extent, int) else arith.subi(extent, value(1))


def _alignment(kind: ir.VectorType, *, aligned: bool) -> int | None:
    """Bytes to which a whole piece is aligned, of rows that are to 16; None where no more is known than of its elements."""
    element = kind.element_type
    width = ir.IntegerType(element).width if isinstance(element, ir.IntegerType) else ir.FloatType(element).width
    return min(kind.shape[0] * width // 8, _ROW_ALIGNMENT) if aligned else None
