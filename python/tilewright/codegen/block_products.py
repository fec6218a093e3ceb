# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of blocks that are written out by us: where they add to, and when for the first time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.build.index import value
from tilewright.build.usedef import body, definition, is_below, named
from tilewright.build.views import sizes_of, subview
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref

HOIST = "builtin.module(canonicalize, func.func(loop-invariant-code-motion), cse)"
"""Slices leave the loops that they do not depend on, and those that are the same are one."""


def behind(block: ir.Value, panels: ir.Value) -> ir.InsertionPoint:
    """Behind the op that makes a block of an operand, or, where it is an argument, its panels."""
    maker = definition(block) or definition(panels)
    assert maker is not None, "panels are a view of an allocation"
    return ir.InsertionPoint.after(maker)


def extent(matrix: ir.Value, dimension: int) -> int | ir.Value:
    """An extent of a matrix: a number where that is known, otherwise what the slice that it is was made with."""
    kind = ir.MemRefType(matrix.type)
    if not kind.is_dynamic_dim(dimension):
        return kind.shape[dimension]
    maker = definition(matrix)
    if maker is not None and maker.name == "memref.alloc":
        return maker.operands[sum(kind.is_dynamic_dim(d) for d in range(dimension))]
    if maker is not None and maker.name == "memref.subview":
        sizes = sizes_of(maker)
        dropped = len(sizes) - kind.rank
        # A batch's dimensions are dropped from the front.
        if sizes[:dropped] == [1] * dropped:
            return sizes[dropped + dimension]
    return memref.dim(matrix, value(dimension))


def static(c: ir.Value, function: func.FuncOp, most: Sequence[int]) -> ir.Value:
    """The block of sums `c`, where that is an allocation, or one is made for it, taken out of one of `most` rows and columns.

    Before: ``c = alloc[m, n]``, or ``c = (alloc[M, N])[i:i+m, j:j+n]`` that nothing else uses. After: ``c = (alloc of most)[0:m, 0:n]``.

    Only allocations of static sizes become part of the workspace, and a block of sums should stay in the cache.
    """
    maker = definition(c)
    allocation = definition(maker.operands[0]) if maker is not None and maker.name == "memref.subview" else maker
    if maker is None or allocation is None or allocation.name != "memref.alloc":
        return c
    if maker == allocation and ir.MemRefType(c.type).has_static_shape:
        return c
    if maker != allocation and len(list(allocation.results[0].uses)) > 1:
        return c
    kind = ir.MemRefType(c.type)
    with ir.InsertionPoint.at_block_begin(function.entry_block):
        whole = memref.AllocOp(ir.MemRefType.get(most, kind.element_type), [], [])
    layout = ir.StridedLayoutAttr.get(0, [most[1], 1])
    with ir.InsertionPoint(maker):
        sizes = [extent(c, d) for d in range(kind.rank)]
        part = subview(ir.MemRefType.get(kind.shape, kind.element_type, layout), whole.memref, [0, 0], sizes)
    c.replace_all_uses_with(part)
    for op in (maker,) if maker == allocation else (maker, allocation):
        op.erase()
    return part


def fill_of(c: ir.Value, function: func.FuncOp) -> ir.Operation | None:
    """The op that fills what `c` is a part of with zeros; None where sums are added to what is there."""
    return next((op for op in named(function.operation, "linalg.fill") if _root(op.operands[1]) == _root(c)), None)


def first_step(product: ir.Operation, c: ir.Value, fill: ir.Operation) -> ir.Value | None:
    """Whether a product is the first one that adds to its block of C: loops that C's block does not depend on have begun.

    None where there are no such loops, so that it always is.
    """
    used = set(_makers(c))
    first: ir.Value | None = None
    loop = product.parent
    while loop is not None and loop.name == "scf.for" and not is_below(fill, loop):
        variable = body(loop).arguments[0]
        if variable not in used:
            begins = arith.cmpi(arith.CmpIPredicate.eq, variable, loop.operands[0])
            first = begins if first is None else arith.andi(first, begins)
        loop = loop.parent
    return first


def _root(view: ir.Value) -> ir.Value:
    """The argument or allocation that a view is one of."""
    maker = definition(view)
    while maker is not None and maker.name in ("memref.subview", "memref.cast"):
        view = maker.operands[0]
        maker = definition(view)
    return view


def _makers(made: ir.Value) -> Iterator[ir.Value]:
    """A value and all that it is made from."""
    yield made
    maker = definition(made)
    for operand in () if maker is None else maker.operands:
        yield from _makers(operand)
