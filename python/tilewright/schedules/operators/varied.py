# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What of an operator's own schedule may vary, for a tuner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.schedules.decisions import Depthwise, OnlineSoftmax
from tilewright.schedules.models.space import Axis
from tilewright.schedules.operators import attention_space, depthwise
from tilewright.targets.base import Target


@dataclass(frozen=True, slots=True)
class Varied:
    """The sizes of a schedule that may vary.

    Attributes:
        axes: What they may be.
        cycles: What they cost, about.
    """

    axes: Sequence[Axis[Any, Any, Any]]
    cycles: Callable[[Any, Target, Any], float]


_VARIED: Mapping[type[Any], Varied] = MappingProxyType(
    {
        OnlineSoftmax: Varied(attention_space.AXES, attention_space.cycles),
        Depthwise: Varied(depthwise.AXES, depthwise.cycles),
    }
)
"""By the class of the sizes. Convolutions that are products have those of the product's strategy (`conv2d.axes`)."""


def of(sizes: object) -> Varied:
    """What may vary of an operator that has such sizes."""
    return _VARIED[type(sizes)]
