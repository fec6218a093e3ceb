# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An executor whose workers are processes of this machine.

It does not use multiprocessing, whose processes import from the current folder and run the caller's main program again. It does not
fork either, because this process may have threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from tilewright.processes.child import Child, ChildEndedError

_CALLEE = "tilewright.processes.callee"
Result = TypeVar("Result")


class Processes(Executor):
    """Calls functions of modules in child processes; a process that ends is replaced for the next call.

    The future of a call that ended its process has a `ChildEndedError`, which says how.
    """

    def __init__(self, count: int | None = None) -> None:
        """Starts none yet.

        Args:
            count: How many there are at most; by default as many as this process may use CPUs.
        """
        self._threads = ThreadPoolExecutor(count or len(os.sched_getaffinity(0)))
        self._idle: list[Child] = []
        self._started: list[Child] = []
        self._lock = Lock()
        self._open = True

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:  # noqa: ANN401
        """As `Executor.submit`: arguments and result can be pickled."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `Executor.shutdown`; without `wait`, calls under way are ended too."""
        if wait:
            self._threads.shutdown(cancel_futures=cancel_futures)
        else:
            self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._open = False
        for child in self._started:
            child.kill()
        self._threads.shutdown()
        for child in self._started:
            child.close()

    def _call(self, function: Callable[..., Result], arguments: tuple[Any, ...], named: dict[str, Any]) -> Result:
        child = self._take()
        child.send((function, arguments, named))
        fine, value = child.receive()
        with self._lock:
            self._idle.append(child)
        if not fine:
            raise value
        return value

    def _take(self) -> Child:
        """One that does nothing, or a new one."""
        with self._lock:
            if not self._open:
                raise ChildEndedError("was ended", None, "")
            while self._idle:
                if (child := self._idle.pop()).is_running():
                    return child
            self._started.append(child := Child(_CALLEE))
            return child
