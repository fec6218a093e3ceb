# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a convolution, stage by stage: a product for each group, which packs patches of the images (implicit im2col)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tilewright.emit.built import Built
from tilewright.emit.module_stages import Builder, FunctionPart
from tilewright.emit.operator_function import OperatorFunction
from tilewright.emit.pipeline import Wanted
from tilewright.emit.product_part import CalledProduct
from tilewright.mlir import ir
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import conv2d, conv2d_products
from tilewright.schedules.operators import conv2d as model
from tilewright.schedules.operators import depthwise
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def planned(
    spec: Conv2dSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> tuple[MatmulSpec | Conv2dSpec, Plan]:
    """What the schedule is made for, the product of one group or a depthwise convolution, and the plan of our own schedule.

    Raises:
        ScheduleError: A parameter is unknown, or wrong.
    """
    if spec.is_depthwise:
        return spec, depthwise.plan(spec, target, parameters)
    product = conv2d_products.product(spec)
    return product, model.plan(spec, product, target, parameters, threads)


def build(spec: Conv2dSpec, target: Target, plan: Plan, wanted: Wanted) -> Built:
    """Compiles `spec`, as `emit.operators.compiled` says."""
    if spec.is_depthwise:
        payload, signature = partial(conv2d.build_depthwise, spec), lambda _: conv2d.signature(spec)
        return OperatorFunction(spec, target, plan, wanted, payload, signature).build()
    return _Products(spec, target, plan, wanted).build()


class _Products(Builder):
    """Runs the stages of `Builder` on the one function of a convolution, which calls a product."""

    def __init__(self, spec: Conv2dSpec, target: Target, plan: Plan, wanted: Wanted) -> None:
        title, source = str(spec), partial(_function, spec)
        super().__init__(source, target, plan.threads, wanted, lambda _: title, title=title)
        self._spec = spec
        self._plan = plan

    def plan(self, spec: MatmulSpec) -> Plan:
        """How the product is scheduled."""
        return self._plan.read(spec, self._context)

    def _product(self, spec: MatmulSpec, plan: Plan) -> CalledProduct:
        made = super()._product(spec, plan)
        conv2d.say_patches(self._spec, made.module)
        return made


def _function(spec: Conv2dSpec, context: ir.Context, specs: list[MatmulSpec]) -> list[FunctionPart]:
    """The function of the convolution, whose product is added to `specs`."""
    module, signature, product = conv2d.build(spec, context)
    specs.append(product)
    return [FunctionPart(module, signature)]
