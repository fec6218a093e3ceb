# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A decision diagram that finds the first case whose tests a call's extents pass, comparing nothing that is known already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.schedules.calls import Bounds, Test


@dataclass(frozen=True, slots=True)
class Node:
    """A comparison, and where each outcome leads.

    Attributes:
        test: A test with one condition: a least, a most, or a multiple.
        passed: Where calls that pass it go: the number of a node, or, from -1 down, that of a case (see `case`).
        failed: Where the others go.
    """

    test: Test
    passed: int
    failed: int


def case(target: int) -> int | None:
    """The number of the case that a node's target stands for; None where that is another node."""
    return None if target >= 0 else -1 - target


def nodes(cases: Sequence[Sequence[Test]], bounds: Bounds) -> tuple[list[Node], int]:
    """The nodes, and where calls begin.

    Args:
        cases: The tests of each case, the first of which is taken that a call passes all of; the last has to be passed by every call.
        bounds: The least and the most that each extent can be.
    """
    known = _Known(bounds)
    diagram = _Diagram(known)
    left = tuple(
        (number, tuple(each for test in tests for each in _single(test))) for number, tests in enumerate(cases)
    )
    start = diagram.add(left, known)
    return diagram.nodes, start


_SMALL = (8, 8, 8)
"""The m, n and k of a call that should be told by few comparisons."""

_Left = tuple[tuple[int, tuple[Test, ...]], ...]
"""Cases that a call can still be, each with those of its conditions that are not known to hold."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of a call.

    Attributes:
        bounds: The least and the most of each extent, and of each product or quotient that was compared.
        divides: Whether tests of a multiple hold.
    """

    bounds: Bounds
    divides: Mapping[Test, bool] = field(default_factory=dict)

    def outcome(self, test: Test) -> bool | None:
        """Whether a call passes a condition; None where that is not known."""
        if test.multiple > 1:
            return self.divides.get(test)
        low, high = self._range(test)
        if test.least <= low and (test.most is None or high <= test.most):
            return True
        return False if high < test.least or (test.most is not None and test.most < low) else None

    def after(self, test: Test, *, passed: bool) -> _Known:
        """What is known once a condition was compared."""
        if test.multiple > 1:
            return _Known(self.bounds, {**self.divides, test: passed})
        low, high = self._range(test)
        if (test.most is None) == passed:
            low = max(low, test.least if passed else (test.most or 0) + 1)
        else:
            high = min(high, test.most if passed and test.most is not None else test.least - 1)
        return _Known({**self.bounds, test.extents: (low, high)}, self.divides)

    def _range(self, test: Test) -> tuple[int, int]:
        low, high = test.range(self.bounds)
        own_low, own_high = self.bounds.get(test.extents, (low, high))
        return max(low, own_low), min(high, own_high)


class _Diagram:
    """Makes nodes; what is left to find out in the same way has one.

    A node goes by what is known of every call, and not by what was compared on one way to it: there may be other ways.
    """

    def __init__(self, known: _Known) -> None:
        self.nodes: list[Node] = []
        self._known = known
        self._made: dict[_Left, int] = {}

    def add(self, left: _Left, known: _Known) -> int:
        """Where calls go that can be the cases `left`."""
        left = _open(left, known)
        number, tests = left[0]
        if not tests:
            return -1 - number
        if left not in self._made:
            # Tests of the same extents as this case's; of those the one that rules out most cases for a small call, for which time counts.
            looked_at = {each.extents for each in tests}
            every = dict.fromkeys(each for _, others in left for each in others if each.extents in looked_at)
            after = self._known.after
            test = min(every, key=lambda each: len(_open(left, after(each, passed=each.holds(*_SMALL)))))
            passed, failed = (self.add(left, after(test, passed=holds)) for holds in (True, False))
            self._made[left] = len(self.nodes)
            self.nodes.append(Node(test, passed, failed))
        return self._made[left]


def _open(left: _Left, known: _Known) -> _Left:
    """The cases that a call can still be, up to the first that it then surely is."""
    found: list[tuple[int, tuple[Test, ...]]] = []
    for number, tests in left:
        outcomes = [(test, known.outcome(test)) for test in tests]
        if any(outcome is False for _, outcome in outcomes):
            continue
        found.append((number, tuple(test for test, outcome in outcomes if outcome is None)))
        if not found[-1][1]:
            break
    return tuple(found)


def _single(test: Test) -> list[Test]:
    """A test as conditions, each of one comparison."""
    conditions = [Test(test.extents, least=test.least)] if test.least else []
    conditions += [] if test.most is None else [Test(test.extents, most=test.most)]
    return conditions + ([Test(test.extents, multiple=test.multiple)] if test.multiple > 1 else [])
