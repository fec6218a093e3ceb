# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What running a kernel gave, as pages get it: the check of its numbers, and its time beside the machine's peak."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from tilewright.bench import counters
from tilewright.bench.peak import Peak
from tilewright.bench.timing import Loop, cores, median_of, pinned
from tilewright.errors import TilewrightError
from tilewright.runtime.kernel import About, Metadata
from tilewright.runtime.trial import Difference
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target
from tilewright.targets.host import vendor

SEED = 0
"""Decides the operands."""
_SECONDS = 0.02
"""What a sample lasts at least."""
_SAMPLES = 5


def told(difference: Difference, call: str) -> dict[str, Any]:
    """What the page shows of a check."""
    return {**asdict(difference), "text": "" if difference.right else str(difference), "call": call}


def worst(checked: Sequence[dict[str, Any]], runner: str) -> dict[str, Any]:
    """The check that is shown of several."""
    worst = max(checked, key=lambda each: (each["wrong"], each["worst"]))
    return {"runner": runner, "check": worst, "calls": len(checked)}


def timed(call: Callable[[], object], target: Target, types: tuple[str, str], threads: int) -> dict[str, Any]:
    """Seconds of a call, its share of the peak of as many cores, where that can be measured, and what the processor counted.

    Samples of the call and of the peak are taken in turn, so that both have the same of whatever else the machine does.
    """
    try:
        chosen = cores(threads)
    except TilewrightError:
        seconds, count = median_of(call, _SAMPLES, _SECONDS)
        return {"seconds": seconds, "repeats": count, "peak": None}
    with pinned(chosen):
        call()
        loop = Loop([call])
        count = loop.calibrate(_SECONDS)
        samples, rates = [], []
        try:
            with closing(Peak(target, types, chosen)) as peak:
                steps = peak.calibrate(_SECONDS)
                for _ in range(_SAMPLES):
                    samples.append(loop.sample(count))
                    rates.append(peak.sample(steps))
        except TilewrightError:
            samples = [loop.sample(count) for _ in range(_SAMPLES)]
        found = {"seconds": statistics.median(samples), "repeats": count, "peak": max(rates, default=None)}
        return found | counted(call, count, target, threads)


def counted(
    call: Callable[[], object],
    repeats: int,
    target: Target,
    threads: int,
    opened: Callable[[int, int], counters.Counter] | None = None,
) -> dict[str, Any]:
    """``counted``: what the processor did in a call on average, or ``not_counted``: why that is not known.

    Args:
        call: What is counted.
        repeats: How often it is called.
        target: Has the caches.
        threads: Of the call: those that it shares its work with count for themselves.
        opened: Opens counters, where it is not the kernel.
    """
    if threads > 1:
        return {"not_counted": f"calls of one thread are counted, and this one has {threads}"}
    last = "L2" if target.l3 is None else "L3"
    given = {} if opened is None else {"opened": opened}
    try:
        return {"counted": asdict(counters.count(call, repeats, target.l1.line, last, vendor(), **given))}
    except TilewrightError as error:
        return {"not_counted": error.what}


def about(spec: Any, target: Target, plan: Plan, emulator: str = "") -> About:  # noqa: ANN401 - any
    """What kernels of the lab say of themselves."""
    facts = Metadata.of(
        target,
        schedule=plan.name,
        parameters={},
        threads=plan.threads,
        seconds={},
        compile_seconds=0.0,
        object_bytes=0,
        cached=False,
        emulator=emulator,
    )
    return About(spec, target, facts, {})
