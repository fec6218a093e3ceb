# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What running a kernel gave, as pages get it: the check of its numbers, and its time beside the machine's peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from tilewright.bench.peak import Peak
from tilewright.bench.timing import cores, median_of, pinned
from tilewright.errors import TilewrightError
from tilewright.runtime.kernel import About, Metadata
from tilewright.runtime.trial import Difference
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target

SEED = 0
"""Decides the operands."""
_SECONDS = 0.02
"""What a sample lasts at least; some are taken, in turn with the peak's."""


def told(difference: Difference, call: str) -> dict[str, Any]:
    """What the page shows of a check."""
    return {**asdict(difference), "text": "" if difference.right else str(difference), "call": call}


def worst(checked: Sequence[dict[str, Any]], runner: str) -> dict[str, Any]:
    """The check that is shown of several."""
    worst = max(checked, key=lambda each: (each["wrong"], each["worst"]))
    return {"runner": runner, "check": worst, "calls": len(checked)}


def timed(call: Callable[[], object], target: Target, types: tuple[str, str], threads: int) -> dict[str, Any]:
    """Seconds of a call, and its share of the peak of as many cores, where that can be measured."""
    try:
        chosen = cores(threads)
    except TilewrightError:
        seconds, count = median_of(call, 5, _SECONDS)
        return {"seconds": seconds, "repeats": count, "peak": None}
    with pinned(chosen):
        call()
        seconds, count = median_of(call, 5, _SECONDS)
        try:
            with closing(Peak(target, types, chosen)) as peak:
                rate = peak.sample(peak.calibrate(_SECONDS))
        except TilewrightError:
            rate = None
    return {"seconds": seconds, "repeats": count, "peak": rate}


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
