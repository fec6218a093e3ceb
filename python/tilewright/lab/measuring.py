# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls a kernel on random operands: compares its numbers with the reference, and times it beside the machine's peak."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

from tilewright.bench.peak import Peak
from tilewright.bench.timing import cores, median_of, pinned
from tilewright.emit.stages import Stages
from tilewright.errors import TilewrightError
from tilewright.runtime import load, runners
from tilewright.runtime.kernel import About, Kernel, Metadata
from tilewright.runtime.trial import Trial, calls
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SEED = 0
_ELEMENTS = 1 << 22
"""Most elements of a result that are compared: the reference of more would take longer than all else."""
_SECONDS = 0.02
"""What a sample lasts at least; some are taken, in turn with the peak's."""


def measured(built: Stages, spec: MatmulSpec, target: Target, plan: Plan) -> dict[str, Any]:
    """The numbers' check and, where this machine runs it, the time.

    Raises:
        TilewrightError: Nothing here runs it.
    """
    who = runners.of(target).sharing(target, plan.threads).computing(spec, plan.name)
    if who.refusal is not None:
        raise who.refusal
    facts = Metadata(
        target.name, target.triple, target.feature_string, plan.name, {}, plan.threads, {}, 0.0, 0, False, ""
    )
    kernel = load.product(built.object, About(spec, target, facts, {}), built.packed, who)
    checked = [_checked(kernel, call) for call in calls(spec)]
    worst = max(checked, key=lambda each: (each["wrong"], each["worst"]))
    found: dict[str, Any] = {"runner": who.name or "this machine", "check": worst, "calls": len(checked)}
    if who.kind == "host" and not spec.open:
        found |= _timed(kernel, spec, target, plan.threads)
    return found


def _checked(kernel: Kernel, call: MatmulSpec) -> dict[str, Any]:
    """How far the result of one call is from the reference."""
    trial = Trial.random(kernel, call, _SEED)
    trial()
    if trial.out.size > _ELEMENTS:
        return {"wrong": 0, "worst": 0.0, "elements": 0, "text": "too large to compare", "call": str(call)}
    found = trial.difference()
    return {**asdict(found), "text": "" if found.right else str(found), "call": str(call)}


def _timed(kernel: Kernel, spec: MatmulSpec, target: Target, threads: int) -> dict[str, Any]:
    """Seconds of a call, and its share of the peak of as many cores, where that can be measured."""
    trial = Trial.random(kernel, spec, _SEED)
    try:
        chosen = cores(threads)
    except TilewrightError:
        seconds, count = median_of(trial, 5, _SECONDS)
        return {"seconds": seconds, "repeats": count, "peak": None}
    with pinned(chosen):
        trial()
        seconds, count = median_of(trial, 5, _SECONDS)
        try:
            with closing(Peak(target, (spec.a_type.name, spec.b_type.name), chosen)) as peak:
                rate = peak.sample(peak.calibrate(_SECONDS))
        except TilewrightError:
            rate = None
    return {"seconds": seconds, "repeats": count, "peak": rate}
