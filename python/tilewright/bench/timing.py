# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times one contender: how many calls make a sample, and one sample; the same code runs here and in each peer's process."""

from __future__ import annotations

import gc
import itertools
import math
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tilewright.errors import TargetError

Clock = Callable[[], int]
"""A clock that only goes forward, in nanoseconds."""

Cache = Literal["hot", "cold"]
"""Whether a sample repeats on the same operands, or goes through more of them than the last-level cache holds."""

_LONG_CALL = 0.2  # seconds; refilling a large cache from memory takes a few milliseconds


def calibrate(seconds: Callable[[int], float], min_seconds: float) -> int:
    """The least count found, by growing it, of which `seconds` says at least `min_seconds`.

    A count is asked about twice before it is believed, so that one interruption does not pass for a slow call; not so when
    it is far above the limit, as no interruption lasts that long.
    """
    count = 1
    while True:
        took = seconds(count)
        if took < 4 * min_seconds:
            took = min(took, seconds(count))
        if took >= min_seconds:
            return count
        count = max(2 * count, math.ceil(count * min(1.05 * min_seconds / max(took, 1e-9), 10.0)))


class Loop:
    """Repeats calls and takes the time.

    Each call has to be complete, arguments and all; with several they are taken in turn, and a sample goes on where the one
    before it ended.
    """

    def __init__(self, calls: Sequence[Callable[[], object]], clock: Clock = time.perf_counter_ns) -> None:
        """Keeps `calls` (at least one) and the clock."""
        self._calls = itertools.cycle(calls)
        self._clock = clock
        self._quickest = math.inf
        self._least = 0.0

    def calibrate(self, min_seconds: float) -> int:
        """How many calls last at least `min_seconds`, at least 1; it also warms up."""
        self._least = min_seconds / 2
        return calibrate(self.seconds, min_seconds)

    def seconds(self, count: int) -> float:
        """Seconds that `count` calls take together, the loop's own 15 ns or so each included."""
        calls = itertools.islice(self._calls, count)
        collecting = gc.isenabled()
        gc.disable()
        try:
            start = self._clock()
            for call in calls:
                call()
            seconds = (self._clock() - start) * 1e-9
        finally:
            if collecting:
                gc.enable()
        self._quickest = min(self._quickest, seconds / count)
        return seconds

    def sample(self, count: int) -> float:
        """Seconds a call takes, the mean of `count` of them after a tenth as many untimed ones.

        The untimed ones bring back what the others' turns have displaced; a call that is long enough not to notice does without.
        Where `count` calls take less than half of what was calibrated for, somebody else was on the machine then, and there
        are more of them.
        """
        if not _LONG_CALL <= self._quickest < math.inf:
            self.seconds(math.ceil(count / 10))
        seconds = self.seconds(count)
        while seconds < self._least:
            count *= 4
            seconds = self.seconds(count)
        return seconds / count


def median_of(call: Callable[[], object], samples: int = 7, min_seconds: float = 0.03) -> tuple[float, int]:
    """Seconds that a call takes, the median of some samples that last at least so long, and how many calls each of them has."""
    loop = Loop([call])
    count = loop.calibrate(min_seconds)
    return statistics.median(loop.sample(count) for _ in range(samples)), count


def cores(
    count: int,
    allowed: Iterable[int] | None = None,
    siblings: Callable[[int], Iterable[int]] | None = None,
) -> tuple[int, ...]:
    """The cores to measure on: `count` of the allowed ones, the last first, at most one hardware thread of each.

    The last, because interrupts and everybody else's processes tend to be on the first.

    Args:
        count: How many threads are measured.
        allowed: Processor numbers to choose from, of those that this process may run on; None: all of them.
        siblings: From a processor to all that share its core, itself included; None: asks the kernel.

    Raises:
        TargetError: There are not as many cores.
    """
    ours = os.sched_getaffinity(0)
    chosen = _one_of_each(ours if allowed is None else ours.intersection(allowed), siblings or same_core)
    if len(chosen) < count or count < 1:
        raise TargetError(
            f"cannot measure {count} threads on {len(chosen)} free cores",
            expected=f"1 to {max(len(chosen), 1)} threads",
            remedy="Ask for fewer threads, or let this process run on more cores",
        )
    return chosen[:count]


def every_core() -> tuple[int, ...]:
    """One processor of each core that this process may run on, the last first."""
    return _one_of_each(os.sched_getaffinity(0), same_core)


def _one_of_each(processors: Iterable[int], siblings: Callable[[int], Iterable[int]]) -> tuple[int, ...]:
    """The last hardware thread of each core, the last core first."""
    chosen: list[int] = []
    taken: set[int] = set()
    for core in sorted(processors, reverse=True):
        if core not in taken:
            chosen.append(core)
            taken.update(siblings(core))
    return tuple(chosen)


def same_core(core: int) -> set[int]:
    """The processors of one core, from the kernel's list such as ``0-1,64``; just the processor where there is none."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    try:
        text = path.read_text()
    except OSError:
        return {core}
    found = {core}
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@contextmanager
def pinned(to: Iterable[int]) -> Iterator[None]:
    """Keeps the calling thread on these cores, and gives it back its own afterwards."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(to))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
