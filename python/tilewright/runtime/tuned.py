# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chooses as a measurement on this machine did, where there is one, proved once; otherwise as the model does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tilewright.errors import ScheduleError, WrongResultError, warn
from tilewright.payload.spec_tables import Spec
from tilewright.records import lookup
from tilewright.records.trial import RecordError, Trial
from tilewright.runtime import cache_key
from tilewright.runtime.cache_key import Compilation, Fetched
from tilewright.schedules import make, select
from tilewright.schedules.models.sizes import Blocking
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
    trial, by = winner(spec, target, threads, partial(make.make, spec, target, threads=threads))
    if trial is None:
        return Chosen(make.make(spec, target, threads=threads), by)
    try:
        plan = make.make(spec, target, trial.strategy, select.whole(trial.strategy, trial.sizes), threads)
    except ScheduleError as error:  # It is of a version that had other strategies.
        leave(spec, str(error))
        return Chosen(make.make(spec, target, threads=threads), MODEL)
    return Chosen(plan, by, trial)


def winner(spec: Spec, target: Target, threads: int, usual: Callable[[], Plan]) -> tuple[Trial | None, str]:
    """The last comparison on such a machine, if it was won, and who chooses; a damaged database is said, and left alone.

    What won over another choice than `usual` gives, the model's present one, says nothing of that: it is left alone too.
    """
    try:
        found = lookup.find(spec, target, threads)
    except RecordError as error:
        warn(f"measured choices are not used: {error}", RecordWarning)
        return None, MODEL
    if found is None or found.trial.verdict != "won":
        return None, MODEL if found is None else f"{MODEL}, as a comparison of {found.trial.moment[:10]} left it"
    if not _is_of(found.trial, usual()):
        return None, f"{MODEL}, which has changed since a comparison of {found.trial.moment[:10]}"
    return found.trial, str(found)


def _is_of(trial: Trial, plan: Plan) -> bool:
    """Whether a comparison was with the choice of a plan."""
    sizes, now = trial.model["sizes"], plan.parameters
    if trial.model["strategy"] != plan.name:
        return False
    if isinstance(now, Blocking):  # Those that are as usual are left out.
        return sizes == plan.sizes
    return all(getattr(now, name, None) == size for name, size in sizes.items())


def refusal(trial: Trial, what: Compilation | None, got: Fetched, verify: Callable[[], bool]) -> str | None:
    """Why a record is not to be used; None where it may be.

    It is one of another schedule, or its numbers are wrong. Right ones are noted beside the object, so that this is found out once.

    Args:
        trial: The record's comparison.
        what: The compilation of its choice.
        got: What came of that.
        verify: Compares its numbers with the reference: whether that was done.
    """
    if got.about["digest"] != trial.schedule:
        return STALE
    if got.about.get("verified"):
        return None
    try:
        if not verify():
            return "it could not be verified"
    except WrongResultError as error:
        return str(error)
    cache_key.note(what, got, verified=True)
    return None


def leave(spec: Spec, why: str) -> None:
    """Says that a record is not used; not of one that a later version merely cannot be held to."""
    if why != STALE:
        warn(f"a record of {spec} is not used: {why}", RecordWarning)
