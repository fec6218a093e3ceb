# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference of a complex product, out of that of the real one, and how far a right kernel may be from it.

With |x| for the sum of the magnitudes of both parts of x, and γ and u as in `reference`, each part of a result is as close as

    γ_{2K+8}(u)·(|alpha||A||B| + |beta||C|)   (+ a smallest subnormal for each product)

where alpha or beta is a factor; without, the bounds are those of the real product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype, to_numpy
from tilewright.payload.rounding import gamma, roundoff
from tilewright.scaling import ARG, ROLES
from tilewright.spec import MatmulSpec

_ROUNDINGS = 8
"""Those of both factors, and of a last sum."""
_U64 = 2.0**-53

Real = Callable[[MatmulSpec, NDArray[Any], NDArray[Any]], NDArray[Any]]
"""The reference, or the bound, of a real product."""


def value(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], scalars: list[NDArray[Any]], c: NDArray[Any] | None, real: Real
) -> NDArray[np.complex128]:
    """alpha·A·B + beta·C of matrices that are not transposed, given the reference of real products."""
    alpha, beta = _factors(spec, scalars)
    with np.errstate(all="ignore"):
        total = np.zeros(spec.c_shape, np.complex128)
        if alpha:
            sums = real(_of_parts(spec), *_matrices(spec, a, b)).view(np.complex128)
            total = sums if alpha == 1 else alpha * sums
        if c is None or not beta:
            return total
        former = c.astype(np.complex128)
        return total + (former if beta == 1 else beta * former)


def bound(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], scalars: list[NDArray[Any]], c: NDArray[Any] | None, real: Real
) -> NDArray[np.float64]:
    """How far each part of a right result may be from that of `value`, given the bound of real products."""
    alpha, beta = _factors(spec, scalars)
    if alpha == 1 and not beta:
        return real(_of_parts(spec), *_matrices(spec, a, b)).reshape(*spec.c_shape, 2).max(-1, initial=0.0)
    if alpha == 0 and beta in (0, 1):
        return np.zeros(spec.c_shape)
    with np.errstate(all="ignore"):
        magnitude = np.zeros(spec.c_shape)
        if alpha:
            magnitude += _size(np.asarray(alpha)) * (_size(a) @ _size(b))
        if c is not None and beta:
            magnitude += _size(np.asarray(beta)) * _size(c)
        part = dtype(str(spec.a_stored.part))
        terms, limits = 2 * spec.k + _ROUNDINGS, np.finfo(to_numpy(part))
        found = (gamma(terms, roundoff(part)) + gamma(terms, _U64)) * magnitude
        found += terms * (1 + _size(np.asarray(alpha))) * float(limits.smallest_subnormal)
        # Also for NaN, which no rule makes of the same numbers whatever the order of multiplications.
        found[~(magnitude <= float(limits.max) / 2)] = np.inf
    return found


def parts(x: NDArray[Any]) -> NDArray[Any]:
    """Complex numbers as pairs of real ones, along a last axis; others as they are."""
    if not np.iscomplexobj(x):
        return x
    return np.stack([np.real(x), np.imag(x)], axis=-1)


def _factors(spec: MatmulSpec, scalars: list[NDArray[Any]]) -> tuple[complex, complex]:
    """The factors of a call."""
    given = iter(scalars)
    alpha, beta = (complex(next(given) if each == ARG else each) for each in (getattr(spec, role) for role in ROLES))
    return alpha, beta


def _of_parts(spec: MatmulSpec) -> MatmulSpec:
    """The product of `_matrices`."""
    own: dict[str, Any] = {"batch": spec.batch, "a_batch": spec.a_batch, "b_batch": spec.b_batch}
    return MatmulSpec(spec.m, 2 * spec.n, 2 * spec.k, a=str(spec.a_stored.part), **own)


def _matrices(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A and B, conjugated where that is asked for, as matrices of real numbers.

    A row of A holds all parts, and B has [[re, im], [-im, re]] for each element.
    """
    real = to_numpy(dtype(str(spec.a_stored.part)))
    a, b = (each.conj() if how == "c" else each for each, how in zip((a, b), spec.layout, strict=True))
    blocks = np.stack([np.stack([np.real(b), np.imag(b)], -1), np.stack([-np.imag(b), np.real(b)], -1)], axis=-3)
    blocks = blocks.reshape(*b.shape[:-2], 2 * spec.k, 2 * spec.n)
    return np.ascontiguousarray(a).view(real), np.ascontiguousarray(blocks)


def _size(x: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of the magnitudes of both parts."""
    return np.abs(np.real(x)).astype(np.float64) + np.abs(np.imag(x)).astype(np.float64)
