# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the indexing maps of attention's ops: which axis of each operand is the batch, the head, the query, the key."""

from __future__ import annotations

from tilewright.codegen.attention.bodies import refused
from tilewright.mlir import ir

Axis = tuple[int, int]
"""A dimension of the loops, and what it is divided by, rounded down."""
_LEAST_RANK = 3


def product(op: ir.Operation, *, transposed: bool) -> int:
    """How many heads of the first operand share one of the second in a product of (batch…, head, row, column).

    The first operand is (batch…, head, row, k) and the second (batch…, head floordiv group, k, column), with the last two the
    other way round where it is `transposed`.

    Raises:
        ScheduleError: The op is no such product.
    """
    axes = _axes(op)
    if len(axes) != 3 or len(axes[2]) < _LEAST_RANK:
        raise refused("expected a product of two operands with heads, rows and columns", op)
    left, right, result = axes
    order = _plain(result, op)
    *lead, row, column = order
    (summed,) = set(range(len(order) + 1)) - set(order) or {-1}
    kinds = _iterators(op)
    if len(kinds) != len(order) + 1 or [at for at, kind in enumerate(kinds) if kind != "parallel"] != [summed]:
        raise refused("expected one dimension that is summed over", op)
    inner = [(column, 1), (summed, 1)] if transposed else [(summed, 1), (column, 1)]
    shared, group = right[len(lead) - 1] if len(right) == len(order) else (-1, 1)
    wanted = [*((each, 1) for each in lead[:-1]), (lead[-1], group), *inner]
    if left != [(each, 1) for each in (*lead, row, summed)] or shared != lead[-1] or right != wanted:
        raise refused("expected operands with the axes batch, head, row and column, in this order", op)
    return group


def is_elementwise(op: ir.Operation) -> bool:
    """Whether an op sums over no dimension."""
    return set(_iterators(op)) == {"parallel"}


def elementwise(op: ir.Operation) -> list[int]:
    """The loop dimensions of an elementwise op in the order of its result's axes.

    Raises:
        ScheduleError: The op sums, or gives several results.
    """
    order = _plain(_axes(op)[-1], op)
    if len(op.results) != 1 or not is_elementwise(op) or sorted(order) != list(range(len(_iterators(op)))):
        raise refused("expected an elementwise op with one result", op)
    return order


def check_in_place(op: ir.Operation) -> None:
    """Checks that an elementwise op reads each element where it writes it.

    Raises:
        ScheduleError: It transposes or broadcasts.
    """
    *read, written = _axes(op)
    if elementwise(op) and any(each != written for each in read):
        raise refused("the result is transposed", op)


def mask(op: ir.Operation, order: list[int]) -> tuple[int, ...]:
    """Which axes of the scores the mask, the first operand of an elementwise op, has.

    Raises:
        ScheduleError: Its last axis is not that of the keys.
    """
    found = _plain(_axes(op)[0], op)
    if not found or found[-1] != order[-1] or len(set(found)) != len(found):
        raise refused("the last axis of the mask is not that of the keys", op)
    return tuple(order.index(each) for each in found)


def _plain(axes: list[Axis], op: ir.Operation) -> list[int]:
    """The dimensions of axes, of which none is divided."""
    if any(divisor != 1 for _, divisor in axes):
        raise refused("an axis is divided that is not the head of keys", op)
    return [dimension for dimension, _ in axes]


def _axes(op: ir.Operation) -> list[list[Axis]]:
    """The axes of each operand."""
    maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    return [[_axis(each, op) for each in map_.results] for map_ in maps]


def _axis(expression: ir.AffineExpr, op: ir.Operation) -> Axis:
    if isinstance(expression, ir.AffineDimExpr):
        return expression.position, 1
    if isinstance(expression, ir.AffineFloorDivExpr):
        dimension, divisor = expression.lhs, expression.rhs
        if isinstance(dimension, ir.AffineDimExpr) and isinstance(divisor, ir.AffineConstantExpr):
            return dimension.position, divisor.value
    raise refused(f"an axis is {expression}", op)


def _iterators(op: ir.Operation) -> list[str]:
    """The kinds of an op's loops: "parallel", "reduction"."""
    text = [str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"])]
    return [each.removeprefix("#linalg.iterator_type<").removesuffix(">") for each in text]
