# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the choice of a strategy changes over the extents of a dynamic spec: an ordered list of rules, learned from the choice itself.

The choice is asked at the points of a grid, and rules are grown by separate and conquer: tests that leave only points of one strategy,
each the test that gains most information (Quinlan, "Learning Logical Definitions from Relations", Machine Learning 5, 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import pairwise, product
from math import log2, prod
from operator import and_

from tilewright.dims import Dim
from tilewright.schedules.calls import Test

Extents = tuple[int, ...]
"""m, n and k of a call."""

_STEPS: Mapping[str, Sequence[int]] = {
    "m": (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024),
    "n": (1, 4, 16, 64, 128, 512, 2048, 8192),
    "k": (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 32768),
}
"""Extents of the grid. Thresholds between two of them are found; a strategy that begins and ends between neighbors is not."""
_RIGHT, _LEAST_PART = 31 / 32, 1 / 200
"""Part of a rule's points for which it has to be right, and part of the grid that it has to be for. They bound how many rules there are;
calls that have none are computed as most are."""

_OF_QUOTIENTS = 0.7
"""Part that the gain of a test of a quotient counts for: one that cuts the corner off where two extents have thresholds gains much."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where the choice is asked. A set of points has a bit for each.

    Attributes:
        values: Of each extent.
        points: All combinations of them, in order.
        passing: The points that pass a test.
    """

    values: Sequence[Sequence[int]]
    points: Sequence[Extents]
    passing: Mapping[Test, int]

    def beside(self, point: int, axis: int, step: int) -> int | None:
        """The point next to one along an axis, up or down; None at the end."""
        stride = prod(len(values) for values in self.values[axis + 1 :])
        place = point // stride % len(self.values[axis]) + step
        return point + step * stride if 0 <= place < len(self.values[axis]) else None


def rules(
    extents: Sequence[int | Dim], choice: Callable[[int, int, int], str], partial: Collection[str] = ()
) -> tuple[list[tuple[tuple[Test, ...], str]], str]:
    """The rules, of which a call takes the first one whose tests it passes, and the choice for all other calls.

    Args:
        extents: m, n and k.
        choice: The name of what is chosen for a call.
        partial: Those that are not for all other calls where anything else is.
    """
    choice = cache(choice)
    grid = _grid({name: _values(name, extent) for name, extent in zip("mnk", extents, strict=True)})
    points = grid.points
    chosen = {name: _mask(choice(*at) == name for at in points) for name in {choice(*at) for at in points}}
    left, found = (1 << len(points)) - 1, list[tuple[tuple[Test, ...], str]]()
    names = sorted(chosen, key=lambda name: (chosen[name].bit_count(), name))
    usual = max(names, key=lambda name: (name not in partial, names.index(name)))
    for name in [each for each in names if each != usual]:
        while left & chosen[name]:
            tests, covered = _grown(left, chosen[name], grid.passing)
            if (covered & chosen[name]).bit_count() < max(_RIGHT * covered.bit_count(), _LEAST_PART * len(points)):
                break
            exact = (
                _exact(test, tests, grid, chosen[name], left, lambda at, name=name: choice(*at) == name)
                for test in tests
            )
            found.append((tuple(exact), name))
            left &= ~covered
        left &= ~chosen[name]
    return found, usual


def _grid(values: Mapping[str, Sequence[int]]) -> _Grid:
    points = list(product(*values.values()))
    return _Grid(list(values.values()), points, dict(_splits(points)))


def _values(name: str, extent: int | Dim) -> list[int]:
    """The values of an extent in the grid."""
    if not isinstance(extent, Dim):
        return [extent]
    return sorted({value for value in map(extent.nearest, _STEPS[name]) if value} or {max(extent.min, 1)})


def _splits(points: Sequence[Extents]) -> Iterator[tuple[Test, int]]:
    """All that splits the points by an extent, by the elements of B, or by products along K for a row, each with the points that pass."""
    for extents in ("m", "n", "k", "kn", "k/m"):
        values = [_of(at, extents) for at in points]
        for below, above in pairwise(sorted(set(values))):
            low = _mask(value <= below for value in values)
            yield Test(extents, most=below), low
            yield Test(extents, least=above), (1 << len(points)) - 1 - low


def _of(at: Extents, extents: str) -> int:
    return Test(extents).range({name: (value, value) for name, value in zip("mnk", at, strict=True)})[0]


def _mask(holds: Iterable[bool]) -> int:
    """A set of points, a bit each."""
    return sum(1 << number for number, each in enumerate(holds) if each)


def _grown(left: int, wanted: int, masks: Mapping[Test, int]) -> tuple[list[Test], int]:
    """Tests that leave of the points `left` only `wanted` ones, if there are such, and the points that they leave."""
    tests, covered = list[Test](), left

    def gain(test: Test) -> float:
        here = covered & masks[test]
        right = (here & wanted).bit_count()
        part = _OF_QUOTIENTS if "/" in test.extents else 1
        return part * right * (log2(right / here.bit_count()) - before) if right else 0.0

    while (covered & wanted).bit_count() < _RIGHT * covered.bit_count():
        before = log2((covered & wanted).bit_count() / covered.bit_count())
        best = max(masks, key=gain)
        if gain(best) <= 0:
            break
        tests.append(best)
        covered &= masks[best]
    return tests, covered


def _exact(
    test: Test, rule: Sequence[Test], grid: _Grid, chosen: int, fresh: int, is_chosen: Callable[[Extents], bool]
) -> Test:
    """The test of a rule with the threshold at which what is `chosen` ends, and not at a point of the grid.

    Rather at a point that is `fresh` than at one that an earlier rule takes; `is_chosen` asks beside points of the grid.
    """
    step = 1 if test.most is not None else -1
    others = reduce(and_, (grid.passing[each] for each in rule if each is not test), -1)
    inside, outside = others & chosen & grid.passing[test], others & ~chosen & ~grid.passing[test]
    pairs = [
        (axis, at, far)
        for at in range(len(grid.points))
        if inside >> at & 1
        for axis in ("mnk".index(extent) for extent in test.extents.partition("/")[0])
        if (far := grid.beside(at, axis, step)) is not None and outside >> far & 1
    ]
    # Those between fresh points first, and then those that at least end at one.
    pairs = (
        [pair for pair in pairs if fresh >> pair[1] & fresh >> pair[2] & 1]
        or [pair for pair in pairs if fresh >> pair[2] & 1]
        or pairs
    )
    if not pairs:
        return test
    axis, *ends = pairs[len(pairs) // 2]
    near, far = (grid.points[each] for each in ends)
    while abs(far[axis] - near[axis]) > 1:
        middle = (*near[:axis], (near[axis] + far[axis]) // 2, *near[axis + 1 :])
        near, far = (middle, far) if is_chosen(middle) else (near, middle)
    if test.most is not None:
        return Test(test.extents, most=_of(far, test.extents) - 1)
    return Test(test.extents, least=_of(near, test.extents))
