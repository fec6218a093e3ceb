# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times kernels of one spec in turn with a first one, on the same operands, each checked for its numbers before its time counts."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Literal

from tilewright.bench.lease import leased
from tilewright.bench.timing import Clock, Loop
from tilewright.payload.operators import known
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Difference, Trial

_SEED = 0
_PAIRS, _FINAL_PLACES = 5, 3
"""Samples of a candidate; and how many operands, each elsewhere in memory, the last comparison has so many of each for. On the same ones
every time, a choice of 33 x 7 x 1024 in f32 gained between 1.02 and 1.06, one of 5 x 1024 x 512 in bytes between 0.95 and 1.04 (Zen 4)."""
_SURE = 2
"""Pairs after which a candidate is dropped that is slower by far in all of them."""
_SLOWER = 0.93
_OUTSIDE = 3
"""Of fifteen ratios as many may lie on the other side of one: by chance that happens in 1.8 % of comparisons (binomial distribution)."""
WORTH = 1.03
"""The least gain that is worth another choice than the model's. Of 108 races between two kernels of one choice, each compiled anew, on an
idle Zen 4 core, none seemed to gain 2 %, and one 1 %; but of 18 products that were searched twice, one search found 2.2 to 2.8 % for five,
where the other one found a tie."""


@dataclass(frozen=True, slots=True)
class Times:
    """Samples of a kernel and of the first one, taken in turn.

    Attributes:
        samples: Seconds of a call of the kernel.
        first: Those of the first one, beside each.
        error: The largest error of an element, as a part of its bound.
    """

    samples: tuple[float, ...]
    first: tuple[float, ...]
    error: float

    @property
    def gain(self) -> float:
        """How many times as fast as the first one: the median of the ratios; 0 without samples."""
        return statistics.median(self._ratios) if self.samples else 0.0

    @property
    def verdict(self) -> Literal["won", "tied", "lost"]:
        """Which one is faster, where noise would hardly say so, and by enough to be worth a change."""
        ratios, outside = sorted(self._ratios), min(_OUTSIDE, len(self.samples) // 5)
        if ratios[outside] > 1 and self.gain >= WORTH:
            return "won"
        return "lost" if ratios[-1 - outside] < 1 else "tied"

    @property
    def _ratios(self) -> list[float]:
        return [first / sample for first, sample in zip(self.first, self.samples, strict=True)]


class WrongNumbersError(Exception):
    """A kernel's numbers are wrong; the message says which."""


class Race:
    """Kernels of one spec beside a first one."""

    def __init__(self, first: Kernel, min_seconds: float = 0.01) -> None:
        """Makes operands, and what the result has to be.

        Args:
            first: What others are compared with.
            min_seconds: What a sample lasts at least.

        Raises:
            WrongNumbersError: Its own numbers are wrong.
            MemoryError: There is no memory for the operands.
        """
        self._first = Trial.random(first, first.spec, _SEED)
        given, self._before = self._first, self._first.out.copy()
        former = None if given.former is None else given.former.copy()
        self._expected, self._bound = known(given.spec, *given.inputs, c=former)
        self._threads = first.metadata.threads
        # The time of this thread leaves out what others on the machine take; several threads have only the clock on the wall.
        self._clock: Clock = time.thread_time_ns if first.metadata.threads == 1 else time.perf_counter_ns
        self._min_seconds = min_seconds
        self._check(given)
        with leased(self._threads):
            self._loop = self._ready(given)

    def time(self, kernel: Kernel, best: float = 1.0, *, final: bool = False) -> Times:
        """Times a kernel.

        Args:
            kernel: The kernel, of the same spec.
            best: The largest gain so far: what is far from it is dropped early.
            final: Whether it is the last comparison, with more samples and none dropped.

        Raises:
            WrongNumbersError: Its numbers are wrong.
            MemoryError: There is no memory for the operands of the last comparison, which are in several places.
        """
        error = self._check(self._with(kernel, self._first))
        with leased(self._threads):
            pairs = self._pairs(self._first, self._loop, kernel, least=0.0 if final else best * _SLOWER)
            places = [self._first]  # They stay where they are.
            for _ in range(_FINAL_PLACES - 1 if final else 0):
                places.append(Trial.random(self._first.kernel, self._first.spec, _SEED))
                pairs += self._pairs(places[-1], self._ready(places[-1]), kernel, least=0.0)
        return Times(tuple(sample for sample, _ in pairs), tuple(first for _, first in pairs), error)

    def _with(self, kernel: Kernel, given: Trial) -> Trial:
        """The call of another kernel on operands.

        Both write to the same memory: where a result lies, by lines and pages, made a difference of some percent.
        """
        given.out[...] = self._before
        return Trial(kernel, given.spec, given.inputs, given.former, given.given, given.out)

    def _ready(self, trial: Trial) -> tuple[Loop, int]:
        """What repeats a call, and how often it does for a sample."""
        loop = Loop([trial], self._clock)
        return loop, loop.calibrate(self._min_seconds)

    def _pairs(
        self, given: Trial, first: tuple[Loop, int], kernel: Kernel, *, least: float
    ) -> list[tuple[float, float]]:
        """Samples of a kernel and of the first one, in turn; few where the kernel's speed beside it is surely below `least`."""
        both = self._ready(self._with(kernel, given)), first
        pairs: list[tuple[float, float]] = []
        for number in range(_PAIRS):
            # Each pair starts with the other one.
            taken = {which: both[which][0].sample(both[which][1]) for which in ((0, 1) if number % 2 == 0 else (1, 0))}
            pairs.append((taken[0], taken[1]))
            if number + 1 >= _SURE and max(beside / sample for sample, beside in pairs) < least:
                break
        return pairs

    def _check(self, trial: Trial) -> float:
        trial()
        found = Difference.of(trial.out, self._expected, self._bound)
        if not found.right:
            raise WrongNumbersError(str(found))
        return found.worst
