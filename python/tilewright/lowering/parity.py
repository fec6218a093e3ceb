# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices that are numbers, or values: their halves, and whether they are even."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith

Index = int | ir.Value
"""One that is known, or one that is computed."""


def value_of(index: Index) -> ir.Value:
    """The index as a value."""
    return arith.constant(ir.IndexType.get(), index) if isinstance(index, int) else index


def splat(kind: ir.Type, value: int) -> ir.Value:
    """An integer, in each element where `kind` is a vector."""
    if not isinstance(kind, ir.VectorType):
        return arith.constant(kind, value)
    number = ir.IntegerAttr.get(ir.VectorType(kind).element_type, value)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number))


def plus(x: Index, y: Index | None) -> Index:
    """The sum; x itself without y."""
    if y is None:
        return x
    return x + y if isinstance(x, int) and isinstance(y, int) else arith.addi(value_of(x), value_of(y))


def halved(index: Index) -> Index:
    """Half of an index, rounded down."""
    return index // 2 if isinstance(index, int) else _apply(index, ir.AffineExpr.get_floor_div)


def halved_up(index: Index) -> Index:
    """Half of an index, rounded up."""
    return -(-index // 2) if isinstance(index, int) else _apply(index, ir.AffineExpr.get_ceil_div)


def rest(index: Index) -> Index:
    """0 for an even index, and 1 for an odd one."""
    return index % 2 if isinstance(index, int) else _apply(index, ir.AffineExpr.get_mod)


def _apply(value: ir.Value, operation: Callable[[ir.AffineExpr, int], ir.AffineExpr]) -> ir.Value:
    return affine.AffineApplyOp(ir.AffineMap.get(1, 0, [operation(ir.AffineDimExpr.get(0), 2)]), [value]).result


def is_even(index: Index) -> bool:
    """Whether an index is even, as far as constants, loops and expressions show."""
    if isinstance(index, int):
        return index % 2 == 0
    owner = index.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner
        if loop.name != "scf.for" or ir.BlockArgument(index).arg_number != 0:
            return False
        lower, _, step = list(loop.operands)[:3]
        return is_even(lower) and is_even(step)
    op = owner.operation
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value % 2 == 0
    if op.name == "affine.apply":
        order = ir.AffineMapAttr(op.attributes["map"]).value
        evens = [is_even(each) for each in op.operands]
        return _is_even_expression(order.results[0], evens[: order.n_dims], evens[order.n_dims :])
    if op.name in ("arith.addi", "arith.subi"):
        return all(is_even(each) for each in op.operands)
    return op.name == "arith.muli" and any(is_even(each) for each in op.operands)


def _is_even_expression(expression: ir.AffineExpr, dims: Sequence[bool], symbols: Sequence[bool]) -> bool:
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value % 2 == 0
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[expression.position]
    if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr, ir.AffineModExpr)):
        return False
    parts = [_is_even_expression(each, dims, symbols) for each in (expression.lhs, expression.rhs)]
    return any(parts) if isinstance(expression, ir.AffineMulExpr) else all(parts)
