# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a function many times on the workers of an executor; calls whose worker ends are made again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from typing import Any, Generic, TypeVar

from tilewright.errors import TilewrightError
from tilewright.processes.child import ChildEndedError
from tilewright.processes.pool import Processes
from tilewright.version import VERSION

_ATTEMPTS = 3
"""How often a call is made whose worker ends each time: the call may be what ends it."""
_LOST = frozenset(
    {
        "distributed.client.FutureCancelledError",
        "distributed.comm.core.CommClosedError",
        "distributed.scheduler.KilledWorker",
        "ray.exceptions.LocalRayletDiedError",
        "ray.exceptions.NodeDiedError",
        "ray.exceptions.ObjectLostError",
        "ray.exceptions.OutOfMemoryError",
        "ray.exceptions.OwnerDiedError",
        "ray.exceptions.WorkerCrashedError",
    }
)
"""The errors by which executors say that a call's worker is gone: these are of packages that may be absent."""
Jobs = int | Executor | None
"""How many processes, by default as many as this process may use CPUs; or the executor that makes the calls."""
Key = TypeVar("Key", bound=Hashable)
Result = TypeVar("Result")


class Calls(Generic[Key, Result]):
    """Calls of one function on an executor. A context manager that at its end cancels those that are not done."""

    def __init__(self, work: Callable[..., Result], executor: Executor) -> None:
        """Takes what is called and who calls it.

        Args:
            work: A function of a module, which workers import.
            executor: Any `concurrent.futures.Executor`.
        """
        self._work = work
        self._executor = executor
        self._running: dict[Future[Result], tuple[Key, tuple[Any, ...], int]] = {}

    def __enter__(self) -> Calls[Key, Result]:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cancels what is not done."""
        for future in self._running:
            future.cancel()

    def submit(self, key: Key, *arguments: Any) -> None:  # noqa: ANN401 - those of `work`
        """Has a call made; its result will come with `key`."""
        self._submit(key, arguments, 1)

    def ended(self) -> Iterator[tuple[Key, Result | ChildEndedError]]:
        """The results as they come, until there are no calls under way; further ones may be submitted in between.

        A call whose worker ended `_ATTEMPTS` times gives the error that says how.

        Raises:
            TilewrightError: The executor takes no calls any more.
            Exception: What a call raises.
        """
        while self._running:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                key, arguments, attempts = self._running.pop(future)
                error = _lost(future)
                if error is None:
                    yield key, future.result()
                elif attempts < _ATTEMPTS:
                    self._submit(key, arguments, attempts + 1)
                else:
                    yield key, error

    def _submit(self, key: Key, arguments: tuple[Any, ...], attempt: int) -> None:
        try:
            future = self._executor.submit(call, VERSION, self._work, arguments)
        except (BrokenExecutor, RuntimeError) as error:
            raise TilewrightError(
                f"the executor takes no calls any more: {error}",
                where=type(self._executor).__name__,
                remedy="Use one that outlives its workers: processes, Dask or Ray",
            ) from error
        self._running[future] = (key, arguments, attempt)


def each(
    work: Callable[..., Result], wanted: Sequence[tuple[Any, ...]], jobs: Jobs = None
) -> Iterator[tuple[int, Result | ChildEndedError]]:
    """Calls `work` with each of some arguments, and yields the index and the result of each call as it ends.

    A call that ends its worker is made again; when it does so each time, it gives the error that says how, and the other ones go on. What
    a call raises is raised here, and ends everything.

    Args:
        work: A function of a module.
        wanted: The arguments of each call; they and the results can be pickled.
        jobs: Who makes the calls.
    """
    if not wanted:
        return
    executor = jobs if isinstance(jobs, Executor) else Processes(jobs)
    try:
        with Calls[int, Result](work, executor) as calls:
            for number, arguments in enumerate(wanted):
                calls.submit(number, *arguments)
            yield from calls.ended()
    finally:
        if executor is not jobs:
            executor.shutdown(wait=False)


def call(version: str, work: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    """What a worker runs.

    Raises:
        TilewrightError: The worker has another version of this package than the caller.
    """
    if version != VERSION:
        raise TilewrightError(
            f"a worker has tilewright {VERSION}",
            where="executor",
            expected=f"{version}, as here",
            remedy="Install one version on all machines",
        )
    return work(*arguments)


def _lost(future: Future[Any]) -> ChildEndedError | None:
    """How the worker of an ended call ended; None where it did not."""
    try:
        error = future.exception()
    except CancelledError as cancelled:
        error = cancelled
    if error is None or isinstance(error, ChildEndedError):
        return error
    names = {f"{each.__module__}.{each.__qualname__}" for each in type(error).__mro__}
    if isinstance(error, BrokenExecutor | CancelledError) or not _LOST.isdisjoint(names):
        return ChildEndedError(f"was lost: {type(error).__name__}: {error}".partition("\n")[0], None, "")
    return None
