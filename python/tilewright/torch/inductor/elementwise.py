# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ATen ops are functions of one element, and what each computes in the terms of `tilewright.math`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright import math as tm
from tilewright.expressions import Traced

aten, prims = torch.ops.aten, torch.ops.prims

Number = Any
"""A traced element, or a number of Python."""


def _power(x: Number, exponent: Number) -> Number:
    """Powers that are products, roots and their reciprocals; None for others."""
    powers: dict[float, Callable[[], Number]] = {
        0.5: lambda: tm.sqrt(x),
        -0.5: lambda: 1.0 / tm.sqrt(x),
        -1: lambda: 1.0 / x,
        -2: lambda: 1.0 / (x * x),
        1: lambda: x,
        2: lambda: x * x,
        3: lambda: x * x * x,
        4: lambda: (x * x) * (x * x),
    }
    found = powers.get(exponent) if isinstance(exponent, int | float) else None
    return None if found is None else found()


def _clamp(x: Number, low: Number = None, high: Number = None) -> Number:
    x = x if low is None else tm.max(x, low)
    return x if high is None else tm.min(x, high)


def _gelu(x: Number, approximate: str = "none") -> Number:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + tm.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + tm.erf(x * math.sqrt(0.5)))


def _leaky(x: Number, slope: Number = 0.01) -> Number:
    return tm.where(x > 0, x, x * slope)


def _converted(x: Number, dtype: Any) -> Number:  # noqa: ANN401
    """To a truth value or from one; rounding to a float is left out, as Inductor leaves it out: results are more exact."""
    is_truth = isinstance(x, Traced) and x.truth
    if dtype == torch.bool:
        return x if is_truth else x != 0
    return tm.where(x, 1.0, 0.0) if is_truth else x


FUNCTIONS: Mapping[Any, Callable[..., Number]] = MappingProxyType(
    {
        aten.add.Tensor: lambda x, y, alpha=1: x + (y if alpha == 1 else y * alpha),
        aten.add.Scalar: lambda x, y, alpha=1: x + y * alpha,
        aten.sub.Tensor: lambda x, y, alpha=1: x - (y if alpha == 1 else y * alpha),
        aten.sub.Scalar: lambda x, y, alpha=1: x - y * alpha,
        aten.rsub.Scalar: lambda x, y, alpha=1: y - x * alpha,
        aten.mul.Tensor: lambda x, y: x * y,
        aten.mul.Scalar: lambda x, y: x * y,
        aten.div.Tensor: lambda x, y: x / y,
        aten.div.Scalar: lambda x, y: x / y,
        aten.neg.default: lambda x: -x,
        aten.abs.default: abs,
        aten.reciprocal.default: lambda x: 1.0 / x,
        aten.exp.default: tm.exp,
        aten.log.default: tm.log,
        aten.sqrt.default: tm.sqrt,
        aten.rsqrt.default: lambda x: 1.0 / tm.sqrt(x),
        aten.tanh.default: tm.tanh,
        aten.erf.default: tm.erf,
        aten.sigmoid.default: tm.sigmoid,
        aten.relu.default: lambda x: tm.max(x, 0.0),
        aten.gelu.default: _gelu,
        aten.silu.default: lambda x: x * tm.sigmoid(x),
        aten.leaky_relu.default: _leaky,
        aten.hardtanh.default: lambda x, low=-1.0, high=1.0: _clamp(x, low, high),
        aten.square.default: lambda x: x * x,
        aten.pow.Tensor_Scalar: _power,
        aten.maximum.default: tm.max,
        aten.minimum.default: tm.min,
        aten.clamp.default: _clamp,
        aten.clamp_min.default: lambda x, low: tm.max(x, low),
        aten.clamp_max.default: lambda x, high: tm.min(x, high),
        aten.where.self: tm.where,
        aten.gt.Scalar: lambda x, y: x > y,
        aten.ge.Scalar: lambda x, y: x >= y,
        aten.lt.Scalar: lambda x, y: x < y,
        aten.le.Scalar: lambda x, y: x <= y,
        aten.gt.Tensor: lambda x, y: x > y,
        aten.ge.Tensor: lambda x, y: x >= y,
        aten.lt.Tensor: lambda x, y: x < y,
        aten.le.Tensor: lambda x, y: x <= y,
        prims.convert_element_type.default: _converted,
        aten.clone.default: lambda x, memory_format=None: x,
        aten.alias.default: lambda x: x,
    }
)
"""By op, its function of traced elements and numbers; it returns None where it cannot."""

COPIES = (aten.clone.default, aten.alias.default)
CONVERSIONS = (prims.convert_element_type.default,)
VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.expand.default)
"""Ops that change a shape and no element."""
