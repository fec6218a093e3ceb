# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Indices, loops and branches, written as Python functions of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Union

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, scf

Size = Union[int, ir.Value]  # noqa: UP007 - evaluated by Python 3.10
"""An index that is known now, or only when the kernel is called."""
Values = list[ir.Value]


def at(size: Size) -> ir.Value:
    """`size` as a value."""
    return size if isinstance(size, ir.Value) else arith.constant(ir.IndexType.get(), size)


def add(x: Size, y: Size) -> Size:
    """The sum."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return arith.addi(at(x), at(y))


def subtract(x: Size, y: Size) -> Size:
    """The difference."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y
    return arith.subi(at(x), at(y))


def multiply(x: Size, y: Size) -> Size:
    """The product."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    return arith.muli(at(x), at(y))


def divide(x: Size, y: Size) -> Size:
    """The quotient, rounded down; neither is below zero."""
    if isinstance(x, int) and isinstance(y, int):
        return x // y
    return at(x) if y == 1 else arith.divui(at(x), at(y))


def rest(x: Size, y: Size) -> Size:
    """What is left of x after division by y."""
    if isinstance(x, int) and isinstance(y, int):
        return x % y
    return at(0) if y == 1 else arith.remui(at(x), at(y))


def least(x: Size, y: Size) -> Size:
    """The smaller one, with sign."""
    if isinstance(x, int) and isinstance(y, int):
        return min(x, y)
    return arith.minsi(at(x), at(y))


def most(x: Size, y: Size) -> Size:
    """The larger one, with sign."""
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y)
    return arith.maxsi(at(x), at(y))


def steps(x: Size, step: int) -> Size:
    """How many steps of `step` reach x: x / step, rounded up."""
    return divide(add(x, step - 1), step)


def less(x: Size, y: Size) -> ir.Value:
    """Whether x < y, with sign."""
    return arith.cmpi(arith.CmpIPredicate.slt, at(x), at(y))


def loop(
    end: Size,
    step: int,
    body: Callable[..., Sequence[ir.Value] | None],
    carried: Sequence[ir.Value] = (),
    *,
    start: Size = 0,
) -> Values:
    """``for i in start..end step step``; `body` takes i and what is carried from step to step, and returns that anew."""
    made = scf.ForOp(at(start), at(end), at(step), list(carried))
    with ir.InsertionPoint(made.body):
        scf.YieldOp(list(body(made.induction_variable, *made.inner_iter_args) or ()))
    return list(made.results)


def chunks(size: int, step: int, body: Callable[[Size, int], object]) -> None:
    """Runs `body(at, count)` for each chunk of `step` elements of `size`, in a loop, and for the shorter one that is left."""
    whole = size - size % step

    def one(start: ir.Value) -> None:
        body(start, step)

    if whole:
        loop(whole, step, one)
    if whole < size:
        body(whole, size - whole)


def branch(
    condition: ir.Value,
    then: Callable[[], Sequence[ir.Value] | None],
    otherwise: Callable[[], Sequence[ir.Value]] | None = None,
    types: Sequence[ir.Type] = (),
) -> Values:
    """``if condition: then() else: otherwise()``, with the values that they return."""
    made = scf.IfOp(condition, list(types), has_else=otherwise is not None)
    with ir.InsertionPoint(made.then_block):
        scf.YieldOp(list(then() or ()))
    if otherwise is not None:
        with ir.InsertionPoint(made.regions[1].blocks[0]):
            scf.YieldOp(list(otherwise()))
    return list(made.results)
