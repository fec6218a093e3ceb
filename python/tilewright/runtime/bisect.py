# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the transform op of a schedule that is to blame for a wrong, failing or slow kernel."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path

from tilewright import targets
from tilewright.errors import ScheduleError, SlowScheduleWarning, SpecError, TilewrightError, UnverifiedWarning
from tilewright.runtime import files, product_files
from tilewright.runtime.compile import compile as compiled
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import hybrid, make
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

IsBad = Callable[[Kernel], bool]
"""Says of a kernel whether it has what is looked for."""
_SHOWN = 160
"""Characters of an op that are shown."""


@dataclass(frozen=True, slots=True)
class Blame:
    """What `bisect` returns.

    Attributes:
        op: The text of the op, or of the ops that differ, to blame.
        number: Which op of the schedule it is, from 1; of two schedules, which of their differences.
        count: How many there are.
        runs: How many schedules were tried.
        reason: What the kernel has that it should not.
        spec: The product on which it shows: of extents as small as were found.
        good: The text of the last schedule that is good.
        bad: The text of the first one that is not, which has one op or difference more.
    """

    op: str
    number: int
    count: int
    runs: int
    reason: str
    spec: MatmulSpec
    good: str
    bad: str

    def __repr__(self) -> str:
        """Which op is to blame."""
        return f"<tilewright.Blame op {self.number} of {self.count}: {self.op[:_SHOWN]}{'…' * (len(self.op) > _SHOWN)}>"

    def write(self, folder: str | PathLike[str]) -> None:
        """Writes `good.mlir`, `bad.mlir` and a README with the commands that show the difference to a folder.

        Raises:
            TilewrightError: They cannot be written.
        """
        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        shape = f"{self.spec.m}x{self.spec.n}x{self.spec.k}"
        product = f"--shape {shape} --dtype {self.spec.a},{self.spec.b},{self.spec.c} --layout {self.spec.layout}"
        text = (
            f"{self.reason}\n\nTo blame: op {self.number} of {self.count}:\n\n{self.op}\n\n"
            f"tilewright run {product} --schedule good.mlir\ntilewright run {product} --schedule bad.mlir\n"
        )
        named = {"good.mlir": self.good, "bad.mlir": self.bad, "README.txt": text}
        files.write_together({name: (into / name, content.encode()) for name, content in named.items()})


def bisect(
    spec: MatmulSpec,
    schedule: Schedule,
    target: str | Target = "host",
    threads: int = 1,
    *,
    good: Schedule = None,
    is_bad: IsBad | None = None,
) -> Blame:
    """Finds the op of a schedule with which a kernel gets bad, by trying at most log2 of their number and two more schedules.

    Without `good`, the schedules tried are ever longer or shorter beginnings of `schedule`, whose rest the lowering then does as it can.
    With it, they lie between `good` and `schedule`: the first differences are as in `schedule`, the rest as in `good`. A schedule that
    cannot be tried is passed over.

    Args:
        spec: The product, of static extents.
        schedule: The schedule with the fault: as for `tilewright.compile`.
        target: For which processor.
        threads: Most threads that a call uses.
        good: A schedule without the fault, to be compared with.
        is_bad: What to look for in kernels that are right on random operands. By default it is how `schedule` fails: with wrong numbers,
            at a transform op, or in a stage behind.

    Raises:
        SpecError: The target is a GPU, or an extent is dynamic.
        ScheduleError: The schedule is not bad, or that which should be good is.
    """
    if spec.open:
        raise SpecError(f"{spec} has dynamic extents", where="bisect", expected="static extents")
    if targets.gpu(target) is not None:
        raise SpecError(f"{target} is a GPU", where="bisect", expected="a processor")
    row = targets.resolve(target)
    whole = hybrid.Text.of(_text(spec, row, schedule, threads))
    if good is None:
        count = len(whole.ops)
        text = whole.first
        ops = [op.strip() for op in whole.ops]
    else:
        other = hybrid.Text.of(_text(spec, row, good, threads))
        differences = hybrid.changes(other, whole)
        count = len(differences)
        ops = [_both(other, whole, change) for change in differences]

        def text(count: int) -> str:
            return hybrid.mixed(other, whole, differences[:count])

    trial = _Trial(row, threads, is_bad)
    found = _first_bad(lambda number: trial.of(spec, text(number)), count)
    runs, small = trial.runs, spec
    if is_bad is None:
        small = _smallest(spec, lambda less: trial.of(less, text(found)) is True)
        small = small if trial.of(small, text(found - 1)) is False else spec
    return Blame(ops[found - 1], found, count, runs, trial.reason, small, text(found - 1), text(found))


def _text(spec: MatmulSpec, target: Target, schedule: Schedule, threads: int) -> str:
    """The text of a schedule as MLIR prints it; a user's is read in a child process."""
    plan = make.make(spec, target, schedule, None, threads)
    return product_files.build(spec, target, plan, until="schedule").texts["schedule"]


def _both(old: hybrid.Text, new: hybrid.Text, change: hybrid.Change) -> str:
    """A difference, as people read it."""
    removed, added = old.ops[slice(*change.old)], new.ops[slice(*change.new)]
    return "\n".join([*(f"- {op.strip()}" for op in removed), *(f"+ {op.strip()}" for op in added)])


class _Trial:
    """Tries schedules, and says whether they are bad; None where that cannot be said."""

    def __init__(self, target: Target, threads: int, is_bad: IsBad | None) -> None:
        self._target, self._threads, self._is_bad = target, threads, is_bad
        self._kind: tuple[type[TilewrightError], str] | None = None
        self.runs, self.reason = 0, "the predicate holds"
        self.of = lru_cache(maxsize=None)(self._of)

    def _of(self, spec: MatmulSpec, text: str) -> bool | None:
        self.runs += 1
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "schedule.mlir")
            file.write_text(text, encoding="utf-8")
            try:
                with warnings.catch_warnings():
                    # Half a schedule is often slow, and another machine's kernel is not verified.
                    warnings.simplefilter("ignore", SlowScheduleWarning)
                    warnings.simplefilter("ignore", UnverifiedWarning)
                    kernel = compiled(spec, self._target, self._threads, str(file), cache=False, verify=True)
                return self._is_bad is not None and self._is_bad(kernel)
            except TilewrightError as error:
                if self._is_bad is not None:
                    return None
                kind = type(error), getattr(error, "stage", None) or ""
                if self._kind is None:  # The whole schedule is the first that is tried.
                    self._kind, self.reason = kind, str(error).replace(str(file), "schedule.mlir")
                return True if kind == self._kind else None


def _first_bad(is_bad: Callable[[int], bool | None], count: int) -> int:
    """The first number, up to `count`, that is bad, where those before are good.

    Raises:
        ScheduleError: The last one is not bad, or none is good.
    """
    if is_bad(count) is not True:
        raise ScheduleError("the schedule is not bad", expected="one that fails, or for which is_bad holds")
    if is_bad(0) is not False:
        raise ScheduleError(
            "the schedule to compare with is bad too, or cannot be tried",
            expected="one that is not",
            remedy="Give another one as `good`",
        )
    low, high = 0, count
    untried = set[int]()
    while high - low > 1:
        between = [number for number in range(low + 1, high) if number not in untried]
        if not between:
            break
        middle = min(between, key=lambda number: abs(2 * number - low - high))
        found = is_bad(middle)
        if found is None:
            untried.add(middle)
        elif found:
            high = middle
        else:
            low = middle
    return high


def _smallest(spec: MatmulSpec, shows: Callable[[MatmulSpec], bool]) -> MatmulSpec:
    """The product with each extent, one after the other, the least power of two for which the fault still shows."""
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
