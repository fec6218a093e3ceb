# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles for GPUs: what is computed, and the kernels of a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilewright.codegen.gpu import whole_rows
from tilewright.codegen.gpu.strategies import CARRIERS
from tilewright.emit import isolated, pipeline
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
    """Compiles `spec` by a strategy, or under a schedule of the user's.

    The kernel of a product takes operands of any extents, whatever `spec` says of them; that of a convolution computes the product of
    one group. `parameters` are sizes that override the strategy's, or, of a user's schedule, those of the strategy that would be chosen,
    which it is given. `aligned` says that rows of A and B start at multiples of 16 bytes, `boxed` that those of C do.

    Raises:
        SpecError: The spec asks for what this release does not do on GPUs.
        ScheduleError: The strategy is unknown, does not do this product, or does not fit; or the schedule does not.
        LoweringError: A later stage failed.
    """
    check(spec, target)
    if isinstance(spec, MatmulSpec) and spec.has_rows:
        stages = build(spec.inner, target, schedule, parameters, aligned=aligned, boxed=boxed)
        stages.rows = _rows(spec, target)
        stages.texts |= {f"rows_{name}": text for name, text in stages.rows.texts.items()}
        return stages
    done = able(spec, target)
    if isinstance(schedule, Plan):
        plan = replace(schedule, parameters=planned(spec, target, done[0], parameters)[0])
        return isolated.build_gpu(spec, target, plan, scheduled(spec, target), aligned=aligned, boxed=boxed)
    if schedule not in done:
        raise ScheduleError(f"strategy {schedule!r} for {spec} on {target.name}", expected=f"one of {', '.join(done)}")
    _, make = planned(spec, target, schedule, parameters)
    return compiled(spec, target, schedule, lambda given, _: make(given), aligned=aligned, boxed=boxed)


def compiled(
    spec: Computed,
    target: GpuTarget,
    name: str,
    make: Callable[[Any, ir.Context], ir.Module | None],
    *,
    aligned: bool,
    boxed: bool,
    started: Callable[[str], object] = lambda stage: None,
) -> GpuStages:
    """Compiles `spec`, in this process, under the schedule called `name` that `make` makes. What it has decided is in `sizes`.

    `started` is told the name of each stage.

    Raises:
        ScheduleError: The schedule does not fit; the error names its file and line.
        LoweringError: A later stage failed.
    """
    operator = None if isinstance(spec, MatmulSpec) else spec
    stages = GpuStages(spec=launched(spec), target=target, strategy=name, operator=operator)
    with ir.Context() as context, ir.Location.unknown():
        _run(code_of(stages, context, make, aligned=aligned, boxed=boxed), stages, started)
    return stages


def _rows(spec: MatmulSpec, target: GpuTarget) -> GpuStages:
    """The kernel for the rows of a product, behind that of the product."""
    stages = GpuStages(spec=RowPass(spec), target=target, strategy="rows", sizes=whole_rows.sizes(spec))
    with ir.Context() as context, ir.Location.unknown():
        _run(GpuRows(stages, context), stages)
    return stages


def _run(kernel: GpuCode, stages: GpuStages, started: Callable[[str], object] = lambda stage: None) -> None:
    """Runs all stages of a kernel's family."""
    family = stages.target.family
    title = f"{stages.operator or stages.spec} {stages.target.name}"
    pipeline.run(kernel, family, until=pipeline.FAMILIES[family][-1], record=stages, title=title, started=started)
