# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a convolution, stage by stage: a product for each group, which packs patches of the images (implicit im2col)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from tilewright.codegen.convolution import in_place, patches
from tilewright.codegen.convolution.patch_layout import Patches
from tilewright.emit.modules import Builder, Built, FunctionPart, ProductPart
from tilewright.emit.operator_function import OperatorFunction
from tilewright.lowering import run
from tilewright.mlir import ir
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.payload import conv2d
from tilewright.schedules import conv2d as model
from tilewright.schedules import decisions, depthwise
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot


def planned(
    spec: Conv2dSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> tuple[MatmulSpec | Conv2dSpec, Plan]:
    """What the schedule is made for, the product of one group or a depthwise convolution, and the plan of our own schedule.

    Raises:
        ScheduleError: A parameter is unknown, or wrong.
    """
    if spec.is_depthwise:
        return spec, depthwise.plan(spec, target, parameters)
    product = conv2d.product(spec)
    return product, model.plan(spec, product, target, parameters, threads)


def build(
    spec: Conv2dSpec,
    target: Target,
    plan: Plan,
    *,
    until: str,
    allocator: tuple[str, str],
    symbol: str,
    started: Callable[[str], object],
) -> Built:
    """Compiles `spec`, as `emit.operators.compiled` says."""
    if spec.is_depthwise:
        payload, signature = partial(conv2d.build_depthwise, spec), lambda _: conv2d.signature(spec)
        return OperatorFunction(spec, target, plan, allocator, symbol, payload, signature).run(until, started)
    return _Products(spec, target, plan, allocator, symbol, started).run(until)


class _Products(Builder):
    """Runs the stages of `Builder` on the one function of a convolution, which calls a product."""

    def __init__(
        self,
        spec: Conv2dSpec,
        target: Target,
        plan: Plan,
        allocator: tuple[str, str],
        symbol: str,
        started: Callable[[str], object],
    ) -> None:
        title, source = str(spec), partial(_function, spec)
        super().__init__(source, target, plan.threads, allocator, started, lambda _: title, title=title, symbol=symbol)
        self._spec = spec
        self._plan = plan

    def plan(self, spec: MatmulSpec) -> Plan:
        """How the product is scheduled."""
        return self._plan.read(spec, self._context)

    def changed(self, product: ProductPart) -> None:
        """Lets the product read its patches from the images."""
        if self._spec.is_pointwise:
            if self._spec.layout == "nhwc" and self._spec.groups == 1:
                in_place.read(product.module, product.spec)
            return
        operand, images, dot = conv2d.patched_operand(self._spec), patches_of(self._spec), self._dot(product.spec)
        # Tile registers, and multiply-adds by lane, take loops over K of a known length.
        rows = decisions.strategy_size(run.payload_function(product.module, "bufferized").operation, "mr")
        tile = (rows, dot.step) if rows and dot.kind != "amx" and not self._target.by_lane else None
        patches.read(product.module, operand, images, len(product.spec.operands), tile)
        product.images = {operand: images.shape}

    def _dot(self, spec: MatmulSpec) -> Dot:
        return self._target.dot(spec.a_type.name, spec.b_type.name)


def _function(spec: Conv2dSpec, context: ir.Context, specs: list[MatmulSpec]) -> list[FunctionPart]:
    """The function of the convolution, whose product is added to `specs`."""
    module, signature, product = conv2d.build(spec, context)
    specs.append(product)
    return [FunctionPart(module, signature)]


def patches_of(spec: Conv2dSpec) -> Patches:
    """Where the patches of one group lie."""
    channels = spec.ic // spec.groups
    by_pixels = spec.layout == "nhwc"
    if by_pixels:
        shape = (spec.n, spec.h, spec.w, channels)
        pitches = (spec.h * spec.w * spec.ic, spec.w * spec.ic, spec.ic, 1)
    else:
        shape = (channels, spec.h, spec.w)
        pitches = (spec.ic * spec.h * spec.w, spec.w, 1, spec.h * spec.w)
    return Patches(
        shape=shape,
        pitches=pitches,
        extents=(spec.h, spec.w),
        results=(spec.oh, spec.ow),
        filter=(spec.kh, spec.kw),
        channels=channels,
        stride=spec.stride,
        dilation=spec.dilation,
        before=(spec.padding[0][0], spec.padding[1][0]),
        rows_are_pixels=by_pixels,
    )
