# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a benchmark: compiles, checks and times every case beside the peers and the measured peak, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any

from tilewright.bench import on_workers
from tilewright.bench.rows import Key, Row
from tilewright.bench.session import STEPS_BEFORE, Session, problem, types_text
from tilewright.bench.settings import Settings
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Cache
from tilewright.targets import Target, resolve


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement that is to be made.

    Attributes:
        shape: The extents.
        dtype: The element types, as `--dtype` has them.
        threads: Of each contender.
        cache: "hot" or "cold".
        packed: Whether B is packed ahead of time.
        epilogue: What is done to the sums, as `--epilogue` has it; "" for nothing.
        layout: How A and B are stored.
    """

    shape: Shape
    dtype: str = "f32"
    threads: int = 1
    cache: Cache = "hot"
    packed: bool = False
    epilogue: str = ""
    layout: str = "nn"

    def key(self, target: str | Target) -> Key:
        """The key of the row that it becomes.

        Raises:
            SpecError: It cannot be measured.
            TargetError: The target is unknown.
        """
        spec = problem(self.shape, self.dtype, self.packed, self.epilogue, self.layout)
        extents = (self.shape.m, self.shape.n, self.shape.k)
        name = resolve(target).name
        cold = self.cache == "cold"
        how = (spec.layout, self.threads, name, self.packed, cold, self.epilogue, self.shape.batch)
        return Key(*extents, types_text(spec), *how)

    def __str__(self) -> str:
        """What a progress bar says about it."""
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        packed, epilogue = ", packed ahead" if self.packed else "", f", {self.epilogue}" if self.epilogue else ""
        layout = "" if self.layout == "nn" else f" {self.layout}"
        return f"{self.shape} {self.dtype}{layout}, {threads}, {self.cache}{packed}{epilogue}"


@dataclass(frozen=True, slots=True)
class Event:
    """Where a run is; told between samples.

    Attributes:
        case: What is being measured.
        stage: "compile", "check", "calibrate", "round", or "done" when the case is finished.
        done: Steps of the whole run that are behind us.
        total: All steps of the run.
        row: The finished row when the stage is "done" and nothing failed, else None.
    """

    case: Case
    stage: str
    done: int
    total: int
    row: Row | None = None


def cases(
    shapes: Iterable[Shape],
    dtypes: Iterable[str] = ("f32",),
    threads: Iterable[int] = (1,),
    caches: Iterable[Cache] = ("hot",),
    packed: Iterable[bool] = (False,),
    epilogue: str = "",
    layout: str = "nn",
) -> list[Case]:
    """Every combination, those first that are asked for most: all types hot on one thread, then on several, then cold."""
    every = product(caches, threads, dtypes, dict.fromkeys(shapes), packed)
    return [Case(shape, dtype, count, cache, ahead, epilogue, layout) for cache, count, dtype, shape, ahead in every]


def run_cases(
    every: Sequence[Case],
    settings: Settings,
    *,
    finished: Mapping[Key, Row] | None = None,
    progress: Callable[[Event], None] | None = None,
    failed: Callable[[Case, Exception], None] | None = None,
    jobs: Executor | None = None,
) -> list[Row]:
    """Measures some cases; those of one type, number of threads, cache and epilogue share a session.

    Args:
        every: What to measure.
        settings: How; its type, threads, cache and epilogue are the cases'.
        finished: Rows of an earlier run; what is there is not measured again.
        progress: Called between samples.
        failed: Called with a case that failed, and why, and the run goes on; None: the error is raised.
        jobs: Whose workers measure, each on the machine that it is on, with cores that nobody else measures on; None: this process.

    Returns:
        The rows in the order of the cases, those of earlier runs among them.

    Raises:
        SpecError: A shape, the element type or a number here cannot be.
        TargetError: This machine cannot run the target, or has too few cores.
        CheckError: Ours, or a demanded peer, computed wrong numbers.
        TilewrightError: A demanded peer is absent, or its process failed.
    """
    rows = dict(finished or {})
    keys = {case: case.key(settings.target) for case in every}
    waiting = [case for case in every if keys[case] not in rows]
    steps = STEPS_BEFORE + settings.rounds
    total = steps * len(waiting)
    tell = progress or (lambda event: None)
    if jobs is not None:
        leased = replace(settings, on_cores=None)  # Each worker runs on the cores that it has leased.
        wanted = [(case.threads, (case, leased)) for case in waiting]
        for index, (number, found) in enumerate(on_workers.each(_one, wanted, jobs), 1):
            case, row = waiting[number], found if isinstance(found, Row) else None
            if isinstance(found, Row):
                rows[keys[case]] = found
            elif failed is None:
                raise found
            else:
                failed(case, found)
            tell(Event(case, "done", index * steps, total, row))
        return [rows[keys[case]] for case in every if keys[case] in rows]
    index = 0
    for (dtype, threads, cache, epilogue), group in groupby(waiting, _session_of):
        with Session(replace(settings, dtype=dtype, threads=threads, cache=cache, epilogue=epilogue)) as session:
            for case in group:

                def report(stage: str, step: int, case: Case = case, before: int = index * steps) -> None:
                    tell(Event(case, stage, before + step, total))

                row = None
                try:
                    row = rows[keys[case]] = session.measure(
                        case.shape, problem(case.shape, dtype, case.packed, epilogue, case.layout), report
                    )
                except Exception as error:  # also a bug of ours must not end a run of hours
                    if failed is None:
                        raise
                    failed(case, error)
                index += 1
                tell(Event(case, "done", index * steps, total, row))
    return [rows[keys[case]] for case in every if keys[case] in rows]


def _one(case: Case, settings: Settings) -> Row:
    """The row of one case."""
    return run_cases([case], settings)[0]


def _session_of(case: Case) -> tuple[str, int, Cache, str]:
    """What the cases of one session have in common."""
    return case.dtype, case.threads, case.cache, case.epilogue


def run_suite(
    shapes: Iterable[Shape],
    dtype: str = "f32",
    *,
    packed: bool = False,
    epilogue: str = "",
    layout: str = "nn",
    progress: Callable[[Event], None] | None = None,
    **how: Any,  # noqa: ANN401 - of `Settings`
) -> list[Row]:
    """Measures our kernels on `shapes` beside the peers and the peak.

    Args:
        shapes: What to multiply.
        dtype: As for `Settings`.
        packed: Whether B is packed ahead of time, by us and by each peer; peers that cannot are left out.
        epilogue: As for `Settings`.
        layout: How A and B are stored; peers that would have to transpose them first are left out.
        progress: Called between samples.
        how: The other fields of `Settings`.

    Returns:
        A row for each shape, in order.

    Raises:
        SpecError: A shape, the element type or a number here cannot be.
        TargetError: This machine cannot run the target, or has too few cores.
        CheckError: Ours, or a demanded peer, computed wrong numbers.
        TilewrightError: A demanded peer is absent, or its process failed.
    """
    settings = Settings(dtype=dtype, **how)
    every = cases(shapes, (dtype,), (settings.threads,), (settings.cache,), (packed,), epilogue, layout)
    return run_cases(every, settings, progress=progress)
