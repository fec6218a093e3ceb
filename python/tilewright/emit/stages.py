# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of one compilation, from the payload to the object, as text and bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilewright.emit import STAGES, code, llvmir
from tilewright.errors import LoweringError
from tilewright.lowering import dispatch, driver
from tilewright.mlir import ir
from tilewright.payload import matmul
from tilewright.payload.abi import ENTRY
from tilewright.payload.packing import PackedFormat
from tilewright.schedules import calls
from tilewright.schedules.calls import Calls
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import nothing
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


@dataclass(slots=True)
class Stages:
    """The results of `build`.

    Attributes:
        spec: What is computed.
        target: For which target.
        plan: Under which schedule.
        texts: The text of each stage reached, in order.
        seconds: The time each stage took, in order.
        object: The ELF object; empty when `build` stopped before.
        workspace: Bytes of scratch memory that a call needs.
        packed: The format of B when it comes packed; otherwise None.
    """

    spec: MatmulSpec
    target: Target
    plan: Plan
    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    object: bytes = b""
    workspace: int = 0
    packed: PackedFormat | None = None


def build(
    spec: MatmulSpec,
    target: Target,
    plan: Plan,
    *,
    until: str = "obj",
    allocator: tuple[str, str] = driver.RUNTIME_ALLOCATOR,
    symbol: str = ENTRY,
    started: Callable[[str], object] = lambda stage: None,
) -> Stages:
    """Compiles `spec` under `plan` for `target`, which this machine need not be able to run.

    Args:
        spec: What to compute.
        target: For which target.
        plan: The schedule (`schedules.plan`).
        until: The last stage wanted: one of `STAGES`, or "obj".
        allocator: Where the kernel gets its workspace: `driver.RUNTIME_ALLOCATOR` or `driver.LIBC_ALLOCATOR`.
        symbol: The name of the C entry.
        started: Told the name of each stage as it starts.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed, or `until` is unknown.
    """
    if until not in (*STAGES, "obj"):
        raise LoweringError(f"unknown stage {until!r}", expected=f"one of {', '.join((*STAGES, 'obj'))}")
    stages = Stages(spec, target, plan)
    steps = _Steps(stages, until, started)
    context = ir.Context()
    plan = stages.plan = plan.read(spec, context)
    parts = [_Part(*each) for each in plan.kernels] or [_Part(spec, plan)]
    with context, ir.Location.unknown():
        with steps("payload"):
            for part in parts:
                part.module = matmul.build(part.spec, context)
            stages.texts["payload"] = _texts(part.module for part in parts)
        if steps.done:
            return stages
        with steps("schedule"):
            for number, part in enumerate(parts):
                part.schedule = part.plan.module(part.spec, target, context)
                if plan.cases and plan.text is None:
                    part.schedule = part.schedule or nothing()
                    extents = {name: getattr(part.spec, name) for name in ("m", "n", "k")}
                    calls.record(part.schedule, Calls(part.plan.threads, extents, plan.among(number)))
            stages.texts |= {"schedule": text} if (text := _texts(part.schedule for part in parts)) else {}
        if steps.done:
            return stages
        with steps("scheduled"):
            for part in parts:
                if part.schedule is not None:
                    driver.apply_schedule(part.module, part.schedule, part.spec, name=part.plan.name)
            stages.texts["scheduled"] = _texts(part.module for part in parts)
        if steps.done:
            return stages
        with steps("bufferized"):
            for part in parts:
                part.workspace, part.packed = driver.bufferize(part.module, part.spec, target, part.plan.threads)
            if len({part.packed for part in parts}) > 1:
                raise LoweringError("the cases pack B differently", stage="bufferized")
            stages.workspace, stages.packed = max(part.workspace for part in parts), parts[-1].packed
            stages.texts["bufferized"] = _texts(part.module for part in parts)
        if steps.done:
            return stages
        with steps("llvm"):
            for number, part in enumerate(parts):
                name = f"{symbol}_case{number}" if plan.cases else symbol
                part.module = driver.to_llvm(
                    part.module, part.spec, target, part.workspace, allocator, name, part.packed
                )
            module = parts[0].module
            if plan.cases:
                module = dispatch.join([part.module for part in parts], spec, plan, target, symbol)
            stages.texts["llvm"] = _texts([module])
        if steps.done:
            return stages
        with steps("llvmir"):
            raw = llvmir.translated(module.operation)
            stages.texts["llvmir"] = code.optimize(raw, target)
    if steps.done:
        return stages
    if until == "asm":
        with steps("asm"):
            stages.texts["asm"] = code.assembly(stages.texts["llvmir"], target)
        return stages
    with steps("obj"):
        stages.object = code.object_file(stages.texts["llvmir"], target)
    return stages


@dataclass(slots=True)
class _Part:
    """One function on its way: all of a static spec, or one case of a dynamic one."""

    spec: MatmulSpec
    plan: Plan
    module: ir.Module = field(init=False)
    schedule: ir.Module | None = None
    workspace: int = 0
    packed: PackedFormat | None = None


class _Steps:
    """Announces and times each stage, and knows when the last one wanted is done."""

    def __init__(self, stages: Stages, until: str, started: Callable[[str], object]) -> None:
        self._stages = stages
        self._until = until
        self._started = started
        self.done = False

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._started(name)
        start = time.perf_counter()
        yield
        self._stages.seconds[name] = time.perf_counter() - start
        self.done = name == self._until


def _texts(modules: Iterable[ir.Module | None]) -> str:
    """The modules as text, with what ``tilewright-opt --split-input-file`` takes between them."""
    return "// -----\n".join(f"{module}\n" for module in modules if module is not None)
