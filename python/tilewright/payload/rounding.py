# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Error bounds of rounding, overflow and underflow, for numbers of a type and for sums of their products.

bf16 dot-product instructions (VDPBF16PS, TDPBF16PS: Intel SDM, volume 2) flush subnormal inputs and results to zero, whatever
the processor's mode. Therefore, where A is narrower than the accumulator, the bound
has three more terms, with t = 2**-126, the smallest normal number of both bf16 and f32:

- the sum of |a||b| over the products of which a factor is below t: such a product may be missing;
- 2·K·t: each of K products and K sums may become zero when it is below t;
- 2·t: so may the former C when it is read, and the result when it is rounded to bf16 (VCVTNEPS2BF16).

Where f32 is computed from pieces of bf16 (`tilewright.precision`), each piece is such a factor: an element loses up to t for each of them.

No f16 is that small, and its sums are multiples of 2**-48, so for f16 none of this matters.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import DType, to_numpy
from tilewright.spec import MatmulSpec


def gamma(n: int, u: float) -> float:
    """γ_n(u), the factor of n roundings; inf when they can amount to all of it."""
    return n * u / (1 - n * u) if n * u < 1 else float("inf")


def roundoff(element: DType) -> float:
    """Unit roundoff of a type; integers do not round."""
    return element.roundoff or 0.0


def limits(element: DType) -> Any:  # noqa: ANN401 - ml_dtypes' class is none of numpy's
    """The largest and smallest numbers of a floating-point type."""
    if element.numpy_module is None:
        return np.finfo(to_numpy(element))
    return import_module(element.numpy_module).finfo(to_numpy(element))


def shortened(spec: MatmulSpec) -> float:
    """The relative error, as a factor of |A||B|, of what elements lose before they are multiplied.

    TF32 truncates each to 10 bits of mantissa; pieces of bf16 may leave some of it out.
    """
    if spec.split:
        return spec.split.lost
    lost = 2.0**-10 if spec.tf32 else 0.0
    return 2 * lost + lost**2


def flushes(spec: MatmulSpec) -> bool:
    """Whether dot products of a narrow type may take subnormal numbers for zero."""
    return spec.widens or spec.split is not None


def overflow(element: DType) -> float:
    """The smallest magnitude that is rounded to no number: half a unit in the last place above the largest, which a tie is if even."""
    largest, u = float(limits(element).max), roundoff(element)
    step = 2.0 ** np.floor(np.log2(largest)) * 2 * u
    tie = largest + step / 2
    return float(np.nextafter(tie, np.inf)) if largest / step % 2 == 0 else tie


def beyond(element: DType) -> float:
    """What such a magnitude becomes: Inf; NaN of types without."""
    return float("nan") if element.finite else float("inf")


def magnitudes(x: NDArray[Any]) -> NDArray[np.float64]:
    """|X| in float64."""
    return np.abs(x.astype(np.float64))


def flushed(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """The error of flushing subnormal numbers to zero, as the module says."""
    tiny = float(np.finfo(to_numpy(spec.acc_type)).tiny)
    products = spec.split.products if spec.split else 1
    lost = np.full(spec.c_shape, (2 * products * spec.k + 2) * tiny)
    a_size, b_size = magnitudes(a), magnitudes(b)
    if spec.split:
        # Each piece of an element may be lost, and is multiplied by no more than the other element's pieces together.
        each = spec.split.pieces * tiny * spec.split.spread
        return lost + each * (a_size.sum(-1, keepdims=True) + b_size.sum(-2, keepdims=True))
    a_tiny, b_tiny = (np.where(size < tiny, size, 0.0) for size in (a_size, b_size))
    if a_tiny.any() or b_tiny.any():
        lost += a_tiny @ b_size + (a_size - a_tiny) @ b_tiny
    return lost


def infinite_times_tiny(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Where an Inf is multiplied by a number that a dot instruction may take for zero."""
    met = np.zeros(spec.c_shape, bool)
    if not flushes(spec):
        return met
    tiny = float(np.finfo(to_numpy(spec.acc_type)).tiny)
    a_size, b_size = magnitudes(a), magnitudes(b)
    for x, y in (
        (np.isinf(a_size), (b_size > 0) & (b_size < tiny)),
        ((a_size > 0) & (a_size < tiny), np.isinf(b_size)),
    ):
        if x.any() and y.any():
            met |= x.astype(np.float64) @ y.astype(np.float64) > 0
    return met
