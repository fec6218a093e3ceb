# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices made by affine ops, which analyses of loops and slices can follow, and what such ops say of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.index import Index, known, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine


def scaled(index: Index, factor: int) -> Index:
    """A multiple of an index."""
    return index * factor if isinstance(index, int) else _applied(index, ir.AffineExpr.get_mul, factor)


def half(index: Index) -> Index:
    """Half of an index, rounded down."""
    return index // 2 if isinstance(index, int) else _applied(index, ir.AffineExpr.get_floor_div, 2)


def half_up(index: Index) -> Index:
    """Half of an index, rounded up."""
    return -(-index // 2) if isinstance(index, int) else _applied(index, ir.AffineExpr.get_ceil_div, 2)


def parity(index: Index) -> Index:
    """0 for an even index, and 1 for an odd one."""
    return index % 2 if isinstance(index, int) else _applied(index, ir.AffineExpr.get_mod, 2)


def _applied(index: ir.Value, make: Callable[[ir.AffineExpr, ir.AffineExpr], ir.AffineExpr], by: int) -> ir.Value:
    expression = make(ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(by))
    return affine.AffineApplyOp(ir.AffineMap.get(1, 0, [expression]), [index]).result


def slice_size(size: int, start: ir.Value, end: Index) -> Index:
    """The size of a slice from `start` on, which ends at `end` at the latest: just `size` where that divides `end`."""
    if isinstance(end, int) and end % size == 0:
        return size
    position, limit = ir.AffineDimExpr.get(0), ir.AffineDimExpr.get(1)
    rest = ir.AffineExpr.get_add(limit, ir.AffineExpr.get_mul(position, ir.AffineConstantExpr.get(-1)))
    map_ = ir.AffineMap.get(2, 0, [ir.AffineConstantExpr.get(size), rest])
    return affine.AffineMinOp(map_, [start, value(end)]).result


def terms(index: Index) -> tuple[Index, ...]:
    """What `index` is the sum of, as far as an affine.apply says it."""
    made = index.owner if isinstance(index, ir.Value) and not isinstance(index.owner, ir.Block) else None
    if made is None:
        return (index,)
    op, constant = made.operation, known(index)
    if constant is not None:
        return (constant,)
    if op.name != "affine.apply":
        return (index,)
    map_ = ir.AffineMapAttr(op.attributes["map"]).value
    found = _summands(map_.results[0], list(op.operands), map_.n_dims)
    return (index,) if found is None else tuple(term for each in found for term in terms(each))


def _summands(expression: ir.AffineExpr, operands: Sequence[ir.Value], dims: int) -> list[Index] | None:
    """The terms of a sum of operands and numbers; None where it is anything else."""
    if isinstance(expression, ir.AffineConstantExpr):
        return [expression.value]
    if isinstance(expression, ir.AffineDimExpr):
        return [operands[expression.position]]
    if isinstance(expression, ir.AffineSymbolExpr):
        return [operands[dims + expression.position]]
    if not isinstance(expression, ir.AffineAddExpr):
        return None
    parts = [_summands(each, operands, dims) for each in (expression.lhs, expression.rhs)]
    return None if parts[0] is None or parts[1] is None else [*parts[0], *parts[1]]


def is_even(index: Index) -> bool:
    """Whether an index is even, as far as constants, loops and expressions show."""
    number = known(index)
    if number is not None:
        return number % 2 == 0
    assert isinstance(index, ir.Value), "others are known"
    owner = index.owner
    if isinstance(owner, ir.Block):
        loop = owner.owner
        if loop.name != "scf.for" or ir.BlockArgument(index).arg_number != 0:
            return False
        lower, _, step = list(loop.operands)[:3]
        return is_even(lower) and is_even(step)
    op = owner.operation
    if op.name == "affine.apply":
        order = ir.AffineMapAttr(op.attributes["map"]).value
        evens = [is_even(each) for each in op.operands]
        return _is_even(order.results[0], evens[: order.n_dims], evens[order.n_dims :])
    if op.name in ("arith.addi", "arith.subi"):
        return all(is_even(each) for each in op.operands)
    return op.name == "arith.muli" and any(is_even(each) for each in op.operands)


def _is_even(expression: ir.AffineExpr, dims: Sequence[bool], symbols: Sequence[bool]) -> bool:
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value % 2 == 0
    if isinstance(expression, ir.AffineDimExpr):
        return dims[expression.position]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[expression.position]
    if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr, ir.AffineModExpr)):
        return False
    parts = [_is_even(each, dims, symbols) for each in (expression.lhs, expression.rhs)]
    return any(parts) if isinstance(expression, ir.AffineMulExpr) else all(parts)
