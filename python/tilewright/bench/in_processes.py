# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs independent tasks in several processes, for tables of targets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from tilewright.errors import TilewrightError
from tilewright.processes import calls
from tilewright.processes.calls import Jobs
from tilewright.processes.child import ChildEndedError

Result = TypeVar("Result")


def each(
    work: Callable[..., Result],
    wanted: Sequence[tuple[Any, ...]],
    progress: Callable[[int, int], object],
    jobs: Jobs = None,
) -> list[Result]:
    """Calls `work` with each of some arguments, in several processes; returns the results in order.

    Args:
        work: A function of a module, so that other processes find it.
        wanted: The arguments of each call; they and the results can be pickled.
        progress: Told after each call how many are done, and how many there are.
        jobs: How many processes work; by default as many as this process may use CPUs. With 1 this process does. Or
            any `concurrent.futures.Executor`, whose workers do.

    Raises:
        TilewrightError: A process ended.
    """
    if not isinstance(jobs, Executor) and min(jobs or len(os.sched_getaffinity(0)), len(wanted)) <= 1:
        results = []
        for done, arguments in enumerate(wanted, 1):
            results.append(work(*arguments))
            progress(done, len(wanted))
        return results
    made: dict[int, Result] = {}
    for number, result in calls.each(work, wanted, jobs):
        if isinstance(result, ChildEndedError):
            raise TilewrightError(f"a process {result.reason}", where=" ".join(map(str, wanted[number])))
        made[number] = result
        progress(len(made), len(wanted))
    return [made[number] for number in range(len(wanted))]
