# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reference and bound for types narrower than their accumulator: exact for integers, wide enough for what instructions do to
16-bit floats, and no wider."""

from dataclasses import asdict
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tilewright.dtypes import COMBINATIONS, to_numpy
from tilewright.errors import OperandError
from tilewright.payload.reference import error_bound, reference, within_bound
from tilewright.spec import MatmulSpec

INTEGERS = [types for types in COMBINATIONS if types.acc == "i32"]
FLOATS = [types for types in COMBINATIONS if types.acc == "f32" and types.a != "f32"]
TINY = np.float32(2.0**-126)
BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@st.composite
def problems(draw: st.DrawFn) -> tuple:
    """A small spec of 16-bit floats and any operands, from their bits; C is None with beta 0."""
    extent, beta = st.integers(1, 6), draw(st.integers(0, 1))
    types = draw(st.sampled_from(FLOATS))
    spec = MatmulSpec(draw(extent), draw(extent), draw(extent), **asdict(types), beta=beta)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))

    def matrix(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        bits = random.integers(0, 2 ** (8 * dtype.itemsize), shape, dtype=f"u{dtype.itemsize}").view(dtype)
        return np.where(np.isfinite(bits), bits, dtype.type(0))

    a, b = (matrix(shape, to_numpy(spec.a_type)) for shape in (spec.a_shape, spec.b_shape))
    return spec, a, b, matrix(spec.c_shape, to_numpy(spec.c_type)) if beta else None


def in_order(spec: MatmulSpec, a: np.ndarray, b: np.ndarray, c0: np.ndarray | None) -> np.ndarray:
    """Sums in f32, each product rounded, and the sum to C's type in the end."""
    sums = np.zeros(spec.c_shape, np.float32) if c0 is None else c0.astype(np.float32)
    for p in range(spec.k):
        sums = sums + a[:, p : p + 1].astype(np.float32) * b[p : p + 1].astype(np.float32)
    return sums.astype(to_numpy(spec.c_type))


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < TINY, np.float32(0), x)


def by_pairs(spec: MatmulSpec, a: np.ndarray, b: np.ndarray, c0: np.ndarray | None) -> np.ndarray:
    """As VDPBF16PS does, but with every product rounded too: pairs of products, and zero for whatever is subnormal."""
    sums = flushed(np.zeros(spec.c_shape, np.float32) if c0 is None else c0.astype(np.float32))
    wide_a, wide_b = (flushed(x.astype(np.float32)) for x in (a, b))
    for p in range(0, spec.k, 2):
        for q in range(p, min(p + 2, spec.k)):
            sums = flushed(sums + flushed(wide_a[:, q : q + 1] * wide_b[q : q + 1]))
    return flushed(sums).astype(to_numpy(spec.c_type))


SUBNORMAL = MatmulSpec(1, 1, 2, a="bf16", c="bf16", beta=1)


@given(problems())
@settings(max_examples=200, deadline=None)
@example(
    (
        SUBNORMAL,
        *(np.full((1, 2), 2.0**-130, BF16).reshape(s) for s in ((1, 2), (2, 1))),
        np.full((1, 1), 2.0**-127, BF16),
    )
)
@example(
    (SUBNORMAL, np.full((1, 2), 2.0**-130, BF16), np.full((2, 1), 2.0**100, BF16), np.full((1, 1), 2.0**-127, BF16))
)
@example((MatmulSpec(1, 1, 2, a="f16", c="f16"), np.full((1, 2), 2.0**-24, F16), np.full((2, 1), 0.5, F16), None))
def test_bound_admits_what_instructions_do(problem):
    spec, a, b, c0 = problem
    ref, bound = reference(spec, a, b, c0), error_bound(spec, a, b, c0)
    assert ref.dtype == bound.dtype == np.float64
    for kernel in (in_order, by_pairs):
        assert within_bound(kernel(spec, a, b, c0), ref, bound).all()


@given(problems())
@settings(max_examples=100, deadline=None)
def test_reference_is_the_exact_sum(problem):
    spec, a, b, c0 = problem
    ref = reference(spec, a, b, c0)
    overflow = np.inf if spec.c == spec.acc else 65520 if spec.c == "f16" else 2.0**128 * (1 - 2.0**-9)
    for i, j in np.ndindex(spec.c_shape):
        terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)]
        terms += [Fraction(float(c0[i, j]))] if spec.beta else []
        slack = Fraction(len(terms), 2**52) * sum(map(abs, terms))
        if abs(sum(terms)) + slack < overflow:
            assert abs(Fraction(float(ref[i, j])) - sum(terms)) <= slack
        elif abs(sum(terms)) - slack >= overflow:
            assert np.isinf(ref[i, j])


@pytest.mark.parametrize("types", FLOATS, ids=str)
def test_bound_catches_a_missing_product_and_sums_in_16_bits(types):
    spec = MatmulSpec(24, 24, 64, **asdict(types))
    random = np.random.default_rng(0)
    a, b = (random.uniform(0.5, 1, s).astype(to_numpy(spec.a_type)) for s in (spec.a_shape, spec.b_shape))
    ref, bound = reference(spec, a, b), error_bound(spec, a, b)
    assert within_bound(in_order(spec, a, b, None), ref, bound).all()
    assert not within_bound(
        in_order(MatmulSpec(24, 24, 63, **asdict(types)), a[:, :-1], b[:-1], None), ref, bound
    ).any()
    sums = np.zeros(spec.c_shape, a.dtype)
    for p in range(spec.k):
        sums += a[:, p : p + 1] * b[p : p + 1]
    assert within_bound(sums.astype(to_numpy(spec.c_type)), ref, bound).mean() < 0.5


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_bound_catches_truncation_in_place_of_rounding(dtype):
    spec = MatmulSpec(32, 32, 8, a=dtype, c=dtype)
    random = np.random.default_rng(0)
    a, b = (random.uniform(-1, 1, s).astype(to_numpy(spec.a_type)) for s in (spec.a_shape, spec.b_shape))
    sums = in_order(MatmulSpec(32, 32, 8, a=dtype), a, b, None)
    kept = 13 if dtype == "f16" else 16
    truncated = (sums.view(np.uint32) >> kept << kept).view(np.float32).astype(a.dtype)
    right = within_bound(truncated, reference(spec, a, b), error_bound(spec, a, b))
    assert right.mean() < 0.75


def test_what_a_narrow_result_cannot_hold_is_infinite():
    spec = MatmulSpec(1, 4, 1, a="f16", c="f16")
    a, b = np.array([[256]], F16), np.array([[255.875, 256, -256, np.inf]], F16)
    ref, bound = reference(spec, a, b), error_bound(spec, a, b)
    np.testing.assert_array_equal(ref, [[65504, np.inf, -np.inf, np.inf]])
    assert np.isfinite(bound).all()
    assert within_bound(np.array([[65504, np.inf, -np.inf, np.inf]], F16), ref, bound).all()
    assert not within_bound(np.array([[np.inf, 65504, -65504, 65504]], F16), ref, bound).any()


def test_nothing_is_promised_where_infinity_meets_a_subnormal_number():
    spec = MatmulSpec(1, 2, 1, a="bf16")
    a, b = np.array([[np.inf]], BF16), np.array([[2.0**-130, 1]], BF16)
    np.testing.assert_array_equal(reference(spec, a, b), [[np.inf, np.inf]])
    np.testing.assert_array_equal(error_bound(spec, a, b), [[np.inf, 0]])


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("types", INTEGERS, ids=str)
def test_integers_are_exact_modulo_2_to_the_32(types, beta):
    spec = MatmulSpec(5, 6, 70, **asdict(types), beta=beta)
    random = np.random.default_rng(0)
    a, b, c = (
        random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
        for shape, dtype in (
            (spec.a_shape, to_numpy(spec.a_type)),
            (spec.b_shape, to_numpy(spec.b_type)),
            (spec.c_shape, np.dtype(np.int32)),
        )
    )
    c[0] = 2**31 - 1
    given = (a, b, c)[: 2 + beta]
    ref = reference(spec, *given)
    assert ref.dtype == np.int64
    sums = a.astype(object) @ b.astype(object) + (c.astype(object) if beta else 0)
    np.testing.assert_array_equal(ref, (sums + 2**31) % 2**32 - 2**31)
    assert not error_bound(spec, *given).any()
    assert within_bound(ref.astype(np.int32), ref, error_bound(spec, *given)).all()
    assert not within_bound(ref.astype(np.int32) ^ 1, ref, error_bound(spec, *given)).any()


def test_operands_of_another_type_are_refused():
    spec = MatmulSpec(2, 2, 2, a="u8", b="i8")
    with pytest.raises(OperandError, match=r"operand b: is of type .*u1; expected int8"):
        reference(spec, np.ones((2, 2), np.uint8), np.ones((2, 2), np.uint8))
