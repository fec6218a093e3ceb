# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A contender of a comparison: loads a problem, computes it once for the check, and gives samples of its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from tilewright.bench.operands import Operands, operands, rotation
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Clock, Loop


class Contender(Protocol):
    """A contender that is measured, in this process (`Local`) or in its own (`PeerProcess`)."""

    @property
    def name(self) -> str:
        """The name in the table."""
        ...

    @property
    def version(self) -> str:
        """What is measured, exactly."""
        ...

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
        ...

    def result(self) -> np.ndarray:
        """The product of the loaded operands, computed by the call that will be timed; of C's shape."""
        ...

    def calibrate(self, min_seconds: float) -> int:
        """How many calls make a sample of at least `min_seconds`."""
        ...

    def sample(self, count: int) -> float:
        """Seconds that one call takes, the mean of `count`."""
        ...

    def unload(self) -> None:
        """Drops the operands."""
        ...


class Local:
    """A contender that runs in this process."""

    def __init__(
        self,
        name: str,
        version: str,
        bind: Callable[[Operands], Callable[[], object]],
        clock: Clock = time.perf_counter_ns,
        *,
        bind_packed: Callable[[Operands], Callable[[], object]] | None = None,
        fetch: Callable[[object, Operands], np.ndarray] = lambda returned, operands: operands.c,
    ) -> None:
        """Takes what makes the timed call out of operands, and the clock.

        Args:
            name: See `Contender`.
            version: See `Contender`.
            bind: Makes the call.
            clock: The clock.
            bind_packed: Makes the call, and packs B ahead of it; None: there is no such call.
            fetch: The product, from what the call returned or from the operands' C.
        """
        self.name = name
        self.version = version
        self._bind = bind
        self._bind_packed = bind_packed
        self._fetch = fetch
        self._clock = clock
        self._every: list[Operands] = []
        self._calls: list[Callable[[], object]] = []
        self._loop: Loop | None = None

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
        """See `Contender.load`."""
        self.unload()
        bind = self._bind_packed if packed else self._bind
        if bind is None:
            raise ValueError(f"{self.name} does not take B packed ahead of time")
        self._every = rotation(operands(shape, dtype, seed, epilogue, layout), total_bytes)
        self._calls = [bind(each) for each in self._every]
        self._loop = Loop(self._calls, self._clock)

    def result(self) -> np.ndarray:
        """See `Contender.result`. Every copy of the operands is gone through, so no page is touched first when timed."""
        self._loaded()
        for call in self._calls[1:]:
            call()
        return self._fetch(self._calls[0](), self._every[0])

    def calibrate(self, min_seconds: float) -> int:
        """See `Contender.calibrate`."""
        return self._loaded().calibrate(min_seconds)

    def sample(self, count: int) -> float:
        """See `Contender.sample`."""
        return self._loaded().sample(count)

    def unload(self) -> None:
        """See `Contender.unload`."""
        self._loop = None
        self._calls = []
        self._every = []

    def _loaded(self) -> Loop:
        if self._loop is None:
            raise ValueError(f"{self.name}: load() comes before result(), calibrate() and sample()")
        return self._loop
