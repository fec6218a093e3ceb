# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Independent work for several processes, as tables of targets have it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

Result = TypeVar("Result")


def each(
    work: Callable[..., Result],
    wanted: Sequence[tuple[Any, ...]],
    progress: Callable[[int, int], object],
    jobs: int | None = None,
) -> list[Result]:
    """What `work` makes of each of some arguments, in their order.

    Args:
        work: A function of a module, so that other processes find it.
        wanted: The arguments of each call; they and the results can be pickled.
        progress: Told after each call how many are done, and how many there are.
        jobs: How many processes work; by default as many as this process may use CPUs. With 1 this process does.
    """
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(wanted))
    if jobs <= 1:
        results = []
        for done, arguments in enumerate(wanted, 1):
            results.append(work(*arguments))
            progress(done, len(wanted))
        return results
    # Not forked: this process may have threads.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(work, *arguments) for arguments in wanted]
        for done, _ in enumerate(as_completed(running), 1):
            progress(done, len(wanted))
        return [future.result() for future in running]
