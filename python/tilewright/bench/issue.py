# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures how many instructions of each kind this core starts in a cycle, beside its target's row.

Cycles are counted by a chain of dependent operations. A loop and the chain are sampled in turn, in CPU time of the thread, so that neither
clock changes nor other processes matter much. A hardware thread that shares the core's units can only make it slower: of several
attempts the fastest counts.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tilewright.bench.loops import CLOCK_CYCLES, Loop, clock_loop, latency_loop, peak_loop, stream_loop, stream_step
from tilewright.bench.operands import aligned
from tilewright.bench.peak import Code, load
from tilewright.bench.timing import calibrate, cores, pinned
from tilewright.emit import tile_model
from tilewright.targets import Target, require_runnable

TOLERANCE = 0.1
"""Part by which a measured figure may differ from the row's: what a loop's own instructions and a busy machine take."""
_ROUNDS, _ATTEMPTS = 15, 4
_SAMPLE_SECONDS = 2e-4
_L1_BYTES = 8 << 10
_TYPES = (("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("bf16", "bf16"), ("u8", "i8"))


@dataclass(frozen=True, slots=True)
class Fact:
    """A claim of a row, and what was measured.

    Attributes:
        what: What is counted: "vpdpbusd (u8 by i8) a cycle".
        row: The row that says it.
        claim: What it says.
        measured: What this core does.
    """

    what: str
    row: str
    claim: float
    measured: float

    @property
    def agrees(self) -> bool:
        """Whether the two agree, within the error of measuring."""
        return abs(self.measured / self.claim - 1) <= TOLERANCE

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "agrees": self.agrees}


def check(target: Target) -> list[Fact]:
    """What `target` says of its core's multiply-adds, their latency, and loads, each beside a measurement on this one.

    Raises:
        TargetError: This machine cannot run its code.
    """
    require_runnable(target)
    row = target.base or target.name
    with pinned(cores(1)):
        clock = _Timed(load(clock_loop(target), target, "clock"), np.arange(1, 3, dtype=np.int64))
        facts = []
        for types, loop, claim in _multiply_adds(target):
            shown = _settled(lambda loop=loop: loop.products / _cycles(_of(loop, target), clock), claim, max)
            facts.append(Fact(f"{loop.name} ({' by '.join(types)}) a cycle", row, claim, shown))
        chain = _of(latency_loop(target), target)
        latency = _settled(lambda: _cycles(chain, clock), target.fma_latency, min)
        facts.append(
            Fact("cycles from a multiply-add (f32) to the next that needs it", row, target.fma_latency, latency)
        )
        steps = _L1_BYTES // stream_step(target)
        stream = _Timed(
            load(stream_loop(target), target, "stream"), aligned((2 * _L1_BYTES,), np.dtype(np.uint8)), steps
        )
        vectors = steps * stream_step(target) * 8 / target.vector_bits
        loads = _settled(lambda: vectors / _cycles(stream, clock), target.loads_per_cycle, max)
        facts.append(Fact(f"loads of {target.vector_bits} bits a cycle", row, target.loads_per_cycle, loads))
    return facts


def _multiply_adds(target: Target) -> list[tuple[tuple[str, str], Loop, float]]:
    """The types, the loop and the claimed rate of each instruction that the target multiplies with, each once."""
    found: dict[str, tuple[tuple[str, str], Loop, float]] = {}
    for types in _TYPES:
        dot, loop = target.dot(*types), peak_loop(target, types)
        claim = target.fma_per_cycle * dot.rate(adds_apart=target.adds_apart)
        if dot.is_tile:
            claim = 1 / tile_model.PRODUCT_CYCLES
        found.setdefault(loop.ir, (types, loop, claim))
    return list(found.values())


class _Timed:
    """A loop that is called with a number of steps, and how many of them are long enough to be timed."""

    def __init__(self, code: Code, data: np.ndarray, inner: int = 0) -> None:
        """Takes the code, alive as long as this is; with `inner`, a loop of loads of so many steps in each of its own."""
        self._code, self._data = code, data
        address = data.ctypes.data
        kinds = [ctypes.c_int64] * (2 if inner else 1) + [ctypes.c_void_p] * (2 if inner else 1)
        call = ctypes.CFUNCTYPE(None, *kinds)(code.address)
        further = (inner, address, address + _L1_BYTES) if inner else (address,)
        self._call: Callable[[int], object] = lambda steps: call(steps, *further)
        self._steps = calibrate(self._seconds, _SAMPLE_SECONDS)

    def _seconds(self, steps: int) -> float:
        start = time.thread_time_ns()
        self._call(steps)
        return (time.thread_time_ns() - start) * 1e-9

    def sample(self) -> float:
        """Seconds of a step."""
        return self._seconds(self._steps) / self._steps


def _of(loop: Loop, target: Target) -> _Timed:
    data = aligned((len(loop.start),), np.dtype(np.uint8))
    data[...] = np.frombuffer(loop.start, np.uint8)
    return _Timed(load(loop.ir, target, "peak"), data)


def _cycles(timed: _Timed, clock: _Timed) -> float:
    """Cycles of a step: the median of what it takes beside the clock's, in turn."""
    return CLOCK_CYCLES * statistics.median(timed.sample() / clock.sample() for _ in range(_ROUNDS))


def _settled(measure: Callable[[], float], claim: float, better: Callable[[float, float], float]) -> float:
    """The better figure of several attempts, of which the first that agrees with the claim is the last."""
    found = measure()
    for _ in range(_ATTEMPTS - 1):
        if abs(found / claim - 1) <= TOLERANCE:
            break
        found = better(found, measure())
    return found
