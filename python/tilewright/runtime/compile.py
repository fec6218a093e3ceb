# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilation from a spec to a kernel that can be called, through the disk cache."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright import targets
from tilewright.emit.pipeline import CPU_TEXTS
from tilewright.errors import SpecError
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.abi import ENTRY
from tilewright.payload.packing import PackedFormat
from tilewright.runtime import cache_key, load, runners
from tilewright.runtime.cache_key import Compilation
from tilewright.runtime.kernel import About, Kernel, Metadata, StageTexts
from tilewright.runtime.linkable import Linkable
from tilewright.schedules import make
from tilewright.schedules.models.threads import check
from tilewright.schedules.plan import Plan, Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

if TYPE_CHECKING:
    from tilewright.emit.stages import Stages


def compile(
    spec: MatmulSpec | OperatorSpec,
    target: str | Target | GpuTarget = "host",
    threads: int = 1,
    schedule: Schedule = None,
    *,
    parameters: Mapping[str, int] | None = None,
    cache: bool = True,
    verify: bool = False,
) -> Kernel:
    """Compiles `spec` for a target, or takes it from the disk cache.

    Where neither this machine nor an emulator runs the target's code, calls of the kernel raise `NotRunnableError`, a TargetError; all
    else, such as `Kernel.write`, is as ever.

    Args:
        spec: What to compute: a product, or an operator built on it (`Conv2dSpec`, `AttentionSpec`).
        target: "host", a row's name, a Target, or a GpuTarget. `target.emulated` has an emulator run the kernel.
        threads: Most threads that a call uses, through LLVM's OpenMP runtime. A small product uses fewer, as
            `Kernel.metadata` says; and a call no more than OpenMP then grants its caller.
        schedule: None to have a strategy chosen; a strategy's name; a function ``(spec, target, sizes)`` that returns
            a transform module; or a .py or .mlir file. What a user gives is compiled in a child process.
        parameters: Sizes of the schedule that override the model's, by name ("mr", "nr", "mc", "nc", "kc"; a GPU's strategies have others).
        cache: Whether the disk cache is read and written.
        verify: Whether the kernel of a product is tried once on random operands before it is returned, in a child process, and
            compared with the reference: for schedules that may be wrong. Dynamic extents are then small; those of a GPU's kernel
            always are. What nothing here can run is not verified, as an `UnverifiedWarning` says.

    Raises:
        SpecError: `spec` is no spec, or an operator that is to be verified, or `threads` is no int from 1 to 1024.
        TilewrightError: Several threads are asked for, and there is no OpenMP runtime.
        TargetError: The target is unknown, or cannot be emulated.
        ScheduleError: The schedule is unknown or does not fit.
        WrongResultError: The kernel is verified, and computes wrong numbers, crashes, or does not end.
        LoweringError: A later stage failed.
    """
    start = time.perf_counter()
    if isinstance(spec, OperatorSpec):
        if verify:
            raise SpecError(
                f"verify=True for {spec.operator}", where="compile", expected="False: only products are verified"
            )
        from tilewright.runtime import operators

        return operators.compile(spec, target, threads, schedule, parameters=parameters, cache=cache)
    if not isinstance(spec, MatmulSpec):
        raise SpecError(f"spec is a {type(spec).__name__}", where="compile", expected="a tilewright.MatmulSpec")
    card = targets.gpu(target)
    if card is not None:
        return _for_gpu(spec, card, threads, schedule, parameters, cache, verify)
    row = targets.resolve(target)
    who = runners.of(row)
    plan = make.make(spec, row, schedule, parameters, threads)
    who = who.sharing(row, plan.threads).computing(spec, plan.name)

    def made() -> tuple[Stages, dict[str, Any]]:
        from tilewright.emit import spills

        built = build(spec, row, plan)
        packed = None if built.packed is None else built.packed.header.hex()
        about = {"spec": str(spec), "schedule": plan.name, "workspace": built.workspace, "spilled": spills.count(built)}
        return built, about | {"packed": packed}

    got = cache_key.fetch(_described(spec, row, plan) if cache else None, made, cache=cache)
    packed = PackedFormat.from_header(bytes.fromhex(got.about["packed"])) if got.about["packed"] else None
    if got.about["spilled"]:
        from tilewright.emit import spills

        spills.warn(got.about["spilled"], plan, row)
    facts = Metadata.of(
        row,
        schedule=plan.name,
        parameters=plan.sizes,
        threads=plan.threads,
        workspace_bytes=got.about["workspace"],
        emulator=who.name,
        **got.facts(start),
    )
    if verify:
        from tilewright.runtime import verification

        if who.refusal is not None:
            verification.warn(spec, who.refusal.what)
        else:
            verification.verify(got.record.object, spec, row, facts, packed, who)

    def text(stage: str) -> str:
        # A product without arithmetic has no schedule.
        return build(spec, row, plan, until=stage).texts.get(stage, "")

    about = About(spec, row, facts, StageTexts.made(CPU_TEXTS, text, got.record.texts), linkable(spec, row, plan).write)
    return load.product(got.record.object, about, packed, who)


def _for_gpu(
    spec: MatmulSpec,
    target: GpuTarget,
    threads: int,
    schedule: Schedule,
    parameters: Mapping[str, int] | None,
    cache: bool,
    verify: bool,
) -> Kernel:
    """The kernel of a product for a GPU."""
    from tilewright.runtime import gpu

    if check(threads, "compile") > 1:
        raise SpecError(f"{threads} threads for {target.name}", where="compile", expected="1: a GPU has its own")
    kernel = gpu.compile(spec, target, schedule, parameters, cache=cache)
    if verify:
        from tilewright.runtime import verification

        on_emulator = partial(gpu.compile, spec, target.emulated(), schedule, parameters, cache=cache)
        verification.verify_gpu(kernel, on_emulator)
    return kernel


def build(spec: MatmulSpec, target: Target, plan: Plan, **wanted: Any) -> Stages:  # noqa: ANN401 - fields of Wanted
    """Compiles `spec` under `plan` for any target; a user's schedule in a child process. `wanted` is as for `emit.stages.build`.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed, or MLIR crashed.
    """
    from tilewright.emit import isolated, stages

    return (stages if plan.trusted else isolated).build(spec, target, plan, **wanted)


def linkable(spec: MatmulSpec, target: Target, plan: Plan, name: str = ENTRY) -> Linkable:
    """How the kernel of a product is made as a file."""

    def built(until: str, symbol: str) -> Stages:
        from tilewright.emit import spills

        made = build(spec, target, plan, until=until, for_linking=True, symbol=symbol)
        spills.warn(spills.count(made), plan, target)
        return made

    def declared(symbol: str) -> str:
        from tilewright.emit.header import header

        return header(spec, target, symbol, threads=plan.threads)

    return Linkable(target, plan.threads, name, built, declared)


def _described(spec: MatmulSpec, target: Target, plan: Plan) -> Compilation | None:
    """What decides the object; None when that cannot be told without compiling, as for a user's Python function."""
    if plan.text is None and not plan.trusted:
        return None
    return Compilation(
        kind="product",
        problem=spec,
        target=target,
        schedule=plan.name if plan.text is None else None,
        own=plan.text,
        parameters=plan.sizes,
        threads=plan.threads,
        cases=plan.cases,
    )
