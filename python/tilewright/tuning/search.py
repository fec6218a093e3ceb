# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides what is tried next, and when a search ends: first likely winners of every kind, then neighbors of the best ones so far.

It times nothing: it is asked for a candidate and told how much that gained, so that recorded spaces replay in no time. There are some tens
of trials, and the predicted order of candidates is known before the first one.

In 21 recorded spaces of hundreds of candidates, 30 trials reach 99.9 % of the best one in the geometric mean and 98.9 % at worst. Optuna's
tree-structured Parzen estimator (5.0, multivariate) reached 98.6 and 92.5 % from the model's ten likeliest, 98.4 and 92.6 % from twenty.
With candidates in the order of LightGBM (4.7), trained on the other 20 spaces, 30 trials reach 99.9 and 98.8 %, no more than in the model's
order: what it knows of all, neighbors tell of one. Only shorter searches gain by it: ten trials reach 99.2 and 93.9 %, for 96.6 and 83.8 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

Point = TypeVar("Point")

_GAINED = 1.01
"""Times the best gain that counts as one."""
_HILLS = 5
"""Of how many of the best points neighbors are tried: in recorded spaces those of one alone end on a hill of the model's own choice."""
_LIKELY, _NEIGHBORS = 10, 20
"""Trials of likely winners, and then of neighbors, in turn. One by one, recorded spaces were climbed from the wrong hills."""


class Search(Generic[Point]):
    """A search for the point of the largest gain over a start, whose own gain is 1."""

    def __init__(
        self,
        start: Point,
        ordered: Sequence[Point],
        near: Callable[[Point], Iterable[Point]],
        kind: Callable[[Point], Hashable],
        patience: int = 30,
        first: Sequence[Point] = (),
    ) -> None:
        """Begins.

        Args:
            start: What gains are relative to.
            ordered: What may be tried, likely winners first.
            near: What differs in little from a point.
            kind: What a point is like. Of those of the kind that was tried least, the likeliest one comes first, because predictions
                err by a common factor for points that are alike.
            patience: How many trials without a gain end the search.
            first: What is tried before all else.
        """
        self._near = near
        self._ordered = ordered
        self._kind = kind
        self._patience = patience
        self._first = first
        self._idle = 0
        self.gains: dict[Point, float] = {start: 1.0}
        self.best = start

    def ask(self) -> Point | None:
        """What to try next; None when the search has ended."""
        if self._idle >= self._patience:
            return None
        for each in self._first:
            if each not in self.gains:
                return each
        likely = (len(self.gains) - 1) % (_LIKELY + _NEIGHBORS) < _LIKELY
        ways = (self._likely, self._neighbor) if likely else (self._neighbor, self._likely)
        return next((found for way in ways if (found := way()) is not None), None)

    def tell(self, point: Point, gain: float) -> None:
        """Takes note of what a trial gained: 0 for what is no candidate after all."""
        self._idle = 0 if gain > self.gains[self.best] * _GAINED else self._idle + 1
        self.gains[point] = gain
        if gain > self.gains[self.best]:
            self.best = point

    def ranked(self) -> list[Point]:
        """What was tried, the largest gain first."""
        return sorted(self.gains, key=lambda each: -self.gains[each])

    def _likely(self) -> Point | None:
        tried = Counter(map(self._kind, self.gains))
        left = (each for each in self._ordered if each not in self.gains)
        return min(left, key=lambda each: tried[self._kind(each)], default=None)

    def _neighbor(self) -> Point | None:
        around = (each for best in self.ranked()[:_HILLS] for each in self._near(best))
        return next((each for each in around if each not in self.gains), None)
