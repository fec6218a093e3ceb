# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of a library, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

from tilewright.errors import LoweringError
from tilewright.libraries.kernels import Source
from tilewright.libraries.objects import Compiled, compile_one
from tilewright.processes import calls
from tilewright.processes.calls import Jobs
from tilewright.targets import Target


def compile_all(
    wanted: Sequence[tuple[Source, Target]],
    threads: int = 1,
    *,
    jobs: Jobs = None,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> list[Compiled]:
    """The kernels of sources for targets, in their order, several at a time.

    Args:
        wanted: What to compute, for which target.
        threads: Most threads that a call uses.
        jobs: How many processes compile; by default as many as this process may use CPUs. With 1 this process does. Or
            any `concurrent.futures.Executor`, whose workers do.
        progress: Told after each kernel how many are done, and how many there are.

    Raises:
        TilewrightError: One cannot be compiled.
    """
    different = list(dict.fromkeys(wanted))
    made: dict[tuple[Source, Target], Compiled] = {}
    for pair, compiled in _compiled(different, threads, jobs):
        made[pair] = compiled
        progress(len(made), len(different))
    return [made[pair] for pair in wanted]


def _compiled(
    wanted: Sequence[tuple[Source, Target]], threads: int, jobs: Jobs
) -> Iterator[tuple[tuple[Source, Target], Compiled]]:
    if not isinstance(jobs, Executor) and 1 in (jobs, len(wanted)):
        for source, target in wanted:
            yield (source, target), compile_one(source, target, threads)
        return
    for number, ended in calls.each(compile_one, [(*pair, threads) for pair in wanted], jobs):
        if not isinstance(ended, Compiled):
            raise LoweringError(f"the compiler's process {ended.reason}", where=str(wanted[number][0]))
        yield wanted[number], ended
