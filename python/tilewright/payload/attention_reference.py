# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The NumPy reference of attention in float64, and its error bound.

A kernel's result is a mean Σ ŵ_j·v_j / Σ ŵ_j, with weights ŵ_j = w_j·(1 + θ_j) where the exact ones add up to 1. In θ_j are

- the error of the score, of natural units: |scale|·γ_D(u)·Σ|q||k|, and roundings of it, of the mask and of the difference from
  the maximum, each of u = 2**-24 of their magnitude (N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2002, 3.1);
- the error of the power of two (`attention_numbers.EXP2_ERROR`), once for the weight, and once each time that a later key has a
  larger score, as earlier sums are multiplied by a power then;
- above the fraction line, where elements may be multiplied as bf16, 2**-8 for the rounding of the weight; as f16, 2**-11, and for
  weights below its normal numbers half of the smallest number that it has.

With T_j ≥ |θ_j|, the sums' own γ_N, and η for the rounding of weights:

    |computed − exact| ≤ (Σ w_j·|v_j|·((1 + T_j)(1 + η)(1 + γ_N) − 1) + |exact|·(Σ w_j·T_j + γ_N)) / (1 − Σ w_j·T_j − γ_N)

and, as it is a mean, never more than twice the largest |v_j| (and their roundings). The result's own rounding is added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import dtype
from tilewright.errors import OperandError
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention_entries as tables
from tilewright.payload.attention_numbers import DEGREE, EXP2_ERROR
from tilewright.payload.rounding import gamma, limits, overflow

_U = 2.0**-24
_TINY = 2.0**-126
_ROUNDINGS = 8
"""Roundings of a score, of the scale, of the factor in the exponent and of the difference: each of u of one of them."""

Doubles = NDArray[np.float64]


def known(spec: AttentionSpec, *operands: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """The result, and how far from it a right kernel's may be.

    That is inf where nothing is promised: where a score that is seen, or a value, is NaN or Inf, or would overflow f32.

    Raises:
        OperandError: The operands disagree in a dynamic extent, or tables do not fit.
    """
    _check(spec, *operands)
    if spec.is_ragged:
        return _of_entries(spec, *operands)
    q, k, v, *mask = operands
    shape = (*q.shape[:-1], v.shape[-1])
    result, bound = np.zeros(shape), np.zeros(shape)
    if not result.size:
        return result, bound
    added = _added(spec, mask[0] if mask else None, q.shape[-2], k.shape[-2])
    for place in np.ndindex(*shape[:-2]):
        shared = (*place[:-1], place[-1] // spec.group)
        own = np.broadcast_to(added, (*shape[:-1], k.shape[-2]))[place]
        result[place], bound[place] = _head(spec, q[place], k[shared], v[shared], own)
    return result, bound


def _check(spec: AttentionSpec, *arrays: NDArray[Any]) -> None:
    seen: dict[str, int] = {}
    for operand, array in zip(spec.operands, arrays, strict=True):
        for name, size in zip(operand.names, array.shape, strict=True):
            if name in ("m", "n") and seen.setdefault(name, size) != size:
                raise OperandError(
                    f"has {size} {'queries' if name == 'm' else 'keys'}", operand=operand.name, expected=f"{seen[name]}"
                )
    tables.check(spec, arrays)


def _of_entries(spec: AttentionSpec, *operands: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """The same for entries of different lengths; zeros, and no promise, for rows of no sequence."""
    q, k, v = operands[:3]
    shape = (*q.shape[:-1], v.shape[-1])
    result, bound = np.zeros(shape), np.full(shape, np.inf if spec.packed else 0.0)
    for entry in tables.entries(spec, operands):
        own, keys, values = q[entry.queries], entry.keys_of(k), entry.keys_of(v)
        if not own.size and not values.size:
            continue
        added = _added(spec, None, own.shape[-2], keys.shape[-2])
        for head in range(spec.heads):
            shared = head // spec.group
            place = (*entry.queries[: len(spec.batch)], head, entry.queries[-1])
            result[place], bound[place] = _head(spec, own[head], keys[shared], values[shared], added)
    return result, bound


def _added(spec: AttentionSpec, mask: NDArray[Any] | None, queries: int, keys: int) -> Doubles:
    """The numbers added to the scores: the mask, and -Inf for masked keys."""
    added = np.zeros((queries, keys))
    if mask is not None:
        wide = np.where(mask != 0, 0.0, -np.inf) if spec.mask == "u8" else mask.astype(np.float64)
        for axis, at in (("b", 0), ("h", len(spec.batch)), ("m", len(spec.batch) + 1)):
            missing = axis not in spec.mask_axes
            wide = np.expand_dims(wide, tuple(range(len(spec.batch))) if axis == "b" else at) if missing else wide
        added = added + wide
    if spec.causal:
        later = keys - queries if spec.causal == "lower_right" else 0
        added = np.where(np.arange(keys) <= np.arange(queries)[:, None] + later, added, -np.inf)
    return added


def _head(
    spec: AttentionSpec, q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], added: Doubles
) -> tuple[Doubles, Doubles]:
    """The same of one head."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    with np.errstate(all="ignore"):
        products = q @ k.T
        scores = np.where(np.isneginf(added), -np.inf, products * spec.scale + added)
        largest = scores.max(axis=1, initial=-np.inf, keepdims=True)
        some = np.isfinite(largest)
        away = np.where(some, scores - largest, -np.inf)
        weights = np.exp(away)
        total = weights.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, weights / np.where(total > 0, total, 1.0), 0.0)
        result = weights @ v
        bound = _bound(spec, (q, k, v), added, away, weights, result)
        wrong = ~np.isfinite(np.abs(q) @ np.abs(k).T) | (np.abs(q) @ np.abs(k).T > overflow(dtype("f32")))
        wrong |= np.isnan(scores) | np.isposinf(scores)
        bad = (wrong & ~np.isneginf(added)).any(axis=1) | ~np.isfinite(v).all()
        bound[bad] = np.inf
        out = dtype(spec.out)
        bound = np.where(np.abs(result) + bound >= overflow(out), np.inf, bound)
    return np.where(np.isneginf(added).all(axis=1, keepdims=True) & ~bad[:, None], 0.0, result), bound


def _bound(
    spec: AttentionSpec,
    given: tuple[Doubles, Doubles, Doubles],
    added: Doubles,
    away: Doubles,
    weights: Doubles,
    result: Doubles,
) -> Doubles:
    """The bound of the module, for one head."""
    (q, k, v), keys, scale = given, len(given[1]), abs(spec.scale)
    sizes = np.abs(q) @ np.abs(k).T
    products = q @ k.T * spec.scale
    seen = np.isfinite(added)
    magnitudes = np.abs(products) + np.where(seen, np.abs(added), 0.0)
    spread = np.where(np.isfinite(away), -away, 0.0)
    score = scale * (gamma(spec.head, _U) * sizes + _flushed(q, k)) + _ROUNDINGS * _U * (magnitudes + spread)
    pairs = spec.q == "bf16" and not {"f32", "f16"} & {spec.k, spec.v}
    power = EXP2_ERROR[DEGREE["bf16" if pairs else "f32"]]
    rescaled = _later_maxima(away)
    largest = score.max(axis=1, initial=0.0, keepdims=True)  # The maximum is of scores with errors, too.
    weight = np.expm1(score + np.where(rescaled > 0, largest * _U, 0.0) + (1 + rescaled) * (power + _ROUNDINGS * _U))
    sums = gamma(keys + 2 * int(rescaled.max(initial=0)) + 4, _U)
    halves = spec.q == "f16" and not {"f32", "bf16"} & {spec.k, spec.v}
    rounded = 2.0**-8 if pairs else 2.0**-11 if halves else 0.0
    lost = keys * 2.0**-25 if halves else 0.0
    above = (weights * ((1 + weight) * (1 + rounded) * (1 + sums) - 1)) @ np.abs(v)
    below = (weights * weight).sum(axis=1, keepdims=True) + sums
    mean = (above + np.abs(result) * below) / np.where(below < 1, 1 - below, 1e-300)
    most = np.abs(v).max(axis=0, initial=0.0) * np.ones_like(result)
    out = dtype(spec.out)
    off = (
        np.fmin(mean, 2 * most * (1 + rounded + 4 * sums))
        + (keys * _TINY * 4 + lost) * (1 + most)
        + 4 * _U * np.abs(result)
    )
    subnormal = float(limits(out).smallest_subnormal)
    return off + (0.0 if spec.out == "f32" else (np.abs(result) + off) * (out.roundoff or 0.0)) + 2 * subnormal


def _later_maxima(away: Doubles) -> Doubles:
    """How often the running maximum grows after each key, at most: a block's maximum is that of its keys."""
    before = np.maximum.accumulate(away, axis=1)
    grows = np.zeros(away.shape)
    grows[:, 1:] = before[:, 1:] > before[:, :-1]
    return grows.sum(axis=1, keepdims=True) - np.cumsum(grows, axis=1) + 1


def _flushed(q: Doubles, k: Doubles) -> Doubles:
    """The error of instructions that flush subnormal numbers to zero."""
    tiny_q, tiny_k = (np.where(np.abs(each) < _TINY, np.abs(each), 0.0) for each in (q, k))
    return tiny_q @ np.abs(k).T + np.abs(q) @ tiny_k.T + (2 * q.shape[1] + 2) * _TINY
