# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the plan of a compilation from what the user gave as `schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tilewright import text_files
from tilewright.errors import ScheduleError
from tilewright.payload.complex_products import computed
from tilewright.schedules import cases, select
from tilewright.schedules.models import emulated
from tilewright.schedules.models import threads as model
from tilewright.schedules.plan import Plan, Schedule, is_trivial
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def make(
    spec: MatmulSpec,
    target: Target,
    schedule: Schedule = None,
    parameters: Mapping[str, int] | None = None,
    threads: int = 1,
) -> Plan:
    """The plan for `spec` on `target`.

    Args:
        spec: What is computed.
        target: For which target.
        schedule: None to have a strategy chosen; a strategy's name; a function ``(spec, target, sizes)`` that
            returns a transform module; or a .py or .mlir file with one.
        parameters: Sizes that override the model's, by name ("mr", "nr", "mc", "nc", "kc"); a .mlir file takes none.
        threads: How many threads a call may use; the plan says how many it does.

    Raises:
        SpecError: `threads` is no number of threads.
        ScheduleError: The schedule is unknown, unreadable or of a wrong kind, or an override is wrong.
        TargetError: The target has no instruction for the pieces that the spec's `precision` wants.
    """
    emulated.check(spec, target)
    plan = _make(computed(spec), target, schedule, parameters, model.check(threads, "compile"))
    return replace(plan, sized_by_user=True) if parameters else plan


def _make(
    spec: MatmulSpec, target: Target, schedule: Schedule, parameters: Mapping[str, int] | None, threads: int
) -> Plan:
    """The plan, which does not say yet whether sizes are the user's."""
    if spec.dynamic and (schedule is None or (isinstance(schedule, str) and schedule in select.STRATEGIES)):
        return cases.plan(spec, target, schedule, parameters, threads)
    spec = cases.representative(spec, {})  # A schedule of the user's gets sizes for large extents.
    threads = model.used(spec, target, threads)
    if schedule is None:
        if is_trivial(spec):
            return Plan("trivial", None)
        choice = select.choose(spec, target, parameters, threads)
        select.check_sizes(choice.strategy, spec, target, parameters)
        return Plan(choice.strategy, choice.parameters, threads=choice.threads)
    if isinstance(schedule, str) and schedule in select.STRATEGIES:
        if is_trivial(spec):
            return Plan(schedule, None)
        choice = select.sized(schedule, spec, target, parameters, threads)
        select.check_sizes(schedule, spec, target, parameters)
        select.check_order(schedule, spec, target)
        return Plan(schedule, choice.parameters, threads=choice.threads)
    if spec.deterministic:
        raise ScheduleError(
            "the summation order of a user's schedule is unspecified",
            where="deterministic=True",
            expected=f"None, or a strategy: {', '.join(select.STRATEGIES)}",
        )
    if isinstance(schedule, str) and not is_file(schedule):
        select.row(schedule)  # raises: it is no strategy either
    return _called(own(schedule, parameters), spec, target, parameters, threads)


def _called(plan: Plan, spec: MatmulSpec, target: Target, parameters: Mapping[str, int] | None, threads: int) -> Plan:
    """A user's plan with its threads and, where it is a function's, the sizes that that is called with."""
    if plan.text is not None:
        return replace(plan, threads=threads)
    given = {"parts": 1, **(parameters or {})}  # Those of all of K.
    return replace(plan, parameters=select.choose(spec, target, given, threads).parameters, threads=threads)


def from_text(spec: MatmulSpec, target: Target, name: str, text: str, threads: int = 1) -> Plan:
    """As `make`, of a schedule whose text is at hand.

    Args:
        spec: What is computed.
        target: For which target.
        name: What errors call it; its suffix says whether it is Python or MLIR.
        text: The schedule.
        threads: As for `make`.

    Raises:
        SpecError: `threads` is no number of threads.
        ScheduleError: No strategy has sizes for such a product.
    """
    spec = cases.representative(computed(spec), {})
    threads = model.used(spec, target, model.check(threads, "compile"))
    return _called(of_text(name, text), spec, target, None, threads)


def is_file(schedule: Schedule) -> bool:
    """Whether a schedule is a file's, by its name."""
    return isinstance(schedule, str | Path) and Path(schedule).suffix in (".py", ".mlir")


def own(schedule: Schedule, parameters: Mapping[str, int] | None = None) -> Plan:
    """The plan of a schedule of the user's, a function or a file. A function's still lacks the sizes that it is called with.

    Raises:
        ScheduleError: It is neither, or cannot be read; or it is a .mlir file and there are `parameters`.
    """
    if callable(schedule):
        return Plan(getattr(schedule, "__qualname__", repr(schedule)), None, schedule, trusted=False)
    if is_file(schedule):
        plan = _from_file(Path(str(schedule)))
        if plan.text is not None and parameters:
            raise ScheduleError(
                f"a .mlir schedule takes no sizes, and {', '.join(parameters)} given",
                where=str(schedule),
                expected="its sizes in its text",
                remedy="Change the text, or write the schedule as a Python function, which is called with sizes",
            )
        return plan
    what = repr(schedule) if isinstance(schedule, str | Path) else type(schedule).__name__
    raise ScheduleError(f"schedule is a {what}", expected="a strategy's name, a function, or a .py or .mlir file")


def _from_file(path: Path) -> Plan:
    try:
        text = text_files.read(path)
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) else str(e)
        raise ScheduleError(f"cannot read the schedule: {reason}", where=str(path), expected="a text file") from None
    return of_text(str(path), text)


def of_text(name: str, text: str) -> Plan:
    """The plan of a user's schedule whose text is at hand; one in Python still lacks its sizes. The suffix of `name` is the language."""
    if name.endswith(".mlir"):
        return Plan(name, None, text=text, trusted=False)
    return Plan(name, None, source=text, trusted=False)
