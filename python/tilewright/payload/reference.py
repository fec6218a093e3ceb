# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The NumPy reference of a product, and how far a right kernel may be from it.

Integers are exact. For floats the bounds are the standard ones for sums of products in any order, fused or not: N. J. Higham,
"Accuracy and Stability of Numerical Algorithms", 2nd edition, 2002, section 3.5 and, for underflow, section 2.8. With
γ_n(u) = n·u/(1 − n·u), u the unit roundoff of the accumulator:

    |computed − exact| ≤ γ_K(u)·|A||B|   (+ a smallest subnormal for each product, as it may underflow)

With beta 1 the former C is one more term: γ_{K+1}(u)·(|A||B| + |C|). Where C is narrower than the accumulator, the sum is
rounded once more: by half a unit in the last place of C, u(C)·|sum|.

Of f32 from pieces (`tilewright.precision`), the sum has a term for each product of pieces, whose magnitudes are together a little more
than that of the product, and those that are left out are an error of their own.

Where elements of A may be rounded to integers in groups, their errors are those that prologues' results have (`multiplied`).

`rounding` has the further errors of dot-product instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.dtypes import stored_numpy, to_numpy
from tilewright.entries import Operand
from tilewright.errors import OperandError
from tilewright.nibbles import unpack_nibbles
from tilewright.payload import complex_reference, multiplied, propagation
from tilewright.payload.calls import of_call
from tilewright.payload.complex_products import is_complex
from tilewright.payload.complex_reference import parts
from tilewright.payload.fused import finish
from tilewright.payload.propagation import Known
from tilewright.payload.rounding import (
    beyond,
    flushed,
    flushes,
    gamma,
    infinite_times_tiny,
    limits,
    magnitudes,
    overflow,
    roundoff,
    shortened,
)
from tilewright.precision import ROUNDED
from tilewright.spec import MatmulSpec

_U64 = 2.0**-53
_U_LONG = float(np.finfo(np.longdouble).eps) / 2
# Problems of at most this many products are summed in long double throughout: up to a tenth of a second.
_SMALL = 2**24
# Into how many sums in float64 a larger reference is split.
_SUMS = 16


def reference(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], *further: NDArray[Any] | None, c: NDArray[Any] | None = None
) -> NDArray[Any]:
    """alpha·A·B + beta·C, more accurate than any kernel of `spec` may be, as float64, or as int64 where it is exact.

    How far it can be from the exact result, elementwise, with beta 0; with beta 1 the former C is one more term:

    - i32: not at all. A sum that overflows wraps around, modulo 2**32, as hardware does. It can from K = 33026 on for u8×u8,
      65794 for u8×i8 and 131072 for i8×i8.
    - f32, and f16 and bf16 summed in f32: γ_K(2**-53)·|A||B|, as their products are exact in float64.
    - f64: up to 2**24 products, everything is summed in ``np.longdouble`` and rounded to float64 once:
      γ_K(2**-64)·|A||B| + 2**-53·|A·B| with x86's. Above that, it is 16 partial sums in float64 that are added up so:
      16 times closer, γ_(K/16)(2**-53)·|A||B| + 2**-53·|A·B|, than a kernel that sums in float64, and nearly as fast.
      (Where long double is float64, on some systems, both are no better than γ_K(2**-53)·|A||B|.)

    It is not rounded to C's type, but infinite (f8E4M3FN: NaN) where C, being narrower than the accumulator, cannot hold it.

    Other factors than 0 and 1, and an epilogue, are computed in float64 on that, integers as integers (`propagation`).

    NaN and Inf in A or B follow IEEE 754: Inf·0 and Inf − Inf are NaN, and each stays in its row or column of C. With
    K = 0 the result is all zeros, with beta 1 the former C.

    Args:
        spec: What to compute.
        a: A, of the spec's `a_shape` and type, in any memory order.
        b: B, of the spec's `b_shape` and type, in any memory order.
        *further: The operands of the epilogue (`MatmulSpec.further`), as calls take them, then the factors that calls tell
            (`MatmulSpec.scalars`), as arrays or numbers, and after them `c`.
        c: With beta other than 0, and only then, the former C, of the spec's `c_shape` and type, in any memory order.

    Returns:
        The new C, of the spec's `c_shape`, in row-major order.

    Raises:
        OperandError: A shape or an element type is not that of the spec, or C is missing or not wanted.
    """
    operands, c = _split(spec, further, c)
    spec = of_call(spec, (a, b, *operands), c)
    _check(spec, a, b, operands, c)
    if is_complex(spec):
        return complex_reference.value(spec, *_straight(spec, a, b), operands, c, reference)
    if spec.a_type.is_wide:
        return _last_bits(spec, *_straight(spec, a, b), c)
    a, b, *operands = _elements(spec, a, b, *operands)
    if spec.has_entries:
        return _fused(spec, a, b, operands, c).value
    a, b = _straight(spec, a, b)
    total = _sums(spec, a, b, c)
    if spec.acc_type.kind != "float":
        # Exact in float64, which has 53 bits: there are less than 2**31 products of 16 bits, and C of 32.
        return total.astype(np.int64).astype(np.int32).astype(np.int64)
    if spec.c != spec.acc:
        total[np.abs(total) >= overflow(spec.c_type)] *= beyond(spec.c_type)
    return total


def _last_bits(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any] | None) -> NDArray[Any]:
    """The last bits of sums of wide integers, as int64: there they are summed modulo 2⁶⁴, and cut."""
    total = np.matmul(a.astype(np.int64), b.astype(np.int64))
    if c is not None:
        total += c
    return total.astype(to_numpy(spec.acc_type)).astype(np.int64)


def _fused(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], operands: Sequence[NDArray[Any]], c: NDArray[Any] | None
) -> Known:
    """The result of all prologues and of the epilogue, and how far from it a right kernel's may be."""
    a, b = _straight(spec, a, b)
    first, second, last = len(spec.chain_a.operands), len(spec.chain_b.operands), len(spec.further)
    operands, scalars = operands[:last], operands[last:]
    operands = [
        array.swapaxes(-1, -2) if turned and each.role != "b" else array
        for array, each, turned in zip(operands, _further(spec), spec.transposed[2 : 2 + last], strict=True)
    ]
    left = multiplied.of(spec.chain_a, a, operands[:first], "mk")
    right = multiplied.of(spec.chain_b, b, operands[first : first + second], "kn")
    given = [
        _known_sums(spec, left, multiplied.of(spec.chain_b, _straight(spec, a, array)[1], (), "kn"))
        if each.role == "b"
        else array
        for each, array in zip(spec.chain.operands, operands[first + second :], strict=True)
    ]
    sums = (
        propagation.exact(np.zeros(spec.c_shape), spec.acc_type.name)
        if spec.alpha == 0
        else _known_sums(spec, left, right)
    )
    return finish(spec, sums, [*given, *scalars], c)


def _further(spec: MatmulSpec) -> tuple[Operand, ...]:
    """The further operands of all entries."""
    return (*spec.chain_a.operands, *spec.chain_b.operands, *spec.chain.operands)


def _known_sums(spec: MatmulSpec, left: Known, right: Known) -> Known:
    """The sums of products of prologues' results, which have errors."""
    types = {"a": spec.a_type.name, "b": spec.b_type.name, "c": spec.acc}
    kept = spec.precision if spec.split else None
    plain = replace(spec.plain_sums, prologue_a=(), prologue_b=(), layout="nn", b_packed=False, precision=kept, **types)
    (a, a_off), (b, b_off) = multiplied.rounded(left, spec.a_type), multiplied.rounded(right, spec.b_type)
    if spec.precision == ROUNDED:
        a_off = a_off + multiplied.rounded_in_groups(spec, a)
    bound = error_bound(plain, a, b)
    if a_off.any() or b_off.any():
        bound = bound + multiplied.inexact(plain, a, a_off, b, b_off)
    if multiplied.is_of_codes(spec.b_stored) and spec.acc_type.kind == "float":
        bound = multiplied.scaled_in_blocks(plain, a, b, b_off, bound)
    return Known(reference(plain, a, b), bound)


def _straight(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """A as M×K and B as K×N elements, however they are stored."""
    return tuple(  # type: ignore[return-value] - a pair
        each.swapaxes(-1, -2) if transposed else each
        for each, transposed in ((a, spec.a_transposed), (b, spec.b_transposed))
    )


def _sums(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any] | None) -> NDArray[np.float64]:
    """The sums of products, before anything is rounded to C's type."""
    with np.errstate(all="ignore"):
        if _is_exact_in_float64(spec):
            product = np.zeros(spec.c_shape) if c is None else c.astype(np.float64)
            product += a.astype(np.float64) @ b.astype(np.float64)
            return product
        total = np.zeros(spec.c_shape, np.longdouble) if c is None else c.astype(np.longdouble, order="C")
        if _is_small(spec):
            total += np.matmul(a.astype(np.longdouble), b.astype(np.longdouble))
            return total.astype(np.float64)
        step = _step(spec)
        for start in range(0, spec.k, step):
            total += a[..., start : start + step] @ b[..., start : start + step, :]
        return total.astype(np.float64)


def error_bound(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], *further: NDArray[Any] | None, c: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """How far from `reference` a right kernel may be, elementwise: γ_K·|A||B| + output rounding + the reference's own.

    With beta 1, γ_{K+1}·(|A||B| + |C|) takes the place of γ_K·|A||B|. The bound holds for every order of summation, with
    fused multiply-adds or without, with gradual underflow and, for types narrower than their accumulator, without, as this
    module says. It is

    - 0 for integers;
    - 0 where the element's row of A, column of B or former C has a NaN or an Inf: the result is then the reference's
      (but inf where the other terms overflow, or an Inf meets a number that a dot instruction takes for zero);
    - 0 without products: the result is then zero, or the former C;
    - 0 where the sum, whatever its error, is too large for a C narrower than the accumulator: the result is then Inf;
    - inf where a sum of magnitudes overflows the accumulator, where K·u is 1 or more, or where it depends on rounding
      errors whether C can hold the sum: nothing is promised there.

    `within_bound` compares by these rules. An epilogue carries the bound of the sums along, as `propagation` says.

    Args:
        spec: What is computed.
        a: A, of the spec's `a_shape` and type.
        b: B, of the spec's `b_shape` and type.
        *further: The operands of the epilogue and the factors that calls tell, and after them `c`.
        c: With beta other than 0, and only then, the former C, of the spec's `c_shape` and type.

    Returns:
        Bounds, of the spec's `c_shape`, as float64.

    Raises:
        OperandError: A shape or an element type is not that of the spec, or C is missing or not wanted.
    """
    operands, c = _split(spec, further, c)
    spec = of_call(spec, (a, b, *operands), c)
    _check(spec, a, b, operands, c)
    if is_complex(spec):
        return complex_reference.bound(spec, *_straight(spec, a, b), operands, c, error_bound)
    a, b, *operands = _elements(spec, a, b, *operands)
    if spec.has_entries:
        return _fused(spec, a, b, operands, c).error
    if spec.k == 0 or spec.acc_type.kind != "float":
        return np.zeros(spec.c_shape)
    a, b = _straight(spec, a, b)
    terms = _terms(spec)
    kernel = gamma(terms, roundoff(spec.acc_type))
    own = _reference_gamma(spec)
    with np.errstate(all="ignore"):
        # |A||B| + |C|, and a little more than it, for its own rounding in float64.
        magnitude = _magnitude(spec, a, b, c) * (1 + 2 * gamma(terms, _U64)) * (spec.split.spread if spec.split else 1)
        underflow = spec.k * float(np.finfo(to_numpy(spec.acc_type)).smallest_subnormal)
        bound = (kernel + own + shortened(spec)) * magnitude + underflow
        if flushes(spec):
            bound += flushed(spec, a, b)
        largest = magnitude * (1 + kernel) + underflow
        bound = _rounded(spec, bound, magnitude) if spec.c == spec.acc else _narrowed(spec, bound, _sums(spec, a, b, c))
        bound[~(largest <= float(np.finfo(to_numpy(spec.acc_type)).max))] = np.inf
    finite = np.isfinite(a).all(axis=-1, keepdims=True) & np.isfinite(b).all(axis=-2, keepdims=True)
    if c is not None:
        finite = finite & np.isfinite(c)
    return bound if finite.all() else np.where(finite, bound, _among_infinite(spec, a, b, c))


def _among_infinite(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any] | None) -> NDArray[np.float64]:
    """The bound where the sum has a term that is NaN or Inf: 0, or inf where others may make another NaN or Inf of it."""
    finite_a, finite_b = (np.where(np.isfinite(x), x, 0) for x in (a, b))
    others = _magnitude(spec, finite_a, finite_b, None if c is None else np.where(np.isfinite(c), c, 0))
    others *= (1 + 2 * gamma(_terms(spec), roundoff(spec.acc_type))) * (spec.split.spread if spec.split else 1)
    overflows = others > float(np.finfo(to_numpy(spec.acc_type)).max)
    return np.where(overflows | infinite_times_tiny(spec, a, b), np.inf, 0.0)


def _magnitude(spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any] | None) -> NDArray[np.float64]:
    """|A||B| + |C|."""
    return magnitudes(a) @ magnitudes(b) + (np.zeros(spec.c_shape) if c is None else magnitudes(c))


def _rounded(spec: MatmulSpec, bound: NDArray[np.float64], magnitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """The bound of the sums with one more rounding, for kernels that add up parts of the sum."""
    return bound + roundoff(spec.c_type) * (magnitude + bound)


def _narrowed(spec: MatmulSpec, bound: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The bound of the sums after their rounding to a narrower C, which may overflow."""
    exact, limit = np.abs(sums), overflow(spec.c_type)
    rounded = bound + roundoff(spec.c_type) * (exact + bound) + float(limits(spec.c_type).smallest_subnormal)
    rounded[exact + bound >= limit] = np.inf
    rounded[exact - bound >= limit] = 0.0
    return rounded


def within_bound(c: NDArray[Any], ref: NDArray[Any], bound: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where `c` is right: as close to `ref` as `bound` says, or the same NaN or Inf, or where the bound is inf.

    Args:
        c: A kernel's result, of any shape.
        ref: `reference` of the same operands, of the same shape.
        bound: `error_bound` of the same operands, of the same shape.

    Returns:
        A boolean for each element.
    """
    if np.iscomplexobj(c):
        return np.asarray(within_bound(parts(c), parts(ref), bound[..., None]).all(-1))
    with np.errstate(all="ignore"):
        difference = np.abs(c.astype(np.float64) - ref)
    return _same(c, ref) | (difference <= bound) | np.isposinf(bound)


def relative_error(c: NDArray[Any], ref: NDArray[Any]) -> float:
    """‖C − ref‖ / ‖ref‖ in the Frobenius norm, the figure that runs and benchmarks report.

    Elements that are the same NaN or Inf in both count as equal, and are left out of ‖ref‖.

    Args:
        c: A kernel's result, of any shape.
        ref: `reference` of the same operands, of the same shape.

    Returns:
        The error; 0 when all elements are equal; inf when a NaN or Inf is in one of them only, or `ref` is 0 and `c` not.
    """
    c, ref = parts(c), parts(ref)
    same = _same(c, ref)
    if same.all():
        return 0.0
    with np.errstate(all="ignore"):
        difference = np.where(same, 0.0, c.astype(np.float64) - ref)
    exact = np.where(np.isfinite(ref), ref, 0.0)
    # By the largest magnitude, so that no square overflows or underflows.
    scale = float(np.abs(exact).max())
    if scale == 0.0 or not np.isfinite(difference).all():
        return float("inf")
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(difference / scale) / np.linalg.norm(exact / scale))


def _same(c: NDArray[Any], ref: NDArray[Any]) -> NDArray[np.bool_]:
    """Where both are equal, or both NaN."""
    return (c == ref) | (np.isnan(c) & np.isnan(ref))


def _is_exact_in_float64(spec: MatmulSpec) -> bool:
    """Whether products of A's and B's elements have no more bits than float64's 53, as those of integers never have."""
    return spec.acc_type.kind != "float" or roundoff(spec.a_type) * roundoff(spec.b_type) >= _U64


def _is_small(spec: MatmulSpec) -> bool:
    """Whether the reference takes long double throughout."""
    return spec.matrices * spec.m * spec.n * spec.k <= _SMALL


def _terms(spec: MatmulSpec) -> int:
    """Terms of a sum: its products, and the former C where that is added as it is."""
    return spec.k * (spec.split.products if spec.split else 1) + bool(spec.beta)


def _step(spec: MatmulSpec) -> int:
    """Products in each of the sums in float64 of a larger reference."""
    return max(1, -(-spec.k // _SUMS))


def _reference_gamma(spec: MatmulSpec) -> float:
    """The reference's own error before its last rounding, as a multiple of |A||B| + |C|."""
    if _is_exact_in_float64(spec):
        return gamma(_terms(spec), _U64)
    if _is_small(spec):
        return gamma(_terms(spec), _U_LONG)
    return gamma(_step(spec), _U64) + 2 * gamma(_SUMS + bool(spec.beta), _U_LONG)


def _split(
    spec: MatmulSpec, further: Sequence[NDArray[Any] | None], c: NDArray[Any] | None
) -> tuple[list[NDArray[Any]], NDArray[Any] | None]:
    """The operands of the epilogue, and the former C, which may come after them."""
    wanted = [each.name for each in (*spec.further, *spec.scalars)]
    operands = list(further)
    if c is None and len(operands) == len(wanted) + 1:
        c = operands.pop()
    for at, each in zip(range(len(spec.further), len(operands)), spec.scalars, strict=False):
        operands[at] = np.asarray(operands[at], stored_numpy(each.type))
    if len(operands) != len(wanted):
        names = f"{len(wanted)} after a and b ({', '.join(wanted)})" if wanted else "none after a and b"
        raise OperandError(f"{len(operands)} further operands", where="reference", expected=names)
    return operands, c  # type: ignore[return-value] - None among them is refused by `_check`


def _check(
    spec: MatmulSpec, a: NDArray[Any], b: NDArray[Any], operands: Sequence[NDArray[Any]], c: NDArray[Any] | None
) -> None:
    """Raises OperandError unless the operands have the spec's shapes and types, and C is there if and only if it is read."""
    if spec.beta == 0 and c is not None:
        raise OperandError("is given", operand="c", expected=f"none, as {spec} never reads C")
    if spec.beta and c is None:
        raise OperandError("is missing", operand="c", expected=f"the former C, which {spec} adds to")
    given = [
        (each.name, array, each.stored, each.type) for each, array in zip(spec.operands, (a, b, *operands), strict=True)
    ]
    if c is not None:
        given.append(("c", c, spec.c_shape, spec.c_type))
    for name, array, shape, element in given:
        if not isinstance(array, np.ndarray):
            raise OperandError(f"is a {type(array).__name__}", operand=name, expected="a numpy array")
        if array.shape != shape:
            raise OperandError(f"has shape {array.shape}", operand=name, expected=f"{shape} for {spec}")
        if array.dtype != stored_numpy(element):
            remedy = f"Pass tw.pack_nibbles({name})" if element.packed > 1 else None
            expected = f"{stored_numpy(element).name} for {spec}"
            # Numpy calls all types of others V1.
            found = array.dtype.name if array.dtype.kind == "V" else array.dtype.str
            raise OperandError(f"is of type {found}", operand=name, expected=expected, remedy=remedy)


def _elements(spec: MatmulSpec, *operands: NDArray[Any]) -> list[NDArray[Any]]:
    """The operands of a call one element by one, those that share bytes taken apart."""
    return [
        array if each.type.packed == 1 else unpack_nibbles(array, each.type.name, each.shape[-1])
        for each, array in zip(spec.operands, operands, strict=True)
    ]
