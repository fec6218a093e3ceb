# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `depthwise`: a depthwise convolution in vectors of channels."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.operator_specs.conv2d import Conv2dSpec
from tilewright.schedules import steps
from tilewright.schedules.decisions import Depthwise
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target


def plan(spec: Conv2dSpec, target: Target, parameters: Mapping[str, int]) -> Plan:
    """The plan of a depthwise convolution, whose vectors are the target's unless `parameters` say how many "channels" they have.

    Raises:
        ScheduleError: A parameter is unknown, or no int above zero.
    """
    sizes = {"channels": target.lanes(spec.product.acc_type), **parameters}
    for name, size in sizes.items():
        if name != "channels" or isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ScheduleError(
                f"unknown parameter {name!r}" if name != "channels" else f"channels={size!r}",
                where="schedule parameters",
                expected="channels, an int above zero",
            )
    return Plan(depthwise.__name__, Depthwise(**sizes), depthwise)


def depthwise(spec: Conv2dSpec, target: Target, sizes: Depthwise) -> ir.Module:
    """Builds the schedule. It decides how many channels a vector has; `codegen.convolution` carries it out.

    Before: ``padded = pad(x)``, ``sums = padded * w``, ``y = epilogue(sums)`` (decided). After, once it is lowered, with the loops over
    the filter unrolled::

        for image, i, j in the result:
          for c in 0..channels step L:
            acc = 0
            for u, v in the filter: acc += x[image, i·s + u·d - p, j·s + v·d - p, c:c+L] * w[u, v, c:c+L]
            y[image, i, j, c:c+L] = epilogue(acc)

    Upstream's ``tile_using_for`` and ``vectorize`` need the padded images in memory, where each element is written and read once more.
    """
    with steps.script() as script:
        result = steps.producer(steps.match(script.functions, "func.return"), 0)
        steps.decide(steps.producer(result, 0) if spec.product.fused else result, sizes)
    return script.module
