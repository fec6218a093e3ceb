# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Repeats launches on a card: what a call has checked and encoded is kept by where its arrays are and how they lie.

A repeated call of torch's or CuPy's arrays compares addresses, shapes, strides and types, and makes the driver's launch; it allocates
nothing, copies nothing and does not wait, so that a CUDA graph can capture it. Every other call takes the usual way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tilewright.runtime.device_arrays import LIBRARIES, Library

_MOST = 256
"""Calls that are kept, the newest ones: a model's layers, each with a few addresses of its inputs."""


@cache
def _library(kind: type) -> Library | None:
    """The library whose arrays are of a type."""
    return LIBRARIES.get(kind.__module__.partition(".")[0])


def _identity(array: object) -> tuple[int, object] | None:
    """What tells an array from another; None where its library is not known, or it has no memory of its own."""
    library = _library(type(array))
    try:
        return None if library is None else library.identity(array)
    except (AttributeError, RuntimeError, ValueError):  # As of a subclass that stands for no memory.
        return None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that was made.

    Attributes:
        launches: What launches its kernels again on a stream.
        driver: The driver.
        context: Its context that has to be current.
    """

    launches: tuple[Callable[[int], None], ...]
    driver: Any
    context: int


class Repeats:
    """The calls of a kernel that can be repeated."""

    def __init__(self) -> None:
        """Keeps nothing yet."""
        self._calls: dict[tuple[object, ...], _Call] = {}
        self._results: dict[tuple[object, ...], Callable[[], Any]] = {}

    def again(self, operands: Sequence[Any], out: Any, stream: object) -> Any:  # noqa: ANN401 - arrays
        """Repeats a call; returns its result, or None where it was not made before with arrays that lie so.

        Args:
            operands: All operands.
            out: The array of the result; None for a new one.
            stream: The handle of the stream; None: the library's current one. What is no handle takes the usual way.
        """
        if not operands or not self._calls:
            return None
        key: list[object] = []
        layouts: list[object] = []
        for each in operands:
            identity = _identity(each)
            if identity is None:
                return None
            key.append(identity[0])
            layouts.append(identity[1])
        library = _library(type(operands[0]))
        assert library is not None, "it was looked up above"
        current = library.current(operands[0])
        # On another stream the library has to be told: what is pending on its own one comes first.
        if stream is not None and stream != current:
            return None
        if out is None:
            make = self._results.get(tuple(layouts))
            if make is None:
                return None
            out = make()
        found = self._calls.get((current, *key, *layouts, _identity(out)))
        if found is None or int(found.driver.cuCtxGetCurrent()[1]) != found.context:
            return None
        for launch in found.launches:
            launch(current)
        return out

    def remember(
        self,
        operands: Sequence[Any],
        out: Any,  # noqa: ANN401 - an array
        stream: int,
        launches: Sequence[Callable[[int], None]],
        make: Callable[[], Any],
        driver: Any,  # noqa: ANN401 - the driver
    ) -> None:
        """Keeps a call for `again`, if its arrays are of libraries that are known.

        Args:
            operands: Its operands.
            out: Its result.
            stream: The handle of its stream.
            launches: What launches its kernels.
            make: Makes a new array for such a result.
            driver: The driver, whose current context is that of the card.
        """
        identities = [each for each in map(_identity, (*operands, out)) if each is not None]
        library = _library(type(operands[0]))
        if not launches or library is None or len(identities) <= len(operands):
            return
        if library.current(operands[0]) != stream:
            return
        addresses, layouts = zip(*identities[:-1], strict=True)
        for kept in (self._calls, self._results):
            while len(kept) >= _MOST:
                kept.pop(next(iter(kept)), None)
        self._calls[(stream, *addresses, *layouts, identities[-1])] = _Call(
            tuple(launches), driver, int(driver.cuCtxGetCurrent()[1])
        )
        self._results[tuple(layouts)] = make
