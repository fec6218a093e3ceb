# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the transform op of a schedule, or the pass behind it, that is to blame for a wrong, failing or slow kernel."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path

from tilewright import knobs, targets
from tilewright.emit import dump
from tilewright.errors import ScheduleError, SpecError, TilewrightError, UnverifiedWarning
from tilewright.lowering import hybrid_passes, pass_list
from tilewright.lowering.pass_list import REQUIRED, Line
from tilewright.runtime import schedule_text
from tilewright.runtime.bisect_failure import Failure
from tilewright.runtime.bisect_point import DUMPED, SCHEDULE, Point
from tilewright.runtime.blame import Blame as Blame
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import hybrid
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

IsBad = Callable[[Kernel], bool]
"""Says of a kernel whether it has what is looked for."""
AMONG = ("ops", "passes", "all")
"""What can be searched."""
Passes = str | PathLike[str] | None
"""A file with a list of passes, `REQUIRED`, or None for our pipelines."""


@dataclass(frozen=True, slots=True)
class _Step:
    """What a compilation has more than the one before.

    Attributes:
        kind: "op" or "pass".
        text: Its text.
        point: The compilation.
    """

    kind: str
    text: str
    point: Point


def bisect(
    spec: MatmulSpec,
    schedule: Schedule = None,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    *,
    good: Schedule = None,
    is_bad: IsBad | None = None,
    passes: Passes = None,
    good_passes: Passes = None,
    among: str | None = None,
) -> Blame:
    """Finds the op or the pass with which a kernel gets bad, by trying at most log2 of their number and two more compilations.

    They are a chain from a good one to the bad one, each with one op or pass more. Among the ops of a schedule, they are its beginnings,
    whose rest the lowering then does as it can; with `good`, the first differences are as in `schedule`, the rest as in `good`. Among the
    passes behind the schedule, the first are as in the bad list and the rest as in the good one: `good_passes`, or without that the passes
    that a kernel needs, which are those of LLVM's O0, and of MLIR's all but canonicalizations and the like. Among all, the whole schedule
    is tried with the passes alone that it needs: where it is good then, the passes are searched, and otherwise the ops. What cannot be
    tried is passed over. A compilation with wrong numbers is bad however the whole one fails: that follows from them.

    Args:
        spec: The product, of static extents.
        schedule: The schedule with the fault, or of the kernel with the fault: as for `tilewright.compile`.
        target: For which processor or GPU. Of a GPU's schedule, which no beginning of it is, the ops alone are searched, with `good`.
        threads: Most threads that a call uses.
        good: A schedule without the fault, to be compared with.
        is_bad: What to look for in kernels that are right on random operands. By default it is how the kernel fails: with wrong numbers,
            at a transform op, or in a stage behind.
        passes: The list of passes with the fault: a file as ``TILEWRIGHT_DUMP`` writes one. By default our pipelines.
        good_passes: A list without the fault, to be compared with. Where `passes` are given, by default our pipelines.
        among: "ops", "passes" or "all". By default "passes" where a list is given, "ops" where `good` or `is_bad` is, and otherwise "all".

    Raises:
        SpecError: An extent is dynamic, or the target is a GPU and passes are to be searched.
        ScheduleError: The kernel is not bad, or that which should be good is; or what is to be compared does not fit together.
        LoweringError: The lists of passes are of different compilations, or cannot be read.
    """
    if spec.open:
        raise SpecError(f"{spec} has dynamic extents", where="bisect", expected="static extents")
    card = targets.gpu(target)
    lists = passes is not None or good_passes is not None
    usual = "ops" if good is not None or is_bad is not None or card is not None else "all"
    among = among or ("passes" if lists else usual)
    _check(among, good is not None, lists)
    if card is not None and among != "ops":
        raise SpecError(f"{card.name} is a GPU, and among is {among!r}", where="bisect", expected="ops, or a processor")
    row = card or targets.resolve(target)
    whole = schedule_text.of(spec, row, schedule, threads)
    last, middle = Point(whole, _read(passes)), Point(whole, _read(good_passes) if lists else REQUIRED)
    start, steps = middle, list[_Step]()
    if among != "passes":
        other = None if good is None else schedule_text.of(spec, row, good, threads)
        start, steps = _among_ops(whole, other)
    ops = len(steps)
    if among == "ops" and steps:
        last = steps[-1].point
    trial = _Trial(row, threads, is_bad, {last, middle} if among != "ops" else set())
    if trial.of(spec, last) is not True:
        raise ScheduleError("the kernel is not bad", expected="one that fails, or for which is_bad holds")
    low, high = 0, None
    if among == "passes" or trial.lists.get(last):
        fine = trial.of(spec, middle)
        if fine is False and ops:
            steps[-1] = replace(steps[-1], point=middle)
        steps += _among_passes(middle, last, trial.lists)
        low, high = (ops, None) if fine is False else (0, ops if fine and ops else None)
    elif among == "all":  # It fails before there are passes.
        steps[-1] = replace(steps[-1], point=last)
    points = [start, *(step.point for step in steps)]
    found = _first_bad(lambda number: trial.of(spec, points[number]), low, len(steps) if high is None else high)
    runs, small, step = trial.runs, spec, steps[found - 1]
    failure = trial.failures.get((spec, points[found]))
    if failure is not None:
        small = _smallest(spec, lambda less: trial.of(less, points[found]) is True)
        small = small if trial.of(small, points[found - 1]) is False else spec
        failure = trial.failures[small, points[found]]
    return Blame(
        op=step.text,
        kind=step.kind,
        number=found,
        count=len(steps),
        runs=runs,
        reason=failure.reason if failure else "the predicate holds",
        spec=small,
        target=row,
        threads=threads,
        stage=failure.stage if failure else "",
        before=points[found - 1],
        after=points[found],
    )


def _check(among: str, has_good: bool, has_lists: bool) -> None:
    """Raises `ScheduleError` where what is to be searched and what is to be compared do not fit together."""
    if among not in AMONG:
        raise ScheduleError(f"among is {among!r}", where="bisect", expected=f"one of {', '.join(AMONG)}")
    if has_good and among != "ops":
        raise ScheduleError(
            f"a good schedule, and among is {among!r}",
            where="bisect",
            expected="ops: passes are compared under one schedule",
        )
    if has_lists and among != "passes":
        raise ScheduleError(f"a list of passes, and among is {among!r}", where="bisect", expected="passes")


def _read(passes: Passes) -> str:
    """The text of a list of passes; `REQUIRED`, and nothing for our pipelines."""
    return replace(knobs.load({}), passes=None if passes is None else str(passes)).pass_list()


def _among_ops(whole: str, good: str | None) -> tuple[Point, list[_Step]]:
    """From where a chain goes on to a schedule, and its steps: ops of the schedule, or differences to a good one."""
    new = hybrid.Text.of(whole)
    if good is None:
        steps = [_Step("op", op.strip(), Point(new.first(number))) for number, op in enumerate(new.ops, 1)]
        return Point(new.first(0)), steps
    old = hybrid.Text.of(good)
    changes = hybrid.changes(old, new)
    mixed = [hybrid.mixed(old, new, changes[:count]) for count in range(len(changes) + 1)]
    steps = [_Step("op", _both(old, new, change), Point(text)) for change, text in zip(changes, mixed[1:], strict=True)]
    return Point(mixed[0]), steps


def _among_passes(middle: Point, last: Point, lists: Mapping[Point, Sequence[Line]]) -> list[_Step]:
    """The steps from a compilation with good passes to one with bad ones: a pass each. That may have crashed before it ran all."""
    old = lists.get(middle, ())
    new = (*lists[last], *old[len(lists[last]) :])
    differences = hybrid_passes.between(old, new) if old else []
    points = [replace(last, passes=pass_list.written(hybrid_passes.mixed(old, new, each))) for each in differences]
    return [_Step("pass", each.text, point) for each, point in zip(differences, [*points[:-1], last], strict=False)]


def _both(old: hybrid.Text, new: hybrid.Text, change: hybrid.Change) -> str:
    """A difference, as people read it."""
    removed, added = old.ops[slice(*change.old)], new.ops[slice(*change.new)]
    return "\n".join([*(f"- {op.strip()}" for op in removed), *(f"+ {op.strip()}" for op in added)])


class _Trial:
    """Tries compilations, and says whether they are bad; None where that cannot be said."""

    def __init__(self, target: Target | GpuTarget, threads: int, is_bad: IsBad | None, listed: Set[Point]) -> None:
        self._target, self._threads, self._is_bad, self._listed = target, threads, is_bad, listed
        self._last: Failure | None = None
        self.runs = 0
        self.failures: dict[tuple[MatmulSpec, Point], Failure] = {}
        """How compilations failed."""
        self.lists: dict[Point, tuple[Line, ...]] = {}
        """The passes that those of `listed` ran, up to a failure."""
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, spec: MatmulSpec, point: Point) -> bool | None:
        self.runs += 1
        listed = point in self._listed and point not in self.lists
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            try:
                with point.compiled(
                    folder, spec, self._target, self._threads, dumped=listed, verified=self._is_bad is None
                ) as kernel:
                    return self._is_bad is not None and self._is_bad(kernel)
            except TilewrightError as error:
                if self._is_bad is not None:
                    return None
                failure = Failure.of(error, self._target, str(error).replace(str(folder / SCHEDULE), SCHEDULE))
                self.failures[spec, point] = failure
                self._last = self._last or failure  # The whole schedule is the first that is tried.
                return failure.shows(self._last)
            except UnverifiedWarning:
                return None
            finally:
                if listed:
                    self.lists[point] = _logged(folder / DUMPED)


def _logged(folder: Path) -> tuple[Line, ...]:
    """The passes that the first compilation ran that wrote to a folder."""
    logs = sorted(folder.glob(f"*/{dump.PASSES}"), key=lambda path: path.stat().st_ctime_ns)
    return pass_list.read(logs[0].read_text(encoding="utf-8")) if logs else ()


def _first_bad(is_bad: Callable[[int], bool | None], low: int, high: int) -> int:
    """The first number, behind `low` and up to `high`, that is bad, where those before are good.

    Raises:
        ScheduleError: The last one is not bad, or the first one is not good.
    """
    if low == high:
        raise ScheduleError("there is nothing to search", expected="ops, or passes that differ")
    if is_bad(high) is not True:
        raise ScheduleError("the kernel is not bad", expected="one that fails, or for which is_bad holds")
    if is_bad(low) is not False:
        raise ScheduleError(
            "what is to be compared with is bad too, or cannot be tried",
            expected="a compilation that is good without the ops and passes that are searched",
            remedy="Give a schedule as `good`, or a list of passes as `good_passes`",
        )
    untried = set[int]()
    while high - low > 1:
        known = [low, *sorted(each for each in untried if low < each < high), high]
        before, behind = max(itertools.pairwise(known), key=lambda pair: pair[1] - pair[0])
        if behind - before < 2:
            break
        middle = (before + behind) // 2  # Of the largest gap: neighbors of what cannot be tried often cannot be either.
        found = is_bad(middle)
        if found is None:
            untried.add(middle)
        elif found:
            high = middle
        else:
            low = middle
    return high


def _smallest(spec: MatmulSpec, shows: Callable[[MatmulSpec], bool]) -> MatmulSpec:
    """The product with what is fused left out, and with each extent the least power of two, as far as the fault still shows."""
    for name in ("epilogue", "prologue_a", "prologue_b"):
        for entry in getattr(spec, name):
            with contextlib.suppress(SpecError):  # Such as a cast that makes types ones that are multiplied.
                less = replace(spec, **{name: tuple(each for each in getattr(spec, name) if each is not entry)})
                spec = less if shows(less) else spec
    for name in ("m", "n", "k"):
        extent, least = getattr(spec, name), 1
        while least < extent:
            try:
                less = replace(spec, **{name: least})
                if shows(less):
                    spec = less
                    break
            except SpecError:  # Such as groups that do not divide that K.
                pass
            least *= 2
    return spec
