# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many kernels at once: cold compilations run in processes of their own, side by side, and meet in the disk cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from tilewright import knobs
from tilewright.errors import LoweringError, ScheduleError, TilewrightError
from tilewright.processes import calls
from tilewright.runtime import compile as one
from tilewright.runtime.cache import KernelCache
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import Target


def compile_all(
    specs: Iterable[MatmulSpec],
    target: str | Target = "host",
    threads: int = 1,
    schedule: Schedule = None,
    *,
    jobs: int | None = None,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> list[Kernel]:
    """Compiles all of `specs`, several at a time, and returns their kernels in order.

    What is in the disk cache already is taken from there; what is not is compiled by `jobs` processes, which leave it
    there. Equal specs are compiled once.

    Args:
        specs: What to compute.
        target: As for `compile`.
        threads: As for `compile`.
        schedule: As for `compile`; a Python function cannot be sent to another process.
        jobs: How many processes compile; by default as many as this process may use CPUs. With 1 this process compiles.
        progress: Told after each kernel how many are done, and how many there are.

    Raises:
        TilewrightError: `jobs` is no int above zero, the cache is switched off, or as for `compile`; the first failure ends
            it.
        ScheduleError: The schedule is a Python function.
    """
    wanted = list(specs)
    if jobs is None:
        jobs = len(os.sched_getaffinity(0))
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise TilewrightError(f"jobs is {jobs!r}", where="compile_all", expected="an int above zero")
    if callable(schedule):
        raise ScheduleError(
            "schedule is a Python function, whose kernels are not kept in the cache",
            where="compile_all",
            expected="a strategy's name, or a .py or .mlir file",
            remedy="Call compile for each spec, or put the function into a file",
        )
    different = list(dict.fromkeys(wanted))
    if jobs > 1 and len(different) > 1:
        if KernelCache.from_knobs(knobs.load()) is None:
            raise TilewrightError(
                "the disk cache is switched off, by which processes hand over what they compile",
                where="compile_all",
                remedy="Switch it on, or ask for jobs=1",
            )
        _fill_cache(different, target, threads, schedule, jobs, progress)
    kernels = {}
    for done, spec in enumerate(different, 1):
        kernels[spec] = one.compile(spec, target, threads, schedule)
        if jobs == 1 or len(different) == 1:
            progress(done, len(different))
    return [kernels[spec] for spec in wanted]


def _fill_cache(
    specs: list[MatmulSpec],
    target: str | Target,
    threads: int,
    schedule: Schedule,
    jobs: int,
    progress: Callable[[int, int], object],
) -> None:
    """Compiles `specs` in other processes."""
    wanted = [(spec, target, threads, schedule) for spec in specs]
    for done, (number, ended) in enumerate(calls.each(_compile, wanted, jobs), 1):
        if ended is not None:
            raise LoweringError(f"the compiler's process {ended.reason}", where=str(specs[number]))
        progress(done, len(specs))


def _compile(spec: MatmulSpec, target: str | Target, threads: int, schedule: Schedule) -> None:
    """Leaves one kernel in the disk cache."""
    one.compile(spec, target, threads, schedule)
