# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search may try for an operator: its own schedule with other sizes."""

from __future__ import annotations

import heapq
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from tilewright.emit.operators import planned
from tilewright.operator_specs import Conv2dSpec, OperatorSpec
from tilewright.runtime import operators
from tilewright.runtime.kernel import Kernel
from tilewright.schedules.models import space
from tilewright.schedules.models.blocking import Blocking
from tilewright.schedules.operators import conv2d, varied
from tilewright.schedules.operators.varied import Varied
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.tuning import predict
from tilewright.tuning.candidates import MOST, MOST_POINTS, Candidate, Space, width


def of(spec: OperatorSpec, target: Target, threads: int) -> Space:
    """The sizes that the axes of the operator's schedule offer, from the model's on.

    A convolution that is computed as a product has the axes and the cost of the product's strategy.
    """
    problem, plan = planned(spec, target, threads=threads)
    usual: Any = plan.parameters
    found = _of_product(spec, plan) if isinstance(problem, MatmulSpec) else varied.of(usual)
    names = sorted({name for axis in found.axes for name in axis.sizes})

    def candidate(sizes: Any) -> Candidate:  # noqa: ANN401 - of the schedule
        said = sizes.by_name if isinstance(sizes, Blocking) else asdict(sizes)
        return Candidate.of(plan.name, {name: size for name, size in said.items() if name in names})

    def sizes_of(each: Candidate) -> Any:  # noqa: ANN401 - as above
        return replace(usual, **dict(each.sizes))

    def cost(each: Candidate) -> tuple[float, Any]:
        return found.cycles(problem, target, sizes_of(each)), each.sizes

    def near(each: Candidate) -> list[Candidate]:
        around = space.around(found.axes, problem, target, sizes_of(each))
        return sorted(dict.fromkeys(map(candidate, around)), key=cost)

    def compile_(each: Candidate) -> Kernel:
        return operators.compile(spec, target, threads, None, parameters=dict(each.sizes), cache=True)

    start = candidate(usual)
    points = islice(space.points(found.axes, problem, target, usual), MOST_POINTS)
    others = heapq.nsmallest(MOST, {candidate(each) for each in points} - {start}, key=cost)
    packed = isinstance(problem, MatmulSpec) and problem.b_packed

    def admits(each: Candidate) -> bool:
        return each.strategy == plan.name and {name for name, _ in each.sizes} <= set(names) and not packed

    return Space(start, others, near, width, compile_, multiplied(spec, usual), admits)


def _of_product(spec: OperatorSpec, plan: Plan) -> Varied:
    """What may vary of a convolution that is computed as a product."""
    assert isinstance(spec, Conv2dSpec), "other operators are computed as what they are"
    return Varied(
        conv2d.axes(spec, plan.name),
        lambda product, target, sizes: predict.cycles(product, target, plan.name, sizes),
    )


def multiplied(spec: OperatorSpec, sizes: Any) -> tuple[str, str]:  # noqa: ANN401 - of the schedule
    """The types of the elements that are multiplied."""
    if isinstance(spec, Conv2dSpec):
        return spec.product.a_type.name, spec.product.b_type.name
    return (sizes.multiplied,) * 2
