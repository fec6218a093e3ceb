# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs products on this machine or in an emulator, and kernels for GPUs in ours, and checks their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.dims import least
from tilewright.emit import child
from tilewright.errors import SpecError
from tilewright.lab.cpu_product import Product
from tilewright.lab.gpu_kernel import Gpu
from tilewright.lab.verdict import SEED, about, timed, told, worst
from tilewright.payload.operators import error_bound, reference
from tilewright.payload.samples import values
from tilewright.runtime import load, runners
from tilewright.runtime.gpu import GpuKernel
from tilewright.runtime.kernel import Kernel
from tilewright.runtime.trial import Difference, Trial, calls
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec

_ELEMENTS = 1 << 22
"""Most elements of a result that are compared: the reference of more would take longer than all else."""
_ALIGNED, _OTHER = (130, 272, 112), (129, 271, 111)
"""The most extents of products in the emulator of GPUs: several tiles, the last ones not filled."""
_EMULATED = 1e8
"""The most operations of an operator there."""


def product(kind: Product, plan: Plan, tell: child.Tell) -> dict[str, Any]:
    """A product on this machine, or in an emulator of its processor."""
    built, spec, target = kind.build(plan, tell, runs=True), kind.scheduled, kind.target
    tell("call")
    who = runners.of(target).sharing(target, plan.threads).computing(spec, plan.name)
    if who.refusal is not None:
        raise who.refusal
    kernel = load.product(built.object, about(spec, target, plan), built.packed, who)
    found = worst([_checked(kernel, call) for call in calls(spec)], who.name or "this machine")
    if who.kind == "host" and not spec.open:
        types = spec.a_type.name, spec.b_type.name
        found |= timed(Trial.random(kernel, spec, SEED), target, types, plan.threads)
    return found


def gpu(kind: Gpu, plan: Plan, tell: child.Tell) -> dict[str, Any]:
    """A kernel for a GPU in the emulator, or on a Vulkan device: at extents that fill no tile, with aligned rows and with others."""
    emulated = kind.emulated()
    kernel = GpuKernel(*[lambda aligned, boxed: emulated.form(plan, tell, aligned=aligned, boxed=boxed)] * 2, own=True)
    if kernel.refusal is not None:
        raise kernel.refusal
    tell("call")
    runner = kernel.metadata.emulator or "the Vulkan device"
    spec = kind.spec
    if not isinstance(spec, MatmulSpec):
        if spec.flops > _EMULATED:
            remedy = "Choose smaller extents: the code is the same"
            raise SpecError(
                f"{spec} takes {spec.flops:.3g} operations", expected=f"at most {_EMULATED:g}", remedy=remedy
            )
        random = np.random.default_rng(SEED)
        operands = [values(random, each.shape, each.type) for each in spec.operands]
        difference = Difference.of(kernel(*operands), reference(spec, *operands), error_bound(spec, *operands))
        return worst([told(difference, str(spec))], runner)
    checked = []
    for extents in (_ALIGNED, _OTHER)[: len(kernel.alignments)]:
        m, n, k = (min(least(each), most) for each, most in zip((spec.m, spec.n, spec.k), extents, strict=True))
        call = replace(spec, m=m or extents[0], n=n or extents[1], k=k or extents[2])
        checked.append(_checked(kernel.called_as(call), call))
    return worst(checked, runner)


def _checked(kernel: Kernel, call: MatmulSpec) -> dict[str, Any]:
    """How far the result of one call is from the reference."""
    trial = Trial.random(kernel, call, SEED)
    trial()
    if trial.out.size > _ELEMENTS:
        return {"wrong": 0, "worst": 0.0, "elements": 0, "text": "too large to compare", "call": str(call)}
    return told(trial.difference(), str(call))
