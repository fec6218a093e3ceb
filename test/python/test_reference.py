# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference is what exact rational arithmetic says, and the bound admits right kernels and catches wrong ones."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tilewright.errors import OperandError
from tilewright.payload import reference as module
from tilewright.payload.reference import error_bound, reference, relative_error, within_bound
from tilewright.spec import MatmulSpec

TYPES = ("f32", "f64")
EXTENTS = st.integers(0, 9)
LONG_DOUBLE_IS_LONGER = np.finfo(np.longdouble).nmant > 60


def f32(rows: list[list[float]]) -> np.ndarray:
    """A matrix of f32."""
    return np.array(rows, np.float32)


def random(spec: MatmulSpec, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Operands uniform in [-1, 1]."""
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, shape).astype(spec.a_type.numpy) for shape in (spec.a_shape, spec.b_shape))
    return a, b


def exact(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> list[list[Fraction]]:
    """A·B, or C + A·B, in rational arithmetic."""
    columns = [[Fraction(float(x)) for x in column] for column in b.T]
    rows = [[Fraction(float(x)) for x in row] for row in a]
    start = np.zeros((len(rows), len(columns))) if c is None else c
    return [
        [
            sum((x * y for x, y in zip(row, column, strict=True)), Fraction(float(start[i, j])))
            for j, column in enumerate(columns)
        ]
        for i, row in enumerate(rows)
    ]


def in_order(spec: MatmulSpec, a: np.ndarray, b: np.ndarray, c0: np.ndarray | None = None) -> np.ndarray:
    """A kernel that sums in order in the accumulator, each product rounded: the least accurate right one."""
    c = np.zeros(spec.c_shape, spec.acc_type.numpy) if c0 is None else c0.copy()
    with np.errstate(all="ignore"):
        for p in range(spec.k):
            c += a[:, p : p + 1] * b[p : p + 1]
    return c


@st.composite
def problems(draw: st.DrawFn) -> tuple[MatmulSpec, np.ndarray, np.ndarray, np.ndarray | None]:
    """A small spec and finite operands of every magnitude; C is None with beta 0."""
    spec = MatmulSpec(
        draw(EXTENTS), draw(EXTENTS), draw(EXTENTS), a=draw(st.sampled_from(TYPES)), beta=draw(st.sampled_from([0, 1]))
    )
    elements = st.floats(allow_nan=False, allow_infinity=False, width=32 if spec.a == "f32" else 64)
    shapes = (spec.a_shape, spec.b_shape, spec.c_shape)
    a, b, c = (draw(hnp.arrays(spec.a_type.numpy, shape, elements=elements)) for shape in shapes)
    return spec, a, b, c if spec.beta else None


@given(problems())
@settings(max_examples=200)
def test_reference_is_the_exact_product(problem):
    spec, a, b, c = problem
    ref = reference(spec, a, b, c)
    assert ref.dtype == np.float64
    assert ref.shape == spec.c_shape
    magnitudes = exact(np.abs(a), np.abs(b), None if c is None else np.abs(c))
    for i, row in enumerate(exact(a, b, c)):
        for j, true in enumerate(row):
            if abs(true) > Fraction(2) ** 1023:
                continue
            rounding = Fraction(2) ** -52 * abs(true) + Fraction(2) ** -1074
            summing = (
                Fraction(max(spec.k + spec.beta, 1))
                * Fraction(2) ** (-52 if spec.a == "f32" else -62)
                * magnitudes[i][j]
            )
            assert abs(Fraction(float(ref[i, j])) - true) <= rounding + summing


@given(problems())
@settings(max_examples=200)
@example((MatmulSpec(1, 1, 1), f32([[1e-30]]), f32([[1e-30]]), None))
@example((MatmulSpec(1, 1, 2), f32([[3e38, 3e38]]), f32([[2], [-2]]), None))
@example((MatmulSpec(1, 1, 1, a="f64"), np.array([[1e-170]]), np.array([[1e-170]]), None))
@example((MatmulSpec(1, 1, 1, beta=1), f32([[1]]), f32([[3e38]]), f32([[3e38]])))
@example((MatmulSpec(1, 1, 1, beta=1), f32([[1e-3]]), f32([[1e-3]]), f32([[1]])))
def test_bound_admits_the_least_accurate_right_kernel(problem):
    spec, a, b, c0 = problem
    ref, bound = reference(spec, a, b, c0), error_bound(spec, a, b, c0)
    assert bound.shape == spec.c_shape
    assert bound.dtype == np.float64
    assert (bound >= 0).all()
    c = in_order(spec, a, b, c0)
    assert within_bound(c, ref, bound).all()
    with np.errstate(all="ignore"):
        blas = a @ b if c0 is None else a @ b + c0
    assert within_bound(blas, ref, bound).all()


@pytest.mark.parametrize("a", TYPES)
def test_bound_catches_a_wrong_kernel(a):
    spec = MatmulSpec(5, 7, 64, a=a)
    x, y = random(spec)
    ref, bound = reference(spec, x, y), error_bound(spec, x, y)
    assert within_bound(x @ y, ref, bound).all()
    dropped = x[:, :-1] @ y[:-1]
    assert not within_bound(dropped, ref, bound).any()
    one_wrong = x @ y
    one_wrong[3, 2] += 8 * bound[3, 2]
    assert np.argwhere(~within_bound(one_wrong, ref, bound)).tolist() == [[3, 2]]
    poisoned = x @ y
    poisoned[0, 0] = np.nan
    assert np.argwhere(~within_bound(poisoned, ref, bound)).tolist() == [[0, 0]]


def test_bound_is_the_documented_one():
    spec = MatmulSpec(3, 4, 1000)
    a, b = random(spec)
    u = 2.0**-24
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    expected = (1000 * u / (1 - 1000 * u) + u) * magnitude
    np.testing.assert_allclose(error_bound(spec, a, b), expected, rtol=1e-4)


@pytest.mark.parametrize("a", TYPES)
def test_beta_1_adds_one_term(a):
    spec = MatmulSpec(3, 4, 1000, a=a, beta=1)
    x, y = random(spec)
    c = np.full((3, 4), 1e6, spec.c_type.numpy)
    ref, bound = reference(spec, x, y, c), error_bound(spec, x, y, c)
    np.testing.assert_allclose(ref, 1e6 + x.astype(np.float64) @ y, rtol=1e-15)
    u = spec.acc_type.roundoff
    assert u is not None
    gamma = 1001 * u / (1 - 1001 * u)
    np.testing.assert_allclose(bound, (gamma + u) * (np.abs(x).astype(np.float64) @ np.abs(y) + 1e6), rtol=2e-3)
    assert within_bound(in_order(spec, x, y, c), ref, bound).all()
    assert not within_bound(x @ y, ref, bound).any()
    np.testing.assert_array_equal(reference(spec, x, y, np.asfortranarray(c)), ref)
    assert (c == 1e6).all()


@pytest.mark.parametrize("a", TYPES)
def test_no_products_leave_c_exactly(a):
    spec = MatmulSpec(2, 3, 0, a=a, beta=1)
    x, y = random(spec)
    c = np.array([[1, -2, 0.1], [np.nan, np.inf, -np.inf]], spec.c_type.numpy)
    np.testing.assert_array_equal(reference(spec, x, y, c), c.astype(np.float64))
    np.testing.assert_array_equal(error_bound(spec, x, y, c), np.zeros((2, 3)))
    assert within_bound(c, reference(spec, x, y, c), error_bound(spec, x, y, c)).all()


@pytest.mark.parametrize("a", TYPES)
def test_no_products_give_zeros_exactly(a):
    spec = MatmulSpec(2, 3, 0, a=a)
    x, y = random(spec)
    np.testing.assert_array_equal(reference(spec, x, y), np.zeros((2, 3)))
    np.testing.assert_array_equal(error_bound(spec, x, y), np.zeros((2, 3)))
    assert not within_bound(np.full((2, 3), 1e-30), reference(spec, x, y), error_bound(spec, x, y)).any()


@pytest.mark.parametrize("shape", [(0, 3, 2), (2, 0, 3), (0, 0, 0)])
def test_empty_results(shape):
    spec = MatmulSpec(*shape)
    a, b = random(spec)
    assert reference(spec, a, b).shape == error_bound(spec, a, b).shape == spec.c_shape
    assert relative_error(reference(spec, a, b), reference(spec, a, b)) == 0.0


@pytest.mark.parametrize("a", TYPES)
def test_nan_and_inf_follow_ieee(a):
    spec = MatmulSpec(4, 3, 2, a=a)
    x = np.array([[1, 2], [np.nan, 0], [np.inf, 1], [np.inf, 0]], spec.a_type.numpy)
    y = np.array([[1, 0, -1], [1, 1, 1]], spec.b_type.numpy)
    ref, bound = reference(spec, x, y), error_bound(spec, x, y)
    expected = np.array([[3, 2, 1], [np.nan] * 3, [np.inf, np.nan, -np.inf], [np.inf, np.nan, -np.inf]])
    np.testing.assert_array_equal(ref, expected)
    assert (bound[1:] == 0).all()
    assert (bound[0] > 0).all()
    c = expected.astype(spec.c_type.numpy)
    assert within_bound(c, ref, bound).all()
    for wrong in (np.nan, -np.inf, 3.4e38):
        c[2, 0] = wrong
        assert np.argwhere(~within_bound(c, ref, bound)).tolist() == [[2, 0]]


def test_nothing_is_promised_past_overflow():
    spec = MatmulSpec(1, 2, 2)
    a, b = f32([[3e38, 3e38]]), f32([[2, 0.25], [-2, 0.25]])
    assert np.isinf(error_bound(spec, a, b)).tolist() == [[True, False]]
    assert within_bound(f32([[np.nan, 1.5e38]]), reference(spec, a, b), error_bound(spec, a, b)).all()


def test_nothing_is_promised_past_as_many_products_as_the_accumulator_resolves():
    spec = MatmulSpec(1, 1, 2**24)
    ones = np.ones(2**24, np.float32)
    assert np.isposinf(error_bound(spec, ones[np.newaxis, :], ones[:, np.newaxis])).all()


def test_nan_and_inf_in_c_follow_ieee():
    spec = MatmulSpec(1, 4, 1, beta=1)
    a, b = f32([[1]]), f32([[1, 1, -np.inf, 1]])
    c = f32([[np.nan, np.inf, np.inf, 2]])
    ref, bound = reference(spec, a, b, c), error_bound(spec, a, b, c)
    np.testing.assert_array_equal(ref, [[np.nan, np.inf, np.nan, 3]])
    assert (bound > 0).tolist() == [[False, False, False, True]]


@pytest.mark.skipif(not LONG_DOUBLE_IS_LONGER, reason="long double is float64 here")
@pytest.mark.parametrize("k", [3, 40, 300])
def test_large_f64_problems_are_summed_in_blocks_and_stay_more_accurate(monkeypatch, k):
    spec = MatmulSpec(7, 5, k, a="f64")
    a, b = random(spec)
    whole = reference(spec, a, b)
    small_bound = error_bound(spec, a, b)
    added = dataclasses.replace(spec, beta=1)
    c = random(MatmulSpec(7, 5, 5, a="f64"))[0]
    whole_added = reference(added, a, b, c)
    monkeypatch.setattr(module, "_SMALL", 0)
    blocks = reference(spec, a, b)
    assert within_bound(reference(added, a, b, c), whole_added, error_bound(added, a, b, c)).all()
    np.testing.assert_allclose(reference(added, a, b, c), whole + c, rtol=0, atol=1e-12)
    step = -(-k // 16)
    magnitude = np.abs(a) @ np.abs(b)
    assert (np.abs(blocks - whole) <= (1.01 * step + 2) * 2.0**-53 * magnitude).all()
    assert relative_error(blocks, whole) <= relative_error(in_order(spec, a, b), whole)
    large_bound = error_bound(spec, a, b)
    assert (large_bound > small_bound).all()
    assert (large_bound < 1.5 * small_bound).all()


def test_any_memory_order_is_taken_and_nothing_is_written():
    spec = MatmulSpec(6, 5, 4)
    a, b = random(spec)
    ref = reference(spec, a, b)
    wide = np.zeros((6, 9), np.float32)
    wide[:, :4] = a
    wide.flags.writeable = b.flags.writeable = False
    np.testing.assert_array_equal(reference(spec, wide[:, :4], np.asfortranarray(b)), ref)


@pytest.mark.parametrize("function", [reference, error_bound])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"a": np.zeros((2, 3), np.float32)}, r"operand a: has shape \(2, 3\); expected \(2, 4\) for 2x3x4 f32 nn"),
        ({"b": np.zeros(12, np.float32)}, r"operand b: has shape \(12,\)"),
        ({"a": np.zeros((2, 4))}, "operand a: is of type <f8; expected float32"),
        ({"b": np.zeros((4, 3), ">f4")}, "operand b: is of type >f4"),
        ({"a": [[0.0] * 4] * 2}, "operand a: is a list; expected a numpy array"),
        ({"c": np.zeros((2, 3), np.float32)}, "operand c: is given; expected none, as 2x3x4 f32 nn never reads C"),
    ],
)
def test_operands_are_checked(function, change, match):
    operands = {"a": np.zeros((2, 4), np.float32), "b": np.zeros((4, 3), np.float32)} | change
    with pytest.raises(OperandError, match=match):
        function(MatmulSpec(2, 3, 4), **operands)


@pytest.mark.parametrize("function", [reference, error_bound])
@pytest.mark.parametrize(
    ("c", "match"),
    [
        (None, "operand c: is missing; expected the former C, which 2x3x4 f32 nn beta=1 adds to"),
        (np.zeros((3, 2), np.float32), r"operand c: has shape \(3, 2\); expected \(2, 3\)"),
        (np.zeros((2, 3)), "operand c: is of type <f8; expected float32"),
    ],
)
def test_the_former_c_is_checked(function, c, match):
    a, b = np.zeros((2, 4), np.float32), np.zeros((4, 3), np.float32)
    with pytest.raises(OperandError, match=match):
        function(MatmulSpec(2, 3, 4, beta=1), a, b, c)


def test_relative_error():
    ref = np.array([[3.0, 4.0]])
    assert relative_error(f32([[3, 4]]), ref) == 0.0
    assert relative_error(f32([[3, 5]]), ref) == pytest.approx(0.2)
    assert relative_error(np.array([[1.0]]), np.array([[0.0]])) == np.inf
    assert relative_error(np.array([[np.nan, 4.0]]), ref) == np.inf
    assert relative_error(np.array([[3e300, 5e300]]), 1e300 * ref) == pytest.approx(0.2)
    assert relative_error(np.array([[np.nan, np.inf, 4.4]]), np.array([[np.nan, np.inf, 4.0]])) == pytest.approx(0.1)
    assert relative_error(np.array([[np.inf, 4.0]]), np.array([[-np.inf, 4.0]])) == np.inf


def test_bound_is_tighter_than_the_next_shorter_type():
    f64 = MatmulSpec(3, 3, 100, a="f64")
    a, b = random(f64)
    f32 = dataclasses.replace(f64, a="f32", b=None, c=None, acc=None)
    assert (error_bound(f64, a, b) < 1e-6 * error_bound(f32, a.astype(np.float32), b.astype(np.float32))).all()
