# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `depthwise`: a depthwise convolution in vectors of channels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.schedules import steps
from tilewright.schedules.decisions import Depthwise
from tilewright.schedules.models import space
from tilewright.schedules.models.sizes import ceil_div
from tilewright.schedules.models.space import Axis, Options
from tilewright.schedules.plan import Plan
from tilewright.schedules.steps import knobs
from tilewright.targets.base import Target

_NAMES = tuple(field.name for field in fields(Depthwise))
_OTHERS = 2
"""Registers beside sums and filters: what is read of an image, and what comes next."""
_MOST = 8
"""Pixels at most: as many sums as keep two multiply-adds of four cycles busy. More of them save little, and make much code."""
_VECTOR_CYCLES = 4.0
"""Of a vector of channels besides its multiply-adds, about: it only orders candidates."""


def plan(spec: Conv2dSpec, target: Target, parameters: Mapping[str, int]) -> Plan:
    """The plan of a depthwise convolution: vectors of the target and as many pixels as are fastest, where `parameters` say nothing.

    Raises:
        ScheduleError: A parameter is unknown, or no int above zero.
    """
    for name, size in parameters.items():
        if name not in _NAMES or isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ScheduleError(
                f"unknown parameter {name!r}" if name not in _NAMES else f"{name}={size!r}",
                where="schedule parameters",
                expected=f"{' or '.join(_NAMES)}, an int above zero",
            )
    sizes = Depthwise(parameters.get("channels", target.lanes(spec.product.acc_type)))
    pixels = parameters.get("pixels") or _fastest(spec, target, sizes).pixels
    return Plan(depthwise.__name__, replace(sizes, pixels=pixels), depthwise)


def _registers(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> int:
    """The registers of a vector."""
    return ceil_div(sizes.channels, target.lanes(spec.product.acc_type))


def _row_cycles(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> float:
    """Cycles of a row of the result for one row of the filter and one register of channels.

    A step is a row of the filter: what all its elements read of an image, each once, the elements, and a multiply-add for each element
    and pixel.
    """
    registers = _registers(spec, target, sizes)

    def step(pixels: int) -> float:
        read = (pixels - 1) * min(spec.stride[1], spec.kw) + spec.kw
        products = spec.kw * max(pixels / target.fma_per_cycle, target.fma_latency / registers)
        return max(products, (read + spec.kw) / target.loads_per_cycle)

    steps, rest = divmod(spec.ow, sizes.pixels)
    return steps * step(sizes.pixels) + (step(rest) if rest else 0.0)


def _fastest(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> Depthwise:
    """The sizes with so many pixels that the rows of the result take the fewest cycles, of those for whose sums there are registers.

    Registers hold the sums, a row of the filter, and what is read.
    """
    most = target.vector_registers // _registers(spec, target, sizes) - _OTHERS - spec.kw
    fitting = [replace(sizes, pixels=pixels) for pixels in range(1, max(1, min(most, spec.ow, _MOST)) + 1)]
    return min(fitting, key=lambda each: (_row_cycles(spec, target, each), ceil_div(spec.ow, each.pixels), each.pixels))


def depthwise(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> ir.Module:
    """Builds the schedule. It decides how many channels a vector has, and of how many pixels sums are in registers.

    `codegen.convolution` carries it out.

    Before: ``padded = pad(x)``, ``sums = padded * w``, ``y = epilogue(sums)`` (decided). After, once it is lowered, with the columns of
    the filter unrolled::

        for image, i, j in the result, j in steps of P:
          for c in 0..channels step L:
            acc = 0                                                (of P pixels)
            for u, v in the filter: acc += x[image, i·s + u·d - p, (j:j+P)·s + v·d - p, c:c+L] * w[u, v, c:c+L]
            y[image, i, j:j+P, c:c+L] = epilogue(acc)

    Upstream's ``tile_using_for`` and ``vectorize`` need the padded images in memory, where each element is written and read once more.
    """
    with steps.script() as script:
        result = steps.producer(steps.match(script.functions, "func.return"), 0)
        sums = steps.producer(result, 0) if spec.product.fused else result
        knobs.decide(sums, sizes, space.alone(AXES, spec, target, sizes))
    return script.module


def cycles(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> float:
    """What a pixel costs with such sizes, in cycles, about: it orders candidates, and is no time."""
    registers = _registers(spec, target, sizes)
    row = spec.kh * registers * _row_cycles(spec, target, sizes)
    return ceil_div(spec.oc, sizes.channels) * (row / spec.ow + _VECTOR_CYCLES)


def _channels(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> Options:
    lanes = target.lanes(spec.product.acc_type)
    return [(each,) for each in (lanes // 2, lanes, 2 * lanes, 4 * lanes) if 1 < each < 2 * spec.oc]


def _pixels(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> Options:
    best = _fastest(spec, target, sizes).pixels
    return [(each,) for each in range(1, best + 1) if each == best or best % each == 0 or spec.ow % each == 0]


AXES: tuple[Axis[Conv2dSpec, Target, Depthwise], ...] = (
    Axis(("channels",), _channels, _fastest),
    Axis(("pixels",), _pixels),
)
"""The axes of `depthwise`: with other channels come as many pixels as are fastest with them."""
