# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a function many times, in several processes in parallel.

It does not use multiprocessing, whose processes import from the current folder and run the caller's main program again. It does not
fork either, because this process may have threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock
from typing import Any, TypeVar

from tilewright.processes.child import Child, ChildEndedError

_CALLEE = "tilewright.processes.callee"
Result = TypeVar("Result")


def each(
    work: Callable[..., Result], wanted: Sequence[tuple[Any, ...]], jobs: int | None = None
) -> Iterator[tuple[int, Result | ChildEndedError]]:
    """Calls `work` with each of some arguments, and yields the index and the result of each call as it ends.

    A call that ends its process gives the error that says how, and the other ones go on. What a call raises is raised here, and ends
    everything.

    Args:
        work: A function of a module.
        wanted: The arguments of each call; they and the results can be pickled.
        jobs: How many processes; by default as many as this process may use CPUs.
    """
    jobs = min(jobs or len(os.sched_getaffinity(0)), len(wanted))
    if not jobs:
        return
    children = _Children()

    def call(arguments: tuple[Any, ...]) -> Result | ChildEndedError:
        child = children.take()
        try:
            child.send((work, arguments))
            fine, value = child.receive()
        except ChildEndedError as error:
            return error
        children.idle.append(child)
        if not fine:
            raise value
        return value

    try:
        with ThreadPoolExecutor(jobs) as threads:
            running = {threads.submit(call, arguments): number for number, arguments in enumerate(wanted)}
            try:
                for future in as_completed(running):
                    yield running[future], future.result()
            finally:
                threads.shutdown(wait=False, cancel_futures=True)
                children.kill()
    finally:
        children.close()


class _Children:
    """The processes of one `each`."""

    def __init__(self) -> None:
        self.idle: list[Child] = []
        self._started: list[Child] = []
        self._lock = Lock()
        self._open = True

    def take(self) -> Child:
        """One that does nothing, or a new one."""
        with self._lock:
            if not self._open:
                raise ChildEndedError("was ended", None, "")
            if self.idle:
                return self.idle.pop()
            self._started.append(child := Child(_CALLEE))
            return child

    def kill(self) -> None:
        """Ends all, also those that work."""
        with self._lock:
            self._open = False
        for child in self._started:
            child.kill()

    def close(self) -> None:
        """Forgets all, when no thread waits for one."""
        for child in self._started:
            child.close()
