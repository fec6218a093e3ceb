# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops written as Python functions of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.index import Index
from tilewright.build.loops import loop
from tilewright.mlir import ir
from tilewright.mlir.dialects import scf

Values = list[ir.Value]


def repeat(
    end: Index, step: int, body: Callable[..., Sequence[ir.Value] | None], carried: Sequence[ir.Value] = ()
) -> Values:
    """``for i in 0..end step step``; `body` takes i and the loop-carried values, and returns the next ones."""
    with loop(0, end, step, carried) as (at, held, made):
        found = body(at, *held)
        if carried:
            scf.yield_(list(found or ()))
    return list(made.results)


def chunks(size: int, step: int, body: Callable[[Index, int], object]) -> None:
    """Runs `body(at, count)` for each chunk of `step` elements of `size`, in a loop, and for the shorter one that is left."""
    whole = size - size % step

    def one(start: ir.Value) -> None:
        body(start, step)

    if whole:
        repeat(whole, step, one)
    if whole < size:
        body(whole, size - whole)
