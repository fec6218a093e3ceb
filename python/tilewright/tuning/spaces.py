# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search may try: for a product, for an operator, or for a schedule of the user's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tilewright.emit.operators import planned
from tilewright.errors import SpecError
from tilewright.payload.spec_tables import Spec
from tilewright.records.trial import Trial
from tilewright.runtime import operators, products
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import make
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import Target
from tilewright.tuning import candidates, operator_candidates, own
from tilewright.tuning.candidates import Space


def of(spec: Spec, target: Target, threads: int, schedule: Schedule, folder: Path) -> Space:
    """The space of our strategies, or of a user's schedule, whose variants are written to a folder.

    Raises:
        SpecError: Nothing of our schedule varies.
        ScheduleError: The user's does not fit, or leaves nothing open.
    """
    if schedule is not None:
        text, name = schedule_text(spec, target, threads, schedule), make.own(schedule).name
        one = partial(_compile, spec, target, threads, verify=isinstance(spec, MatmulSpec))
        return own.space(text, name, folder, one, _multiplied(spec, target, threads))
    ours = _ours(spec, target, threads)
    if not ours.ordered:
        raise SpecError(
            f"{ours.start.strategy} has no sizes that vary for {spec}",
            where="tune",
            expected="what packed, unpacked, streamed, inner_product, online_softmax or depthwise computes",
        )
    return ours


def schedule_text(spec: Spec, target: Target, threads: int, schedule: Schedule, won: Trial | None = None) -> str:
    """The text of a user's schedule, with the choices that won a search.

    Raises:
        ScheduleError: The schedule does not fit.
    """
    return own.chosen(_compile(spec, target, threads, schedule).asm["schedule"], won)


def _compile(spec: Spec, target: Target, threads: int, schedule: Schedule, *, verify: bool = False) -> Kernel:
    """The kernel under a user's schedule."""
    if isinstance(spec, MatmulSpec):
        return products.compile(spec, target, threads, schedule, parameters=None, cache=True, verify=verify)
    return operators.compile(spec, target, threads, schedule, parameters=None, cache=True)


def _multiplied(spec: Spec, target: Target, threads: int) -> tuple[str, str]:
    """The types of the elements that are multiplied, of an operator under our schedule."""
    if isinstance(spec, MatmulSpec):
        return spec.multiplied
    _, plan = planned(spec, target, threads=threads)
    return operator_candidates.multiplied(spec, plan.parameters)


def _ours(spec: Spec, target: Target, threads: int) -> Space:
    """Our strategies and their sizes."""
    if not isinstance(spec, MatmulSpec):
        return operator_candidates.of(spec, target, threads)
    return candidates.of(spec, target, make.make(spec, target, threads=threads), threads)
