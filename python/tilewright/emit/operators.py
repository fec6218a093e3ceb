# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles operators: each by a module here that is called as it is, with two functions.

- ``planned(spec, target, parameters, threads)`` returns what the operator's schedule is made for, a spec, and the plan of our own schedule.
- ``build(spec, target, plan, wanted)`` compiles the operator under a plan, as `compiled` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.emit import child, pipeline
from tilewright.emit.pipeline import Wanted
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.emit.built import Built


def build(
    spec: OperatorSpec,
    target: Target,
    *,
    threads: int = 1,
    parameters: Mapping[str, int] | None = None,
    plan: Plan | None = None,
    **wanted: Any,  # noqa: ANN401 - fields of Wanted
) -> Built:
    """Compiles `spec` for `target`, which this machine need not be able to run; a user's schedule or passes run in a child.

    Args:
        spec: What to compute.
        target: For which target.
        threads: Most threads that a call uses.
        parameters: Sizes of the schedule that override the model's, by name.
        plan: The user's schedule; None for ours.
        **wanted: Fields of `pipeline.Wanted`.

    Returns:
        The stages reached, of one function whose name is the operator's.

    Raises:
        TargetError: The operator cannot be computed on the target.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed, or the last one is unknown.
    """
    pipeline.check(Wanted(**wanted).until)
    problem, own = planned(spec, target, parameters, threads)
    given = own
    if plan is not None:
        sizes, used = (None, threads) if plan.text is not None else (own.parameters, own.threads)
        given = replace(plan, parameters=sizes, threads=used)
    if not child.is_needed(given):
        return compiled(spec, target, given, **wanted)
    from tilewright.emit import isolated

    return isolated.build_operator(spec, target, given, problem, **wanted)


def planned(
    spec: OperatorSpec, target: Target, parameters: Mapping[str, int] | None = None, threads: int = 1
) -> tuple[OperatorSpec | MatmulSpec, Plan]:
    """What schedules of an operator are made for, and the plan of our own one; the arguments and errors are those of `build`."""
    return _builder(spec).planned(spec, target, dict(parameters or {}), threads)


def compiled(spec: OperatorSpec, target: Target, plan: Plan, **wanted: Any) -> Built:  # noqa: ANN401 - fields of Wanted
    """Compiles `spec` under `plan`, in this process; the rest is as for `build`."""
    return _builder(spec).build(spec, target, plan, Wanted(**wanted))


def _builder(spec: OperatorSpec) -> ModuleType:
    """The module that compiles the operator."""
    return import_module(f"tilewright.emit.{spec.operator}")
