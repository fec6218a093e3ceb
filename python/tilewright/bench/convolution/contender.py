# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What takes part in a comparison of convolutions, in this process or in its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.bench.convolution.layers import Arrays, Layer, arrays
from tilewright.bench.peer_process import PeerProcess
from tilewright.bench.timing import Loop

Bind = Callable[[Layer, str, Arrays], Callable[[], object]]
"""Makes the timed call out of a layer, the type asked for and its operands; filters may be put in any order ahead of it."""


class Convolver:
    """A contender that runs in this process."""

    def __init__(self, version: str, bind: Bind, fetch: Callable[[object, Arrays], np.ndarray]) -> None:
        """Takes what makes the call, and what makes an array like the operands' y of what a call returns."""
        self.version = version
        self._bind = bind
        self._fetch = fetch
        self._call: Callable[[], object] | None = None
        self._arrays: Arrays | None = None
        self._loop: Loop | None = None

    def load(self, layer: Layer, asked: str) -> None:
        """Makes the operands and the call."""
        self._arrays = arrays(layer, asked)
        self._call = self._bind(layer, asked, self._arrays)
        self._loop = Loop([self._call])

    def result(self) -> np.ndarray:
        """The result of the call that will be timed."""
        assert self._call is not None
        assert self._arrays is not None
        return self._fetch(self._call(), self._arrays)

    def calibrate(self, min_seconds: float) -> int:
        """How many calls make a sample of at least so many seconds."""
        assert self._loop is not None
        return self._loop.calibrate(min_seconds)

    def sample(self, count: int) -> float:
        """Seconds that one call takes, the mean of `count`."""
        assert self._loop is not None
        return self._loop.sample(count)


class ConvolverProcess(PeerProcess):
    """A contender in a process of its own."""

    def load(self, layer: Layer, asked: str) -> None:  # type: ignore[override] - layers in place of shapes
        """See `Convolver.load`."""
        self._ask("load", layer, asked)
