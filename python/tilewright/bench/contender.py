# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A contender of a comparison: loads a problem, computes it once for the check, and gives samples of its time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.bench.operands import Operands, operands, rotation
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Clock, Loop

Call = Callable[[], object]
"""What is timed: complete, arguments and all."""


class Calls:
    """A contender that runs in this process; `PeerProcess` is one in a process of its own."""

    def __init__(
        self, name: str, version: str, fetch: Callable[[Any, Any], np.ndarray], clock: Clock = time.perf_counter_ns
    ) -> None:
        """Takes the name in the table, what is measured, exactly, and what makes the result of a call's value and its operands."""
        self.name, self.version = name, version
        self._fetch, self._clock = fetch, clock
        self.unload()

    def take(self, operands: Sequence[Any], bind: Callable[[Any], Call]) -> None:
        """Makes the calls, one for each of several copies of the operands, through which samples rotate."""
        self._every = operands
        self._calls = [bind(each) for each in operands]
        self._loop = Loop(self._calls, self._clock)

    def result(self) -> np.ndarray:
        """What the call that will be timed computes. Every copy of the operands is gone through, so no page is touched first when timed."""
        self._loaded()
        for call in self._calls[1:]:
            call()
        return self._fetch(self._calls[0](), self._every[0])

    def calibrate(self, min_seconds: float) -> int:
        """How many calls make a sample of at least `min_seconds`."""
        return self._loaded().calibrate(min_seconds)

    def sample(self, count: int) -> float:
        """Seconds that one call takes, the mean of `count`."""
        return self._loaded().sample(count)

    def unload(self) -> None:
        """Drops the operands."""
        self._every: Sequence[Any] = ()
        self._calls: list[Call] = []
        self._loop: Loop | None = None

    def _loaded(self) -> Loop:
        if self._loop is None:
            raise ValueError(f"{self.name}: load() comes before result(), calibrate() and sample()")
        return self._loop


class Local(Calls):
    """Products in this process."""

    def __init__(
        self,
        name: str,
        version: str,
        bind: Callable[[Operands], Call],
        clock: Clock = time.perf_counter_ns,
        *,
        bind_packed: Callable[[Operands], Call] | None = None,
        fetch: Callable[[Any, Operands], np.ndarray] = lambda returned, operands: operands.c,
    ) -> None:
        """Takes what makes the timed call out of operands, with `bind_packed` after B is packed ahead; the rest is as for `Calls`."""
        super().__init__(name, version, fetch, clock)
        self._bind, self._bind_packed = bind, bind_packed

    def load(
        self,
        shape: Shape,
        dtype: str,
        seed: int,
        total_bytes: int,
        packed: bool = False,
        epilogue: str = "",
        layout: str = "nn",
    ) -> None:
        """Makes the operands: those of `operands.operands`, and copies of them up to `total_bytes` to rotate through.

        With `packed`, B is packed ahead of time. `epilogue` is done to the sums. `layout` is how A and B are stored.
        """
        self.unload()
        bind = self._bind_packed if packed else self._bind
        if bind is None:
            raise ValueError(f"{self.name} does not take B packed ahead of time")
        self.take(rotation(operands(shape, dtype, seed, epilogue, layout), total_bytes), bind)


Contender = Local | PeerProcess
"""A contender that is measured, in this process or in its own."""
