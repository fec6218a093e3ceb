# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles for GPUs: what is computed, and the kernels of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilewright.codegen.gpu import whole_rows
from tilewright.codegen.gpu.strategies import CARRIERS
from tilewright.emit import child, isolated, pipeline
from tilewright.emit.gpu_kernel import GpuCode, GpuRows
from tilewright.emit.gpu_problem import able, check, code_of, planned, scheduled
from tilewright.emit.gpu_stages import Computed, GpuStages, launched
from tilewright.emit.ptxas import Assembled, assemble, tool
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.payload.row_pass import RowPass
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

__all__ = ["CARRIERS", "Assembled", "GpuStages", "able", "assemble", "build", "check", "compiled", "tool"]


def build(
    spec: Computed,
    target: GpuTarget,
    schedule: str | Plan,
    parameters: Mapping[str, int],
    *,
    aligned: bool = False,
    boxed: bool = True,
) -> GpuStages:
    """Compiles `spec` by a strategy, or under a schedule of the user's, which runs in a child process, as a user's list of passes does.

    The kernel of a product takes operands of any extents, whatever `spec` says of them; that of a convolution computes the product of
    one group. `parameters` are sizes that override the strategy's, or, of a user's schedule, those of the strategy that would be chosen,
    which it is given. `aligned` says that rows of A and B start at multiples of 16 bytes, `boxed` that those of C do.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        ScheduleError: The strategy is unknown, does not do this product, or does not fit; or the schedule does not.
        LoweringError: A later stage failed.
    """
    check(spec, target)
    first = _first(spec)
    check(first, target)
    done = able(first, target)
    if isinstance(schedule, Plan):
        plan = replace(schedule, parameters=planned(first, target, done[0], parameters)[0])
    elif schedule in done:
        plan = Plan(schedule, dict(parameters))
    else:
        raise ScheduleError(f"strategy {schedule!r} for {first} on {target.name}", expected=f"one of {', '.join(done)}")
    if child.is_needed(plan):
        return isolated.build_gpu(spec, target, plan, scheduled(first, target), aligned=aligned, boxed=boxed)
    return compiled(spec, target, plan, aligned=aligned, boxed=boxed)


def compiled(
    spec: Computed,
    target: GpuTarget,
    plan: Plan,
    *,
    aligned: bool,
    boxed: bool,
    until: str | None = None,
    started: Callable[[str], object] = lambda stage: None,
) -> GpuStages:
    """Compiles `spec`, in this process, under a plan: of a strategy, with sizes that override its own by name, or of a user's schedule.

    What the schedule has decided is in `sizes`. `until` is the last stage that is wanted; None is the family's last. `started` is told
    the name of each stage.

    Raises:
        ScheduleError: The schedule does not fit; the error names its file and line.
        LoweringError: A later stage failed.
    """
    first, operator = _first(spec), None if isinstance(spec, MatmulSpec) else spec
    stages = GpuStages(spec=launched(first), target=target, strategy=plan.name, operator=operator)
    make = _maker(first, target, plan)
    with ir.Context() as context, ir.Location.unknown():
        _run(code_of(stages, context, make, aligned=aligned, boxed=boxed), stages, until, started)
    if isinstance(spec, MatmulSpec) and spec.has_rows:
        stages.rows = _rows(spec, target, until, started)
        stages.texts |= {f"rows_{name}": text for name, text in stages.rows.texts.items()}
    return stages


def _first(spec: Computed) -> Computed:
    """What the first kernel of a call computes: of a product whose epilogue has a row entry, what comes before that."""
    return spec.inner if isinstance(spec, MatmulSpec) and spec.has_rows else spec


def _maker(spec: Computed, target: GpuTarget, plan: Plan) -> Callable[[Any, ir.Context], ir.Module | None]:
    """Makes the schedule of a plan for what it is given."""
    if not plan.trusted:
        return lambda given, context: plan.module(given, target, context)
    sizes: Any = plan.parameters
    _, make = planned(spec, target, plan.name, sizes)
    return lambda given, _: make(given)


def _rows(spec: MatmulSpec, target: GpuTarget, until: str | None, started: Callable[[str], object]) -> GpuStages:
    """The kernel for the rows of a product, behind that of the product."""
    stages = GpuStages(spec=RowPass(spec), target=target, strategy="rows", sizes=whole_rows.sizes(spec))
    with ir.Context() as context, ir.Location.unknown():
        _run(GpuRows(stages, context), stages, until, started)
    return stages


def _run(kernel: GpuCode, stages: GpuStages, until: str | None, started: Callable[[str], object]) -> None:
    """Runs the stages of a kernel's family, up to the one that is wanted."""
    family = stages.target.family
    title = f"{stages.operator or stages.spec} {stages.target.name}"
    until = until or pipeline.FAMILIES[family][-1]
    pipeline.run(kernel, family, until=until, record=stages, title=title, started=started)
