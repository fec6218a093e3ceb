# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times kernels of one spec in turn with a first one, on the same operands, each checked for its numbers before its time counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.bench.lease import leased
from tilewright.bench.timing import Clock, Loop
from tilewright.payload.operators import known
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Difference, Trial

_SEED = 0
_PAIRS, _FINAL_PAIRS = 5, 15
"""Samples of a candidate, and of the last comparison."""
_SURE = 2
"""Pairs after which a candidate is dropped that is slower by far in all of them."""
_SLOWER = 0.93
_OUTSIDE = 3
"""Of fifteen ratios as many may lie on the other side of one: by chance that happens in 1.8 % of comparisons (binomial distribution)."""
WORTH = 1.02
"""The least gain that is worth another choice than the model's. Of 108 races between two kernels of one choice on an idle Zen 4 core, each
compiled anew, two seemed to gain more, and five more than 1.01."""


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
            self._loop = Loop([given], self._clock)
            self._count = self._loop.calibrate(min_seconds)

    def time(self, kernel: Kernel, best: float = 1.0, *, final: bool = False) -> Times:
        """Times a kernel.

        Args:
            kernel: The kernel, of the same spec.
            best: The largest gain so far: what is far from it is dropped early.
            final: Whether it is the last comparison, with more samples and none dropped.

        Raises:
            WrongNumbersError: Its numbers are wrong.
        """
        given = self._first
        # All write to the same memory: where a result lies, by lines and pages, made a difference of some percent.
        given.out[...] = self._before
        trial = Trial(kernel, given.spec, given.inputs, given.former, given.given, given.out)
        error = self._check(trial)
        samples: list[float] = []
        beside: list[float] = []
        with leased(self._threads):
            loop = Loop([trial], self._clock)
            count = loop.calibrate(self._min_seconds)
            for number in range(_FINAL_PAIRS if final else _PAIRS):
                # Each pair starts with the other one.
                if number % 2:
                    beside.append(self._loop.sample(self._count))
                samples.append(loop.sample(count))
                if not number % 2:
                    beside.append(self._loop.sample(self._count))
                if not final and number + 1 >= _SURE and _is_hopeless(beside, samples, best):
                    break
        return Times(tuple(samples), tuple(beside), error)

    def _check(self, trial: Trial) -> float:
        trial()
        found = Difference.of(trial.out, self._expected, self._bound)
        if not found.right:
            raise WrongNumbersError(str(found))
        return found.worst


def _is_hopeless(first: Sequence[float], samples: Sequence[float], best: float) -> bool:
    """Whether every sample is far slower than what the best one would take."""
    return max(a / b for a, b in zip(first, samples, strict=True)) < best * _SLOWER
