# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the lab compiles: products and operators for processors and for GPUs, and modules, behind one interface."""

from __future__ import annotations

from tilewright.emit import pipeline
from tilewright.errors import SpecError
from tilewright.lab.cpu_product import Product
from tilewright.lab.functions import Module, Operator
from tilewright.lab.gpu_kernel import Gpu
from tilewright.lab.kind import Kind
from tilewright.lab.problem import Spec
from tilewright.operator_specs import OperatorSpec
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget


def of(spec: Spec, target: Target | GpuTarget, threads: int) -> Kind:
    """The compilation that is asked for.

    Raises:
        TilewrightError: There is none.
    """
    if isinstance(target, GpuTarget):
        if spec is None:
            raise SpecError(f"a module for {target.name}", expected="a processor's target")
        if threads > 1:
            raise SpecError(f"{threads} threads for {target.name}", expected="1: a GPU has its own")
        return Gpu(spec, target)
    if spec is None:
        return Module(target, threads)
    return Operator(spec, target, threads) if isinstance(spec, OperatorSpec) else Product(spec, target, threads)


def code_stage(target: Target | GpuTarget) -> str:
    """The last stage that is text, which is analyzed."""
    return pipeline.code(target.family if isinstance(target, GpuTarget) else "cpu")
