# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Epilogues as values: what they say, what is refused, and the reference and bound of what they compute."""

from __future__ import annotations

import inspect
import json
import math
import pickle

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.errors import OperandError, SpecError
from tilewright.expressions import number
from tilewright.payload import epilogues
from tilewright.payload.epilogues import NAMES, parse
from tilewright.payload.reference import within_bound

ERF = np.vectorize(math.erf)

# Each with what it gives in NumPy's own words, where that is one step: of the sums, and of a further operand.
ENTRIES = {
    tw.bias(): lambda c, x: c + x,
    tw.bias("m", "bf16"): None,
    tw.scale(0.5): lambda c: c * 0.5,
    tw.scale_by(""): None,
    tw.relu(): lambda c: np.maximum(c, 0),
    tw.leaky_relu(0.1): lambda c: np.where(c > 0, c, c * np.float32(0.1)),
    tw.clamp(-1, 1): lambda c: np.clip(c, -1, 1),
    tw.gelu(): lambda c: c * (1 + ERF(c / np.sqrt(2))) / 2,
    tw.gelu("tanh"): lambda c: c * (1 + np.tanh(np.sqrt(2 / np.pi) * (c + 0.044715 * c**3))) / 2,
    tw.silu(): lambda c: c / (1 + np.exp(-c)),
    tw.hardswish(): lambda c: c * np.clip(c + 3, 0, 6) / 6,
    tw.sigmoid(): lambda c: 1 / (1 + np.exp(-c)),
    tw.tanh(): np.tanh,
    tw.exp(): np.exp,
    tw.residual(): lambda c, x: c + x,
    tw.multiply("m"): None,
    tw.cast("bf16"): None,
    tw.quantize(0.1, 3, "u8"): lambda c: np.clip(np.rint(c * np.float32(10)) + 3, 0, 255),
    tw.dequantize("n", 2): None,
    tw.function(lambda c, s: tw.math.tanh(c * s), s="m"): None,
}


def spec_of(*epilogue, m=4, n=5, k=6, **fields) -> tw.MatmulSpec:
    return tw.MatmulSpec(m, n, k, epilogue=epilogue, **fields)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_entries_are_values(entry):
    again = pickle.loads(pickle.dumps(entry))
    assert again == entry
    assert hash(again) == hash(entry)
    assert repr(again) == repr(entry)
    assert sum(other == entry for other in ENTRIES) == 1


def test_a_function_is_what_it_computes():
    factor = 0.5
    first, second = spec_of(lambda c, s: c * s + factor), spec_of(lambda c, s: c * s + 0.5)
    assert first == second
    assert hash(first) == hash(second)
    assert first != spec_of(lambda c, s: c * s + 0.25)
    assert first != spec_of(lambda c, s: c * s - 0.5)
    assert pickle.loads(pickle.dumps(first)) == first


def test_what_is_used_often_is_computed_once():
    def doubled(c):
        for _ in range(200):
            c = c + c
        return c

    (entry,) = spec_of(doubled).epilogue
    assert len(entry.program.steps) == 201
    with pytest.raises(SpecError, match="more than 1000 operations"):
        spec_of(lambda c: [c := c * c + 1 for _ in range(1000)][-1])


def test_operands_are_listed_in_the_order_of_the_call():
    spec = spec_of(tw.bias("m", "bf16"), tw.bias(), lambda c, a: c * a, tw.residual(), a="bf16", c="bf16")
    found = [(each.name, each.shape, each.type.name) for each in spec.operands]
    assert found == [
        ("a", (4, 6), "bf16"),
        ("b", (6, 5), "bf16"),
        ("bias", (4,), "bf16"),
        ("bias_2", (5,), "f32"),
        ("a_2", (5,), "f32"),
        ("residual", (4, 5), "f32"),
    ]
    assert str(spec) == "4x5x6 bf16 nn [bias('m', 'bf16'), bias('n'), lambda(c, a), residual('mn')]"


@pytest.mark.parametrize(
    ("fields", "result", "operands"),
    [
        ({"a": "i8", "epilogue": (tw.bias(), tw.relu())}, "i32", ["i32"]),
        ({"a": "i8", "epilogue": (tw.bias(), tw.dequantize())}, "f32", ["i32", "f32"]),
        ({"a": "i8", "epilogue": (tw.dequantize(0.1), tw.bias(), tw.quantize(0.1))}, "i8", ["f32"]),
        ({"a": "i8", "epilogue": (tw.clamp(-5, 5), tw.cast("i8"))}, "i8", []),
        ({"a": "i8", "epilogue": (lambda c, s: c * s,)}, "f32", ["f32"]),
        ({"a": "f64", "epilogue": (tw.bias(), tw.scale_by())}, "f64", ["f64", "f64"]),
        ({"a": "bf16", "epilogue": (tw.relu(), tw.cast("bf16"))}, "bf16", []),
        ({"a": "bf16", "epilogue": (tw.cast("bf16"), tw.relu())}, "f32", []),
    ],
)
def test_types_follow_the_chain(fields, result, operands):
    spec = tw.MatmulSpec(2, 3, 4, **fields)
    assert spec.c == result
    assert [each.type.name for each in spec.further] == operands


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: spec_of(3), "an entry of the epilogue is 3"),
        (lambda: tw.bias("x"), "operand bias has axes 'x'; expected one of 'mn', 'n', 'm', ''"),
        (
            lambda: spec_of(tw.bias("k")),
            r"operand bias of bias\('k'\) has axes 'k' in epilogue; expected one of 'mn', 'n'",
        ),
        (lambda: tw.bias("n", "f8"), "unknown element type 'f8'"),
        (
            lambda: tw.scale("x"),  # pyright: ignore[reportArgumentType]
            "scale of 'x'; expected a finite number",
        ),
        (lambda: tw.scale(math.inf), "scale of inf"),
        (lambda: tw.clamp(1, 0), "clamp from 1 to 0"),
        (lambda: tw.gelu("fast"), "gelu by 'fast'; expected 'erf' or 'tanh'"),
        (lambda: tw.quantize(0), "quantize by 0"),
        (lambda: tw.quantize(1, 200), "zero point 200; expected an int of i8"),
        (lambda: tw.quantize(1, 0, "i32"), "quantize to 'i32'"),
        (
            lambda: tw.dequantize("n", 0.5),  # pyright: ignore[reportArgumentType]
            r"zero point 0\.5",
        ),
        (lambda: spec_of(lambda: 1), r"takes \(\)"),
        (lambda: spec_of(lambda c, *s: c), r"takes \(c, \*s\)"),
        (lambda: tw.function(lambda c, s: c, t="m"), "no operand t; expected one of s"),
        (
            lambda: tw.function(3),  # pyright: ignore[reportArgumentType]
            "function of 3",
        ),
        (lambda: spec_of(lambda c: c > 0), "returns a comparison.* Return tw.math.where"),
        (lambda: spec_of(lambda c: c if c > 0 else 0), "decides a branch.* Choose with tw.math.where"),
        (lambda: spec_of(lambda c: math.tanh(c)), "made a number.* Call functions of tw.math"),
        (lambda: spec_of(lambda c: (c > 0) + 1), "add of a comparison"),
        (lambda: spec_of(lambda c: tw.math.where(c, 1, 0)), "where of a number"),
        (lambda: spec_of(lambda c: c + "x"), "'x' is no number"),
        (lambda: spec_of(lambda c: c * math.nan), "nan is no number"),
        (lambda: spec_of(tw.relu(), a="i8", c="f32"), "C of f32 after an epilogue that ends with relu"),
        (lambda: spec_of(tw.relu(), c="f64"), "C of f64 after"),
        (
            lambda: spec_of(tw.cast("f64")),
            "f64 in an epilogue that computes in f32; expected one of f32, bf16, f16, f8E3M4, f8E4M3FN, f8E5M2, i8, u8, i32",
        ),
        (lambda: spec_of(tw.bias("n", "bf16"), a="f64"), "bf16 in an epilogue that computes in f64"),
        (lambda: spec_of(tw.quantize(1), beta=1), "beta 1 with C of i8 is not supported yet"),
    ],
)
def test_what_is_refused(make, match):
    with pytest.raises(SpecError, match=match):
        make()


def test_every_entry_can_be_written_as_text_and_is_public():
    made = [
        name
        for name, each in vars(epilogues).items()
        if inspect.isfunction(each) and each.__module__ == epilogues.__name__
    ]
    entries = {name for name in made if inspect.get_annotations(getattr(epilogues, name)).get("return") == "Epilogue"}
    public = {name for name in entries if not name.startswith("_")}
    assert public - {"function"} == set(NAMES)
    assert public - set(tw.__all__) == set()


def test_entries_can_be_written_as_text():
    text = "bias:n,clamp:-1:2.5,quantize:0.5:3:u8"
    assert parse(text) == (tw.bias("n"), tw.clamp(-1, 2.5), tw.quantize(0.5, 3, "u8"))
    for each in NAMES:
        assert getattr(tw, each).__doc__
    for wrong, match in (
        ("bia", "no entry 'bia'; expected one of bias, "),
        ("relu:1", "'relu:1' has wrong arguments"),
        ("", "no"),
    ):
        with pytest.raises(SpecError, match=match):
            parse(wrong)


def test_numpy_numbers_count_and_numpy_functions_do_not():
    assert spec_of(lambda c: np.float32(0.5) * c) == spec_of(lambda c: 0.5 * c)
    assert spec_of(lambda c: c + np.int64(3)) == spec_of(lambda c: c + 3)
    with pytest.raises(TypeError):
        spec_of(lambda c: np.tanh(c))


@pytest.mark.parametrize("value", [0, -3, 2**40, 0.1, -1e-300, math.inf, -math.inf])
def test_constants_are_exact(value):
    (step, *_) = spec_of(lambda c: value + c).epilogue[0].program.steps
    assert number(step.detail) == value


def operands_of(spec: tw.MatmulSpec, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        (rng.uniform(-1, 1, each.shape) if each.type.kind == "float" else rng.integers(0, 100, each.shape)).astype(
            each.type.numpy
        )
        for each in spec.operands
    ]


@pytest.mark.parametrize("entry", [each for each, plain in ENTRIES.items() if plain], ids=str)
def test_the_reference_is_what_numpy_says(entry):
    plain = ENTRIES[entry]
    assert plain is not None
    spec = spec_of(entry, m=20, n=30)
    a, b, *further = operands_of(spec)
    sums = a.astype(np.float64) @ b.astype(np.float64)
    expected = plain(sums, *[each.astype(np.float64) for each in further])
    found, bound = tw.reference(spec, a, b, *further), tw.error_bound(spec, a, b, *further)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    # Tight enough to tell a result that is off by a thousandth, or by one step of an integer.
    assert (bound < 1e-5 * (1 + np.abs(found))).mean() > 0.99
    assert found.dtype == (np.int64 if spec.c == "u8" else np.float64)


def test_rounding_is_off_by_one_only_where_the_bound_says_so():
    # The sum is 0.5 exactly; what it may be rounded to depends on its error.
    spec = tw.MatmulSpec(1, 2, 2, epilogue=(tw.quantize(1.0),))
    a = np.array([[1, 1]], np.float32)
    b = np.array([[0.2, 0.2], [0.3, 0.1]], np.float32)
    assert tw.error_bound(spec, a, b)[0, 1] == 0
    assert tw.error_bound(spec, a, b)[0, 0] == 1
    integers = tw.MatmulSpec(1, 1, 1, a="i8", epilogue=(tw.dequantize(0.5), tw.quantize(1.0)))
    for x, rounded in ((1, 0), (3, 2), (-5, -2), (-127, -64)):
        given = np.array([[x]], np.int8), np.array([[1]], np.int8)
        assert tw.reference(integers, *given)[0, 0] == rounded


def test_special_values_pass_as_ieee_754_has_them():
    spec = spec_of(lambda c, x: tw.math.exp(x) + 0 * c, m=1, n=6, k=1)
    x = np.array([np.nan, np.inf, -np.inf, 1000, -1000, 88.8], np.float32)
    given = np.zeros((1, 1), np.float32), np.ones((1, 6), np.float32), x
    found, bound = tw.reference(spec, *given), tw.error_bound(spec, *given)
    np.testing.assert_array_equal(found, [[np.nan, np.inf, 0, np.inf, 0, np.inf]])
    assert within_bound(found.astype(np.float32), found, bound).all()
    assert np.isfinite(bound).all()


def test_a_comparison_that_is_not_sure_leaves_both_outcomes():
    spec = tw.MatmulSpec(1, 2, 2, epilogue=(lambda c: tw.math.where(c > 0.5, 100, c),))
    a, b = np.array([[1, 1]], np.float32), np.array([[0.2, 0.7], [0.3, 0.1]], np.float32)
    bound = tw.error_bound(spec, a, b)
    assert bound[0, 0] > 99
    assert bound[0, 1] < 1e-5


def test_further_operands_of_the_reference_are_checked():
    spec = spec_of(tw.bias(), beta=1)
    a, b, bias = operands_of(spec)
    c = np.ones(spec.c_shape, np.float32)
    np.testing.assert_allclose(tw.reference(spec, a, b, bias, c), tw.reference(spec, a, b, bias, c=c))
    np.testing.assert_allclose(tw.reference(spec, a, b, bias, c), a @ b + bias + 1, rtol=1e-5)
    for given, match in (
        ((a, b), "0 further operands; expected 1 after a and b"),
        ((a, b, bias[:-1], c), r"operand bias: has shape \(4,\)"),
        ((a, b, bias.astype(np.float64), c), "operand bias: is of type"),
        ((a, b, bias), "operand c: is missing"),
    ):
        with pytest.raises(OperandError, match=match):
            tw.reference(spec, *given)


def test_making_a_spec_imports_no_numpy():
    program = """
        import json, sys, tilewright as tw
        tw.MatmulSpec(4, 5, 6, epilogue=(tw.bias(), tw.gelu(), lambda c, s: tw.math.tanh(c * s)))
        print(json.dumps([name for name in ("numpy", "tilewright.mlir") if name in sys.modules]))
    """
    assert json.loads(in_new_process(program)) == []


def test_halves_are_rounded_before_an_odd_zero_point_is_added():
    halves = np.arange(-8, 8, dtype=np.float32) + np.float32(0.5)
    kernel = tw.compile(tw.MatmulSpec(1, halves.size, 1, epilogue=(tw.quantize(1, 1, "i8"),)))
    np.testing.assert_array_equal(kernel(np.ones((1, 1), np.float32), halves[None])[0], np.rint(halves) + 1)


def test_exp_reaches_down_to_the_smallest_number():
    x = np.linspace(-103, -80, 64, dtype=np.float32)
    kernel = tw.compile(spec_of(tw.exp(), m=1, n=x.size, k=1))
    expected = np.exp(x.astype(np.float64))
    # In steps of the smallest number, or relative where that is more.
    assert (np.abs(kernel(np.ones((1, 1), np.float32), x[None])[0] - expected) <= 2.0**-149 + 2.0**-21 * expected).all()
