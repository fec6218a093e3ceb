# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels for GPUs in the lab: products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewright.emit import child, gpu, gpu_problem, pipeline
from tilewright.emit.gpu_stages import GpuStages
from tilewright.emit.pipeline import Record
from tilewright.errors import SpecError
from tilewright.lab import gpu_view
from tilewright.lab.kind import Kind
from tilewright.schedules import make
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


class Gpu(Kind):
    """A product, a convolution or attention for a GPU, in its form for rows that start at multiples of 16 bytes."""

    def __init__(self, spec: Any, target: GpuTarget) -> None:  # noqa: ANN401 - what GPUs compute
        """Takes what is computed.

        Raises:
            SpecError: GPUs, or the lab, do not.
        """
        gpu_problem.check(spec, target)
        if isinstance(spec, MatmulSpec) and spec.has_rows:
            remedy = "See it with `tilewright explain`"
            raise SpecError(
                "whole rows on a GPU take two kernels, and the lab shows one", where=str(spec), remedy=remedy
            )
        self.spec, self.target = spec, target
        self._names = gpu_problem.able(spec, target)
        self.scheduled = gpu_problem.scheduled(spec, target)

    def own(self, strategy: str) -> tuple[str, Plan]:  # noqa: D102
        built = gpu.build(self.spec, self.target, strategy or self._names[0], {}, aligned=True)
        return built.texts.get("schedule", ""), Plan(built.strategy, built.sizes)

    def plan(self, name: str, text: str) -> Plan:  # noqa: D102
        sizes, _ = gpu_problem.planned(self.spec, self.target, self._names[0], {})
        return replace(make.of_text(name, text), parameters=sizes)

    def build(self, plan: Plan, tell: child.Tell, *, runs: bool = False) -> GpuStages:  # noqa: D102
        return self.form(plan, tell, until=None if runs else pipeline.code(self.target.family))

    def form(
        self, plan: Plan, tell: child.Tell, *, aligned: bool = True, boxed: bool = True, until: str | None = None
    ) -> GpuStages:
        """The kernel, for operands with aligned rows or for others, and such a result, up to a stage."""
        return gpu.compiled(self.spec, self.target, plan, aligned=aligned, boxed=boxed, until=until, started=tell)

    def emulated(self) -> Gpu:
        """The same where our emulator runs it; on a Vulkan device, the same."""
        return self if self.target.family == "vulkan" else Gpu(self.spec, self.target.emulated())

    def about(self, built: Record, knobs: Mapping[str, int]) -> dict[str, Any]:  # noqa: D102
        assert isinstance(built, GpuStages)
        spec, sizes = self.spec, built.parameters | dict(knobs)
        extents = (spec.m, spec.n, spec.k) if isinstance(spec, MatmulSpec) else (0, 0, 0)
        m, n, k = (each if isinstance(each, int) else 0 for each in extents)
        drawn = gpu_view.drawings((m, n, k), sizes, built.texts, built.boxes)
        block = {"threads": built.sizes.threads, "shared_bytes": built.shared_bytes}
        return super().about(built, knobs) | {"drawings": [gpu_view.svg([each]) for each in drawn], "block": block}
