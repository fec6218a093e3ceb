# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation of operators built on matmul, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from tilewright import knobs, targets
from tilewright.emit import operators
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.errors import ScheduleError, TargetError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.signature import Signature
from tilewright.runtime import cache_key, load, runners
from tilewright.runtime.cache import KernelCache
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.linkable import of_functions
from tilewright.runtime.operator_kernel import OperatorKernel
from tilewright.schedules import make as plans
from tilewright.schedules.plan import Plan, Schedule
from tilewright.schedules.threads import check
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
        TargetError: The target is unknown or a GPU, or cannot be emulated.
        ScheduleError: The schedule is unreadable or does not fit, or a parameter is unknown.
        LoweringError: A later stage failed.
    """
    start = time.perf_counter()
    if targets.gpu(target) is not None:
        raise TargetError(f"{spec.operator} for {target}", where="compile", expected="a CPU's target")
    plan = None if schedule is None else _own(spec, schedule, parameters)
    row = targets.resolve(target)
    who = runners.of(row).sharing(row, check(threads, "compile"))
    make = partial(operators.build, spec, row, threads=threads, parameters=parameters, plan=plan)
    # What a function makes is not known without calling it.
    store = KernelCache.from_knobs(knobs.load()) if cache and (plan is None or plan.text is not None) else None
    own = None if plan is None else plan.text
    what = Compilation(kind="operator", problem=spec, target=row, own=own, parameters=parameters or {}, threads=threads)
    found = cache_key.find(store, what)
    if found is not None:
        signature, object_ = Signature.from_json(found.header["function"]), found.object
        seconds: Mapping[str, float] = {}
        texts: Mapping[str, str] = {}
    else:
        built = make()
        (signature,), object_, seconds, texts = built.functions, built.object, built.seconds, built.texts
        cache_key.keep(store, what, object_, {"function": signature.as_json()})
    facts = Metadata.of(
        row,
        schedule=spec.operator if plan is None else plan.name,
        parameters={"products": signature.products},
        threads=threads,
        seconds=seconds,
        compile_seconds=time.perf_counter() - start,
        object_bytes=len(object_),
        cached=found is not None,
        workspace_bytes=signature.workspace,
        emulator=who.name,
    )
    texts = StageTexts.made(CPU_TEXTS, lambda stage: make(until=stage).texts.get(stage, ""), texts)
    about = About(spec, row, facts, texts, of_functions(row, threads, make).write)
    return load.functions(object_, (signature,), about, who, OperatorKernel)[0]


def _own(spec: OperatorSpec, schedule: Schedule, parameters: Mapping[str, int] | None) -> Plan:
    """The plan of a schedule of the user's."""
    if isinstance(schedule, str) and not plans.is_file(schedule):
        raise ScheduleError(
            f"a schedule called {schedule!r} for {spec.operator}",
            expected="None, for the operator's own; a function ``(spec, target, sizes)``; or a .py or .mlir file",
        )
    return plans.own(schedule, parameters)
