# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The NumPy reference of row entries (softmax and row reductions), with error bounds.

A sum of n numbers in any order is off by γ_{n-1}·Σ|x|, and by what its terms are. Of softmax, p = exp(z) / Σ exp(z) with
z = x - max, it does not matter how far off the largest number is, because it is taken off all alike. What matters is how far
off x is and how z is rounded, δ = e + u·|z|, which makes of exp(z) at most exp(z)·exp(δ), and 3 units of exp's own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.payload.propagation import ROUNDINGS, Known
from tilewright.payload.rounding import gamma, limits, overflow, roundoff

_U64 = 2.0**-53
_I32 = 2**31


def apply(form: str, x: Known, element: str) -> Known:
    """Applies `form` to rows of numbers of type `element`: i32, f32 or f64."""
    with np.errstate(all="ignore"):
        return {"softmax": _softmax, "row_sum": _sum, "row_max": _max}[form](x, element)


def _max(x: Known, element: str) -> Known:
    if not x.value.shape[-1]:  # The number than which none is less.
        least = np.int64(-_I32) if element == "i32" else -np.inf
        return Known(np.full(x.value.shape[:-1], least), np.zeros(x.value.shape[:-1]))
    return Known(x.value.max(-1), np.where(np.isnan(x.error), 0.0, x.error).max(-1))


def _sum(x: Known, element: str) -> Known:
    value, error = x.value.sum(-1), x.error.sum(-1)
    if element == "i32":
        wraps = (np.abs(value) + error >= _I32) & (error > 0)
        return Known((value + _I32) % 2**32 - _I32, np.where(wraps, np.inf, error))
    n, row = x.value.shape[-1], dtype(element)
    magnitude = np.abs(x.value).sum(-1) + error
    error = error + (gamma(n, roundoff(row)) + gamma(n, _U64)) * magnitude
    wild = np.isinf(x.error).any(-1) | (np.isfinite(x.value).all(-1) & (magnitude + error >= overflow(row)))
    return Known(value, np.where(wild, np.inf, np.where(np.isfinite(value), error, 0.0)))


def _softmax(x: Known, element: str) -> Known:
    if 0 in x.value.shape:
        return x
    row = dtype(element)
    u = roundoff(row) + 4 * _U64
    largest = x.value.max(-1, keepdims=True)
    z = x.value.astype(np.float64) - largest
    parts = np.exp(z)
    p = parts / parts.sum(-1, keepdims=True)
    off = np.where(np.isfinite(x.error), x.error, 0.0)
    reach = off + u * (np.where(np.isfinite(z), np.abs(z), 0.0) + off + off.max(-1, keepdims=True))
    relative = np.expm1(np.minimum(reach, 700.0)) + (ROUNDINGS["exp"] + 1) * u * np.exp(np.minimum(reach, 700.0))
    whole = (p * relative).sum(-1, keepdims=True) + gamma(z.shape[-1], u)
    # An exp that is subnormal, or taken for zero, is off by that much; the largest one is 1.
    tiny = float(limits(row).smallest_normal)
    most = p * ((1 + relative) * (1 + 4 * u) / (1 - whole) - 1) + (2 + z.shape[-1] * p) * tiny
    # A part of the whole is never more than all of it.
    bound: NDArray[np.float64] = np.where((whole < 1) & (most < 1), most, 1 + 4 * u)
    wild = np.isinf(x.error).any(-1, keepdims=True)
    return Known(p, np.where(wild, np.inf, np.where(np.isnan(p), 0.0, bound)))
