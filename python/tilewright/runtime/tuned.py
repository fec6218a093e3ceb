# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the plan of a product as a measurement on this machine chose it, where there is one; otherwise as the model does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.errors import ScheduleError, warn
from tilewright.records import lookup
from tilewright.records.trial import RecordError, Trial
from tilewright.schedules import make
from tilewright.schedules.plan import Plan, Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

MODEL, CALLER = "the model", "the caller"
STALE = "the strategy now makes another schedule of these sizes"
"""Why a record is left alone that a later version cannot be held to: it is not said, as nothing is wrong."""


class RecordWarning(UserWarning):
    """A record, or the database of records, is not used; the message says why."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A plan, and whose it is.

    Attributes:
        plan: The plan.
        by: Who chose it, as `Metadata.chosen_by` says it.
        trial: The comparison that the choice won; None for others.
    """

    plan: Plan
    by: str
    trial: Trial | None = None


def choose(
    spec: MatmulSpec,
    target: Target,
    schedule: Schedule = None,
    parameters: Mapping[str, int] | None = None,
    threads: int = 1,
) -> Chosen:
    """The plan for `spec`, as `make.make` makes it; where nothing is given, as the last comparison on such a machine was won.

    Raises:
        SpecError, ScheduleError: As `make.make` does.
    """
    if schedule is not None or parameters:
        return Chosen(make.make(spec, target, schedule, parameters, threads), CALLER)
    found = _found(spec, target, threads)
    if found is None or found.trial.verdict != "won":
        tied = "" if found is None else f", as a comparison of {found.trial.moment[:10]} left it"
        return Chosen(make.make(spec, target, threads=threads), f"{MODEL}{tied}")
    try:
        plan = make.make(spec, target, found.trial.strategy, found.trial.sizes, threads)
    except ScheduleError as error:  # It is of a version that had other strategies.
        warn(f"a record of {spec} is not used: {error}", RecordWarning)
        return Chosen(make.make(spec, target, threads=threads), MODEL)
    return Chosen(plan, str(found), found.trial)


def _found(spec: MatmulSpec, target: Target, threads: int) -> lookup.Found | None:
    """As `lookup.find`; a damaged database is said, and left alone."""
    try:
        return lookup.find(spec, target, threads)
    except RecordError as error:
        warn(f"measured choices are not used: {error}", RecordWarning)
        return None
