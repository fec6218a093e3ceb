# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes one product or operator: keeps every trial, and lets a winner be used where it beats the model's choice beyond the noise."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilewright.errors import SlowScheduleWarning, SpecError, TargetError, TilewrightError
from tilewright.payload.spec_tables import Spec
from tilewright.records import lookup
from tilewright.records.database import Database
from tilewright.records.trial import Trial
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.plan import Schedule
from tilewright.targets import Target
from tilewright.tuning import spaces
from tilewright.tuning.candidates import Candidate, Space
from tilewright.tuning.log import Log
from tilewright.tuning.race import Race, Times, WrongNumbersError
from tilewright.tuning.search import Search

_FINALISTS = 4
"""How many of the best are timed again, before the best one of them is compared a last time."""
_ELSEWHERE = 3
"""How many choices that won on other machines are tried first."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is.

    Attributes:
        spec: What is tuned.
        trials: How many candidates were timed, earlier searches' among them.
        seconds: How long it has taken.
        budget: How long it may take.
        best: The best candidate so far.
        gain: What that gains.
    """

    spec: Spec
    trials: int
    seconds: float
    budget: float
    best: str
    gain: float


Tell = Callable[[Progress], object]
_WHOLE = float("inf")


def tune(
    spec: Spec,
    target: Target,
    database: Database,
    *,
    threads: int = 1,
    seconds: float = 60.0,
    schedule: Schedule = None,
    tell: Tell = lambda progress: None,
) -> Trial:
    """Searches for a faster choice for `spec` on this machine, and keeps every trial in a database.

    A search goes on where an earlier one of the same version ended. An exception, such as an interruption, loses nothing that was tried.

    Args:
        spec: What to compute.
        target: This machine.
        database: Where trials are kept.
        threads: Most threads of a call.
        seconds: How long it may take, about; it ends before where nothing is gained any more.
        schedule: A user's schedule whose knobs and alternatives are searched, in place of our strategies and their sizes.
        tell: Told after each trial.

    Returns:
        The last comparison. Where it was won, compilation takes its choice from now on; what won in a user's schedule is in `sizes`.

    Raises:
        SpecError: The spec has dynamic extents, is deterministic, or has a Python function in it, so that no record can be of it; or
            its strategy has no sizes that vary.
        ScheduleError: The user's schedule does not fit, or leaves nothing open.
        TargetError: This machine does not run the target, or has too few cores.
    """
    found = tune_for(spec, target, database, threads=threads, seconds=seconds, schedule=schedule, tell=tell)
    assert found is not None, "all of it was searched"
    return found


def tune_for(
    spec: Spec,
    target: Target,
    database: Database,
    *,
    threads: int,
    seconds: float,
    slice_s: float = _WHOLE,
    schedule: Schedule = None,
    tell: Tell = lambda progress: None,
) -> Trial | None:
    """As `tune`, but no longer than `slice_s`, of one trial at least; None where the search is to go on with what the database then has."""
    if lookup.text(spec) is None:
        raise SpecError(
            f"{spec} cannot be tuned",
            where="tune",
            expected="static extents, deterministic=False, and no Python functions in epilogues",
        )
    with TemporaryDirectory(prefix="tilewright-") as folder:
        space = spaces.of(spec, target, threads, schedule, Path(folder))
        tuning = _Tuning(spec, target, database, threads, min(seconds, slice_s), tell, space)
        is_over = tuning.search()
        return tuning.finished() if is_over or seconds <= slice_s else None


class _Tuning:
    """A search for one spec."""

    def __init__(
        self,
        spec: Spec,
        target: Target,
        database: Database,
        threads: int,
        seconds: float,
        tell: Tell,
        space: Space,
    ) -> None:
        self._spec, self._target, self._space = spec, target, space
        self._start, self._budget, self._tell = time.monotonic(), seconds, tell
        self._log = Log(spec, target, database, threads, space.multiplied)
        first = [each for each in self._log.elsewhere() if space.admits(each)][:_ELSEWHERE]
        self._search = Search(space.start, space.ordered, space.near, space.kind, first=first)
        self._trials = 0

    def search(self) -> bool:
        """Tries candidates; whether the search has ended, in place of its time."""
        first = self._compiled(self._space.start)
        if first is None or first.refusal is not None:
            raise TargetError(f"this machine does not run {self._target.name}", where="tune", expected="the host")
        self._race = Race(first)
        for earlier in self._log.earlier():
            if earlier.own == self._space.own:
                self._search.tell(Candidate.of(earlier.strategy, earlier.sizes), earlier.gain)
                self._trials += 1
        known = self._trials
        while self._trials == known or time.monotonic() - self._start < self._budget:
            asked = self._search.ask()
            if asked is None:
                return True
            self._search.tell(asked, self._try(asked))
            self._trials += 1
            self._told()
        return False

    def _try(self, candidate: Candidate) -> float:
        """Times a candidate, and keeps that; what it gains, 0 for one that is none."""
        kernel = self._compiled(candidate)
        if kernel is None:
            self._log.keep(candidate, self._space.start, "", Times((), (), 0.0))
            return 0.0
        try:
            times = self._race.time(kernel, self._search.gains[self._search.best])
        except WrongNumbersError:
            self._keep(candidate, kernel, Times((), (), 0.0), verdict="wrong")
            return 0.0
        return self._keep(candidate, kernel, times).gain

    def _compiled(self, candidate: Candidate) -> Kernel | None:
        """The kernel of a candidate; None where it does not compile, or its values do not fit the registers.

        The model's own choice is what others are compared with, whatever its registers do.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if candidate == self._space.start else "error", SlowScheduleWarning)
                return self._space.compile(candidate)
        except (TilewrightError, SlowScheduleWarning):
            return None

    def finished(self) -> Trial:
        """The last comparison with the model's choice, of the candidate that is best when the best ones of the search are timed again.

        What came first among tens of trials owes a part of that to noise, and another search would not find it.
        """
        best = [each for each in self._search.ranked() if self._search.gains[each] > 0]
        finalists = [each for each in best[: _FINALISTS + 1] if each != self._space.start][:_FINALISTS]
        kernels = {each: kernel for each in finalists if (kernel := self._compiled(each)) is not None}
        if not kernels:
            raise SpecError(f"no candidate for {self._spec} was tried", where="tune", expected="more seconds")
        again = {
            each: self._keep(each, kernel, self._race.time(kernel, best=0.0)).gain for each, kernel in kernels.items()
        }
        found = max(kernels, key=lambda each: self._search.gains[each] * again[each])
        times = self._race.time(kernels[found], final=True)
        return self._keep(found, kernels[found], times, final=self._space.own is None)

    def _keep(self, candidate: Candidate, kernel: Kernel, times: Times, **fields: Any) -> Trial:  # noqa: ANN401 - fields of Trial
        """Puts a trial into the database."""
        return self._log.keep(candidate, self._space.start, kernel.asm["schedule"], times, **fields)

    def _told(self) -> None:
        best = self._search.best
        took = time.monotonic() - self._start
        self._tell(Progress(self._spec, self._trials, took, self._budget, str(best), self._search.gains[best]))
