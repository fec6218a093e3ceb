# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Patches of which a vector has parts of several rows of the filter, because these are short: a masked load for each."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.build.constants import integer, numbers, zero
from tilewright.build.index import Number, add, known, less, mul, value
from tilewright.build.usedef import copied, erase, is_innermost
from tilewright.codegen.patch_layout import Patches, Read
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

_MOST_STEPS = 16
"""A loop of so many steps at most is unrolled, so that it is known which elements of a patch each vector has."""

Run = tuple[int, range]
"""How far from the first element of a patch a vector starts, and which of its lanes are taken from there."""


def unrolled(reads: Sequence[Read]) -> list[Read]:
    """Unrolls the short loops that `reads` stand in, and returns the reads that there are then."""
    loops: dict[ir.Operation, list[Read]] = {}
    for each in reads:
        loops.setdefault(each.op.parent.operation, []).append(each)  # type: ignore[union-attr] - it is in a function
    found: list[Read] = []
    for loop, own in loops.items():
        steps = _steps(loop)
        # A loop over rows has reads of columns that are known already.
        if not steps or not any(_is_counted(n, loop) for each in own for n in each.columns):
            found += own
            continue
        for step in steps:
            found += _copied(loop, own, step)
        erase(loop)
    return found


def _is_counted(number: Number, loop: ir.Operation) -> bool:
    """Whether a number is what `loop` counts."""
    return isinstance(number, ir.Value) and number == loop.regions[0].blocks[0].arguments[0]


def _steps(loop: ir.Operation) -> range:
    """The steps of a short loop of which the number is known, and that has no results; none for others."""
    if not is_innermost(loop):
        return range(0)
    bounds = [known(each) for each in list(loop.operands)[:3]]
    if any(each is None for each in bounds):
        return range(0)
    steps = range(*bounds)  # type: ignore[arg-type] - none is None
    return steps if len(steps) <= _MOST_STEPS else range(0)


def _copied(loop: ir.Operation, reads: Sequence[Read], step: int) -> list[Read]:
    """Copies the body of `loop` for one of its steps before it, and returns the copies of `reads`."""
    body = loop.regions[0].blocks[0]
    with ir.InsertionPoint(loop), loop.location:
        values: dict[ir.Value, ir.Value] = {body.arguments[0]: value(step)}
        made = {op: copied(op, values) for op in [each.operation for each in body.operations][:-1]}

    def at(number: Number) -> Number:
        if _is_counted(number, loop):
            return step
        return values.get(number, number) if isinstance(number, ir.Value) else number

    return [Read(made[each.op], tuple(map(at, each.rows)), tuple(map(at, each.columns))) for each in reads]


def runs(column: int, lanes: int, patches: Patches) -> list[Run] | None:
    """The parts of the vector from `column` on of a patch that follow one another in an image.

    None where a load would start before the image does, though no lane of it lies there.
    """
    found = []
    last = min(column + lanes, patches.depth)
    for number in range(column // patches.run, -(-last // patches.run)):
        down, right, _ = patches.taps(number * patches.run)
        y, x = (mul(each, step) for each, step in zip((down, right), patches.dilation, strict=True))
        start = add(patches.offset(0, y, x, 0), column - number * patches.run)
        if not isinstance(start, int) or start < 0:
            return None
        begin = max(number * patches.run - column, 0)
        found.append((start, range(begin, min((number + 1) * patches.run - column, last - column))))
    return found


def all_inside(pixel: Number, top: Number, left: Number, patches: Patches) -> ir.Value:
    """Whether all of the patch at this place lies inside of the image."""
    reach = [(size - 1) * step + 1 for size, step in zip(patches.filter, patches.dilation, strict=True)]
    # As many places as there are for the first element.
    free = [max(extent - far + 1, 0) for extent, far in zip(patches.extents, reach, strict=True)]
    inside = arith.andi(less(top, free[0]), less(left, free[1]))
    return arith.andi(inside, less(pixel, patches.shape[0] * prod(patches.results)))


def joined(
    kind: ir.VectorType, flat: ir.Value, first: Number, parts: Sequence[Run], holds: ir.Value | None = None
) -> ir.Value:
    """The vector of which the parts lie so far from `first`; with `holds`, zeros where that does not hold, of which nothing is read."""
    whole = zero(kind)
    for start, lanes in parts:
        mask = numbers(integer(1), [each in lanes for each in range(kind.shape[0])])
        mask = mask if holds is None else arith.andi(mask, holds)
        whole = vector.maskedload(kind, flat, [value(add(first, start))], mask, whole)
    return whole
