# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures how many instructions of each kind this core starts in a cycle, beside its target's row.

Cycles are counted by a chain of dependent operations. A loop and the chain are sampled in turn, in CPU time of the thread, so that neither
clock changes nor other processes matter much. A hardware thread that shares the core's units can only make it slower: of several
attempts the fastest counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.bench.loops import Loop, clock_loop, latency_loop, peak_loop
from tilewright.bench.peak import Rate, Registers, StreamPeak
from tilewright.bench.timing import cores, pinned
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
    row, core = target.base or target.name, cores(1)
    with pinned(core):
        clock = _sampler(Registers(clock_loop(target), target, core, time.thread_time_ns))

        def rate(loop: Loop) -> float:
            """Operations a cycle."""
            return _per_cycle(_sampler(Registers(loop, target, core, time.thread_time_ns)), clock)

        facts = []
        for types, loop, claim in _multiply_adds(target):
            shown = _settled(lambda loop=loop: rate(loop) * loop.products / loop.flops, claim, max)
            facts.append(Fact(f"{loop.name} ({' by '.join(types)}) a cycle", row, claim, shown))
        chain = latency_loop(target)
        latency = _settled(lambda: chain.flops / rate(chain), target.fma_latency, min)
        facts.append(
            Fact("cycles from a multiply-add (f32) to the next that needs it", row, target.fma_latency, latency)
        )
        stream = _sampler(StreamPeak(target, _L1_BYTES, core, time.thread_time_ns))
        loaded = _settled(lambda: _per_cycle(stream, clock) * 8 / target.vector_bits, target.loads_per_cycle, max)
        facts.append(Fact(f"loads of {target.vector_bits} bits a cycle", row, target.loads_per_cycle, loaded))
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


def _sampler(limit: Rate) -> Callable[[], float]:
    """What samples a rate, each time as briefly as it can be timed."""
    steps = limit.calibrate(_SAMPLE_SECONDS)
    return lambda: limit.sample(steps)


def _per_cycle(rate: Callable[[], float], clock: Callable[[], float]) -> float:
    """What is done in a cycle: the median of rates beside the clock's, in turn."""
    return statistics.median(rate() / clock() for _ in range(_ROUNDS))


def _settled(measure: Callable[[], float], claim: float, better: Callable[[float, float], float]) -> float:
    """The better figure of several attempts, of which the first that agrees with the claim is the last."""
    found = measure()
    for _ in range(_ATTEMPTS - 1):
        if abs(found / claim - 1) <= TOLERANCE:
            break
        found = better(found, measure())
    return found
