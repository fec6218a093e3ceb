# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and branches as context managers, or as Python functions of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tilewright.build.index import Index, add, div, less, sub, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, scf

Body = Callable[[], Sequence[ir.Value] | None]
Loop = tuple[ir.Value, list[ir.Value], scf.ForOp]
"""The index of a loop, what it carries, and the loop itself."""


@contextmanager
def loop(
    start: Index, stop: Index, step: Index, carried: Sequence[ir.Value] = ()
) -> Iterator[Loop]:
    """Opens a loop: its index, what it carries, and itself. Whoever carries something ends it with ``scf.yield_``."""
    op = scf.ForOp(value(start), value(stop), value(step), list(carried))
    with ir.InsertionPoint(op.body):
        yield op.induction_variable, list(op.inner_iter_args), op
        if not carried:
            scf.yield_([])


@contextmanager
def when(condition: ir.Value) -> Iterator[None]:
    """Opens the block that runs where a condition holds."""
    with ir.InsertionPoint(scf.IfOp(condition).then_block):
        yield
        scf.yield_([])


def if_else(condition: ir.Value, then: Body, otherwise: Body, kinds: Sequence[ir.Type] = ()) -> list[ir.Value]:
    """``if condition: then() else: otherwise()``, which return values of the types `kinds`."""
    made = scf.IfOp(condition, list(kinds), has_else=True)
    for region, body in zip(made.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(region.blocks[0]):
            scf.yield_(list(body() or ()))
    return list(made.results)


def repeat(
    end: Index, step: int, body: Callable[..., Sequence[ir.Value] | None], carried: Sequence[ir.Value] = ()
) -> list[ir.Value]:
    """``for i in 0..end step step``; `body` takes i and the loop-carried values, and returns the next ones."""
    with loop(0, end, step, carried) as (at, held, made):
        found = body(at, *held)
        if carried:
            scf.yield_(list(found or ()))
    return list(made.results)


def chunks(size: int, step: int, body: Callable[[Index, int], object]) -> None:
    """Runs `body(at, count)` for each chunk of `step` elements of `size`, in a loop, and for the shorter one that is left."""
    whole = size - size % step
    if whole:
        with loop(0, whole, step) as (at, _, _):
            body(at, step)
    if whole < size:
        body(whole, size - whole)


def summed(
    size: int, step: int, body: Callable[[Index, int, Sequence[ir.Value]], list[ir.Value]], carried: Sequence[ir.Value]
) -> list[ir.Value]:
    """The same where ``body(at, count, values)`` returns the next of the values that are carried from one chunk to the next."""
    whole = size - size % step
    found = list(carried)
    if whole:
        found = repeat(whole, step, lambda at, *held: body(at, step, held), found)
    return body(whole, size - whole, found) if whole < size else found


def search(count: Index, is_before: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The last of the numbers 0 to `count` - 1 for which `is_before` does not hold; it holds for all behind one for which it does, not for 0.

    Each turn halves what is left.
    """
    kind = ir.IndexType.get()
    made = scf.WhileOp([kind, kind], [value(0), value(count)])
    for region in made.regions:
        ir.Block.create_at_start(region, [kind, kind], [made.location] * 2)
    (before,), (after,) = (region.blocks for region in made.regions)
    with ir.InsertionPoint(before):
        first, end = before.arguments
        scf.condition(less(1, sub(end, first)), [first, end])
    with ir.InsertionPoint(after):
        first, end = after.arguments
        middle = value(div(add(first, end), 2))
        left = is_before(middle)
        scf.yield_([arith.select(left, first, middle), arith.select(left, middle, end)])
    return made.results[0]
