# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Says what can be compiled for a GPU, and by which strategies: products, convolutions, which are computed as products, and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.codegen.gpu import open_sizes, strategies
from tilewright.emit.gpu_attention import GpuAttention
from tilewright.emit.gpu_kernel import GpuCode
from tilewright.emit.gpu_payload import Forms, scattered
from tilewright.emit.gpu_product import GpuProduct
from tilewright.emit.gpu_stages import Computed, GpuStages
from tilewright.errors import SpecError
from tilewright.lowering.types import double_functions
from tilewright.mlir import ir
from tilewright.operator_specs import AttentionSpec, OperatorSpec
from tilewright.payload.attention_pass import AttentionPass
from tilewright.payload.conv2d_products import of_launch
from tilewright.schedules.gpu import shared_softmax, warp_group_softmax
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


@dataclass(frozen=True, slots=True)
class _Attention:
    """A strategy for attention.

    Attributes:
        does: Whether it computes a spec on a target.
        sizes: Its sizes, of which some are given by name.
        schedule: The schedule, from a spec, a target and sizes.
    """

    does: Callable[[AttentionSpec, GpuTarget], bool]
    sizes: Callable[[AttentionSpec, GpuTarget, Mapping[str, Any]], Any]
    schedule: Callable[[AttentionSpec, GpuTarget, Any], ir.Module]


_ATTENTION: Mapping[str, _Attention] = MappingProxyType(
    {
        "warp_group_softmax": _Attention(
            warp_group_softmax.does, warp_group_softmax.sizes, warp_group_softmax.warp_group_softmax
        ),
        "shared_softmax": _Attention(lambda spec, target: True, shared_softmax.sizes, shared_softmax.shared_softmax),
    }
)
"""What carries out each of `ATTENTION_STRATEGIES`."""


def able(spec: Computed, target: GpuTarget) -> list[str]:
    """The strategies that compute `spec` on a target, the best one first."""
    if isinstance(spec, AttentionSpec):
        return [name for name, row in _ATTENTION.items() if row.does(spec, target)]
    if isinstance(spec, MatmulSpec):
        return strategies.able(spec, target)
    return strategies.able(of_launch(spec), target, scattered=scattered(spec))


def planned(
    spec: Computed, target: GpuTarget, name: str, parameters: Mapping[str, int]
) -> tuple[Any, Callable[[Any], ir.Module]]:
    """The sizes of a strategy, of which `parameters` override some, and what makes its schedule.

    Raises:
        ScheduleError: A parameter is unknown, or sizes do not fit.
    """
    if isinstance(spec, AttentionSpec):
        made = _ATTENTION[name].sizes(spec, target, parameters)
        return made, lambda given: _ATTENTION[name].schedule(given, target, made)
    row, product = strategies.CARRIERS[name], spec if isinstance(spec, MatmulSpec) else of_launch(spec)
    sizes = row.sizes(product, target, parameters)
    return sizes, lambda given: row.schedule(given, sizes, open_sizes.options(name, product, target, sizes))


def scheduled(spec: Computed, target: GpuTarget) -> MatmulSpec | AttentionSpec:
    """What a schedule is made for."""
    if isinstance(spec, AttentionSpec):
        return spec
    return Forms(spec if isinstance(spec, MatmulSpec) else of_launch(spec), target).scheduled


def code_of(
    stages: GpuStages,
    context: ir.Context,
    make: Callable[[Any, ir.Context], ir.Module | None],
    *,
    aligned: bool,
    boxed: bool,
) -> GpuCode:
    """The kernel of a record on its way, under the schedule that `make` makes."""
    if isinstance(stages.spec, AttentionPass):
        return GpuAttention(stages, context, make, aligned=aligned, boxed=boxed)
    return GpuProduct(stages, context, make, aligned=aligned, boxed=boxed)


def check(spec: Computed, target: GpuTarget) -> None:
    """Raises `SpecError` for what this release does not do on a GPU."""
    types = {each.type.name for each in (*spec.operands, spec.result)}
    if target.types is not None and not types <= target.types:
        raise SpecError(
            f"elements of {', '.join(sorted(types - target.types))} on {target.name} are not supported yet",
            where=str(spec),
            expected=", ".join(sorted(target.types)),
        )
    if isinstance(spec, OperatorSpec):
        if not isinstance(spec, AttentionSpec):
            check(of_launch(spec), target)
        return
    if spec.a_stored.part is not None:
        remedy = "Multiply real matrices of the parts there, or compile for a processor"
        raise SpecError(
            "complex numbers on a GPU are not supported", where=str(spec), expected="real ones", remedy=remedy
        )
    if spec.a_type.is_wide:
        raise SpecError(
            f"A of {spec.a} on a GPU is not supported",
            where=str(spec),
            expected="8-bit integers or floats",
            remedy="Compile for a processor",
        )
    if target.least_bits > 8 and double_functions.of(spec):
        expected = "those of f32, or a target with integers of 64 bits"
        raise SpecError(f"functions of f64 on {target.name} are not supported yet", where=str(spec), expected=expected)
    if spec.split:
        remedy = "Compile for a processor, or let tensor cores truncate elements: tf32=True"
        what = f"precision {spec.precision} on a GPU is not supported"
        raise SpecError(what, where=str(spec), expected="None", remedy=remedy)
    if spec.b_packed:  # Of a convolution: its filters.
        remedy = "Let calls take B as it is stored: blocks bring tiles of it to shared memory in their own order"
        raise SpecError("b_packed on a GPU is not supported", where=str(spec), expected="b_packed=False", remedy=remedy)
