# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures cases on the workers of an executor, each on the machine that its worker is on, with cores that nobody else measures on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from tilewright.bench.lease import leased
from tilewright.errors import TilewrightError
from tilewright.processes import calls
from tilewright.processes.child import ChildEndedError

Result = TypeVar("Result")


def each(
    measure: Callable[..., Result], wanted: Sequence[tuple[int, tuple[Any, ...]]], jobs: Executor
) -> Iterator[tuple[int, Result | TilewrightError]]:
    """Calls `measure` with each of some arguments, and yields the index and the result of each call as it ends, or why there is none.

    Args:
        measure: A function of a module.
        wanted: For each call, how many cores it measures on, and its arguments; they and the results can be pickled.
        jobs: Whose workers measure.
    """
    for number, found in calls.each(_alone, [(measure, *each) for each in wanted], jobs):
        if isinstance(found, ChildEndedError):
            yield number, TilewrightError(f"{found}, whoever tried", where="bench")
        else:
            yield number, found


def results(
    measure: Callable[..., Result], wanted: Sequence[tuple[int, tuple[Any, ...]]], jobs: Executor | None
) -> Iterator[tuple[int, Result]]:
    """The same where one failure ends everything; without `jobs`, this process measures, in order.

    Raises:
        TilewrightError: What a call raised.
    """
    if jobs is None:
        for number, (_, arguments) in enumerate(wanted):
            yield number, measure(*arguments)
        return
    for number, found in each(measure, wanted, jobs):
        if isinstance(found, TilewrightError):
            raise found
        yield number, found


def _alone(measure: Callable[..., Result], threads: int, arguments: tuple[Any, ...]) -> Result | TilewrightError:
    """What a worker measures, on cores that it has leased and runs on; or why it cannot."""
    try:
        with leased(threads):
            return measure(*arguments)
    except TilewrightError as error:
        return error
    except Exception as error:  # Whatever a case raises: the others are measured all the same.
        return TilewrightError(repr(error), where="bench")
