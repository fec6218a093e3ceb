# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of operators built on matmul, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from tilewright import targets
from tilewright.emit import operators
from tilewright.errors import ScheduleError, SpecError, TargetError
from tilewright.operator_specs import AttentionSpec, Conv2dSpec, OperatorSpec
from tilewright.records.trial import Trial
from tilewright.runtime import runners, tuned
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.compile_functions import MadeFunctions
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.schedules import make as plans
from tilewright.schedules.models.threads import check
from tilewright.schedules.plan import Plan, Schedule
from tilewright.targets import GpuTarget, Target


def compile(
    spec: OperatorSpec,
    target: str | Target | GpuTarget,
    threads: int,
    schedule: Schedule,
    *,
    parameters: Mapping[str, int] | None,
    cache: bool,
) -> Kernel:
    """As `tilewright.compile`, for the spec of an operator.

    Raises:
        SpecError: `threads` is no int from 1 to 1024.
        TargetError: The target is unknown, or a GPU for which the operator is not compiled, or cannot be emulated.
        ScheduleError: The schedule is unreadable or does not fit, or a parameter is unknown.
        LoweringError: A later stage failed.
    """
    start = time.perf_counter()
    card = targets.gpu(target)
    if card is not None:
        return _for_gpu(spec, card, threads, schedule, parameters, cache=cache)
    plan = None if schedule is None else _own(spec, schedule, parameters)
    row = targets.resolve(target)
    who = runners.of(row).sharing(row, check(threads, "compile"))
    is_known = plan is None or plan.text is not None  # What a function makes is not known without calling it.

    def made(sizes: Mapping[str, int], by: str) -> MadeFunctions:
        own = None if plan is None else plan.text
        return MadeFunctions(
            Compilation(kind="operator", problem=spec, target=row, own=own, parameters=sizes, threads=threads),
            row,
            who,
            partial(operators.build, spec, row, threads=threads, parameters=sizes, plan=plan),
            schedule=spec.operator if plan is None else plan.name,
            sizes=lambda signatures: {"products": signatures[0].products},
            cache=cache and is_known,
            start=start,
            chosen_by=by,
        )

    trial, by = _winner(spec, row, threads) if plan is None and not parameters else (None, tuned.CALLER)
    recorded = None if trial is None else _recorded(spec, trial, partial(made, by=by))
    if recorded is None:
        recorded = made(parameters or {}, by if trial is None else tuned.MODEL)
    return recorded.linked(OperatorKernel)[0][spec.operator]


def sizes(spec: OperatorSpec, target: Target, threads: int) -> dict[str, int]:
    """The sizes that a measurement on such a machine chose for `compile`, once they are proved right; empty where the model chooses.

    Raises:
        TilewrightError: As `compile` does.
    """
    trial, by = _winner(spec, target, threads)
    if trial is None:
        return {}
    made = compile(spec, target, threads, None, parameters=None, cache=True)
    return dict(trial.sizes) if made.metadata.chosen_by == by else {}


def _winner(spec: OperatorSpec, target: Target, threads: int) -> tuple[Trial | None, str]:
    """As `tuned.winner`."""
    return tuned.winner(spec, target, threads, lambda: operators.planned(spec, target, threads=threads)[1])


def _recorded(
    spec: OperatorSpec, trial: Trial, make: Callable[[Mapping[str, int]], MadeFunctions]
) -> MadeFunctions | None:
    """The operator in the sizes that won a comparison; None where these are not to be used."""
    try:
        made = make(trial.sizes)
        why = made.refusal(trial)
    except ScheduleError as error:  # It is of a version that had other sizes.
        made, why = None, str(error)
    if why is None:
        return made
    tuned.leave(spec, why)
    return None


def _own(spec: OperatorSpec, schedule: Schedule, parameters: Mapping[str, int] | None) -> Plan:
    """The plan of a schedule of the user's."""
    if isinstance(schedule, str) and not plans.is_file(schedule):
        raise ScheduleError(
            f"a schedule called {schedule!r} for {spec.operator}",
            expected="None, for the operator's own; a function ``(spec, target, sizes)``; or a .py or .mlir file",
        )
    return plans.own(schedule, parameters)


def _for_gpu(
    spec: OperatorSpec,
    target: GpuTarget,
    threads: int,
    schedule: Schedule,
    parameters: Mapping[str, int] | None,
    *,
    cache: bool,
) -> Kernel:
    """The kernel of an operator for a GPU."""
    if not isinstance(spec, Conv2dSpec | AttentionSpec):
        raise TargetError(f"{spec.operator} for {target.name}", where="compile", expected="a CPU's target")
    if check(threads, "compile") > 1:
        raise SpecError(f"{threads} threads for {target.name}", where="compile", expected="1: a GPU has its own")
    from tilewright.runtime import gpu

    return gpu.compile(spec, target, schedule, parameters, cache=cache)
