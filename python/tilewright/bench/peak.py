# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures the machine's peak: multiply-adds that touch registers only, and bytes streamed from memory.

The loops of loops.py are compiled for the same target as the kernel; every multiply-add counts two operations.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from tilewright.bench.loops import Loop, peak_loop, stream_loop, stream_step
from tilewright.bench.timing import Clock, calibrate, pinned
from tilewright.payload.samples import aligned
from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright._runtime import Code


def load(ir: str, target: Target, entry: str) -> Code:
    """Compiles LLVM IR for `target`, unoptimized but for code generation, and loads it into this process."""
    from tilewright import _runtime
    from tilewright.emit import code

    return _runtime.Code(code.object_file(ir, target), entry)


class Rate:
    """A native loop whose rate is sampled: so many units a step, on one or more pinned threads at once."""

    def __init__(
        self, calls: Sequence[Callable[[int], object]], units: float, cores: Sequence[int], clock: Clock
    ) -> None:
        """Takes one call a thread, each given the number of steps to do; `units` is what a step of all of them does."""
        self._calls = calls
        self._units = units
        self._clock = clock
        self._least = 0.0
        self._pools = [ThreadPoolExecutor(1) for _ in calls[1:]]
        for pool, core in zip(self._pools, cores[1:], strict=True):
            pool.submit(_pin_this_thread, core).result()
        self._first_core = cores[0]

    def close(self) -> None:
        """Ends the threads."""
        for pool in self._pools:
            pool.shutdown()

    def calibrate(self, min_seconds: float) -> int:
        """How many steps last at least `min_seconds`."""
        self._least = min_seconds / 2
        return calibrate(self._seconds, min_seconds)

    def sample(self, steps: int) -> float:
        """Units a second over `steps` steps, or more of them where these take less than half of what was calibrated for."""
        seconds = self._seconds(steps)
        while seconds < self._least:
            steps *= 4
            seconds = self._seconds(steps)
        return self._units * steps / seconds

    def _seconds(self, steps: int) -> float:
        with pinned((self._first_core,)):
            start = self._clock()
            others = [pool.submit(call, steps) for pool, call in zip(self._pools, self._calls[1:], strict=True)]
            self._calls[0](steps)
            for other in others:
                other.result()
            return (self._clock() - start) * 1e-9


def _pin_this_thread(core: int) -> None:
    os.sched_setaffinity(0, {core})


class Registers(Rate):
    """Operations a second of a loop on registers."""

    def __init__(self, loop: Loop, target: Target, cores: Sequence[int], clock: Clock = time.perf_counter_ns) -> None:
        """Compiles the loop; one thread on each of `cores`."""
        self.instruction = loop.name
        self._code = load(loop.ir, target, "peak")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._code.address)
        self._data = [aligned((len(loop.start),), np.dtype(np.uint8)) for _ in cores]
        for data in self._data:
            data[...] = np.frombuffer(loop.start, np.uint8)

        def bind(data: np.ndarray) -> Callable[[int], object]:
            address = data.ctypes.data
            return lambda steps: function(steps, address)

        super().__init__([bind(data) for data in self._data], float(loop.flops * len(cores)), cores, clock)


class Peak(Registers):
    """Operations a second in registers: the peak that percentages refer to."""

    def __init__(
        self, target: Target, operands: tuple[str, str], cores: Sequence[int], clock: Clock = time.perf_counter_ns
    ) -> None:
        """Compiles the best loop for products of these two element types; one thread on each of `cores`.

        The target is one that this machine can run, as `targets.require_runnable` says, which asks for the use of AMX too.
        """
        super().__init__(peak_loop(target, operands), target, cores, clock)


class StreamPeak(Rate):
    """Bytes a second read from a working set of a given size, from whichever level of the memory it lies in."""

    def __init__(self, target: Target, size: int, cores: Sequence[int], clock: Clock = time.perf_counter_ns) -> None:
        """Compiles the loop and makes the working set of `size` bytes, an equal part of it for each of `cores`."""
        step = stream_step(target)
        steps = max(1, size // len(cores) // step)
        self._code = load(stream_loop(target), target, "stream")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(
            self._code.address
        )
        self._data = [aligned(((steps + 1) * step,), np.dtype(np.uint8)) for _ in cores]
        for data in self._data:
            data.fill(1)

        def bind(data: np.ndarray) -> Callable[[int], object]:
            address, sink = data.ctypes.data, data.ctypes.data + steps * step
            return lambda passes: function(passes, steps, address, sink)

        super().__init__([bind(data) for data in self._data], float(steps * step * len(cores)), cores, clock)
