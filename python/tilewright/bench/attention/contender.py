# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What takes part in a comparison of attention, in this process or in its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.bench.attention.cases import Arrays, Case, arrays
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.timing import Loop

Bind = Callable[[Case, Arrays], Callable[[], object]]
"""Makes the timed call out of a case and its operands."""


class Attender:
    """A contender that runs in this process."""

    def __init__(self, version: str, bind: Bind, fetch: Callable[[Any, Arrays], np.ndarray]) -> None:
        """Takes what makes the call, and what makes an array of what a call returns."""
        self.version = version
        self._bind = bind
        self._fetch = fetch
        self._arrays: Sequence[Arrays] = ()
        self._calls: list[Callable[[], object]] = []
        self._loop = Loop([lambda: None])

    def load(self, case: Case, asked: str, total_bytes: int) -> None:
        """Makes the operands, in as many copies as take so many bytes, and the calls."""
        self._arrays = arrays(case, asked, total_bytes)
        self._calls = [self._bind(case, each) for each in self._arrays]
        self._loop = Loop(self._calls)

    def result(self) -> np.ndarray:
        """The result of the call that will be timed; every copy is gone through."""
        for call in self._calls[1:]:
            call()
        return self._fetch(self._calls[0](), self._arrays[0])

    def calibrate(self, min_seconds: float) -> int:
        """How many calls make a sample of at least so many seconds."""
        return self._loop.calibrate(min_seconds)

    def sample(self, count: int) -> float:
        """Seconds that one call takes, the mean of `count`."""
        return self._loop.sample(count)


class AttenderProcess(PeerProcess):
    """A contender in a process of its own."""

    def load(self, case: Case, asked: str, total_bytes: int) -> None:  # type: ignore[override] - cases in place of shapes
        """See `Attender.load`."""
        self._ask("load", case, asked, total_bytes)
