# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""C = alpha·A·B + beta·C: factors that a spec or a call tells, in every strategy, type and entry, and what is never read."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from strategies import STRATEGIES
from test_kernel_epilogues import assert_right, random_operands
from tilewright.errors import OperandError, SpecError
from tilewright.payload.samples import values
from tilewright.targets import gpu

FACTORS = [(2.5, 0), (-0.75, 1), (1, 0.5), (0, -2), ("arg", 0), (1, "arg"), ("arg", "arg")]
TYPES: dict[str, dict[str, Any]] = {
    "f64": {"a": "f64"},
    "bf16": {"a": "bf16", "c": "bf16"},
    "f16 to f32": {"a": "f16"},
    "i8": {"a": "i8"},
    "u8 by i8": {"a": "u8", "b": "i8"},
}


@cache
def compiled(spec: tw.MatmulSpec, target: str = "host", schedule: str | None = None, threads: int = 1) -> tw.Kernel:
    return tw.compile(spec, target, threads, schedule)


def check(
    kernel: tw.Kernel, alpha: float = 0.75, beta: float = -1.5, called: tw.MatmulSpec | None = None
) -> np.ndarray:
    """Checks a call of `kernel`, of extents that `called` has, with factors that the spec leaves to calls."""
    spec = kernel.spec if called is None else called
    operands, former = random_operands(spec)
    for number, each in enumerate(spec.operands):
        if each in spec.scalars:
            operands[number] = np.array({"alpha": alpha, "beta": beta}[each.name], operands[number].dtype)
    result = former.copy()
    given = [operands[0], kernel.pack_b(operands[1]) if spec.b_packed else operands[1], *operands[2:]]
    assert kernel(*given, out=result) is result
    assert_right(spec, operands, former, result)
    return result


@pytest.mark.parametrize("factors", FACTORS, ids=str)
@pytest.mark.parametrize("schedule", STRATEGIES)
def test_numbers_in_every_strategy(schedule, factors):
    alpha, beta = factors
    spec = tw.MatmulSpec(19, 1 if schedule == "inner_product" else 37, 41, alpha=alpha, beta=beta)
    check(compiled(spec, schedule=schedule))


def test_numbers_are_those_of_the_formula():
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((5, 300), (300, 33), (5, 33)))
    kernel, result = compiled(tw.MatmulSpec(5, 33, 300, alpha="arg", beta="arg")), c.copy()
    kernel(a, b, out=result, alpha=-2.5, beta=0.5)
    wide = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    bound = 305 * 2.0**-24 * (2.5 * abs(wide[0]) @ abs(wide[1]) + 0.5 * abs(wide[2]))
    assert (abs(result - (-2.5 * wide[0] @ wide[1] + 0.5 * wide[2])) <= bound).all()


@pytest.mark.parametrize(("types", "layout"), [*zip(TYPES, ("nn", "nt", "tn", "tt", "nt"), strict=True)])
def test_numbers_in_every_type_and_layout(types, layout):
    whole = types in ("i8", "u8 by i8")
    spec = tw.MatmulSpec(19, 37, 41, layout=layout, alpha="arg", beta="arg", **TYPES[types])
    check(compiled(spec), *((3, -2) if whole else (0.75, -1.5)))
    fixed = tw.MatmulSpec(19, 37, 41, layout=layout, alpha=-7, beta=5, **TYPES[types])
    check(compiled(fixed))


def test_integers_wrap_around():
    spec = tw.MatmulSpec(2, 3, 4, a="i8", alpha=2**30, beta=2**30)
    a, b, c = np.full((2, 4), 3, np.int8), np.full((4, 3), 5, np.int8), np.full((2, 3), 9, np.int32)
    expected = np.int32(((2**30 * (60 + 9) + 2**31) % 2**32) - 2**31)
    assert (compiled(spec)(a, b, out=c) == expected).all()


@pytest.mark.parametrize("factors", [(0.75, -1.5), (0, 2), (0, 0)], ids=str)
def test_dynamic_extents(factors):
    kernel = compiled(tw.MatmulSpec(None, None, None, alpha="arg", beta="arg"))
    for shape in ((19, 37, 41), (5, 1, 70), (3, 4, 0), (0, 4, 3), (40, 130, 4200)):
        check(kernel, *factors, called=kernel.spec.at(*shape))


@pytest.mark.parametrize("factors", [(0.75, -1.5), (0, 2)], ids=str)
@pytest.mark.parametrize(
    "fields",
    [
        {"batch": (3,), "b_batch": ()},
        {"batch": (2, 2), "a": "bf16", "c": "bf16"},
        {"b_packed": True},
        {"epilogue": (tw.bias(), tw.gelu(), tw.residual("mn"))},
        {"deterministic": True},
        {"b": "i8", "prologue_b": (tw.dequantize("n"),)},
    ],
    ids=str,
)
def test_with_other_fields(fields, factors):
    check(compiled(tw.MatmulSpec(19, 37, 48, alpha="arg", beta="arg", **fields)), *factors)


def test_several_threads_and_softmax():
    check(compiled(tw.MatmulSpec(160, 192, 160, alpha="arg", beta="arg"), threads=2))
    check(compiled(tw.MatmulSpec(19, 37, 41, alpha="arg", epilogue=(tw.bias(), tw.softmax(), tw.bias("m")))))


def test_operands_of_an_epilogue_may_have_the_names_of_factors():
    spec = tw.MatmulSpec(3, 17, 5, alpha="arg", beta="arg", epilogue=(lambda c, alpha, beta: c * alpha + beta,))
    assert [each.name for each in spec.operands] == ["a", "b", "alpha_2", "beta_2", "alpha", "beta"]
    check(compiled(spec))


@pytest.mark.parametrize("schedule", STRATEGIES)
def test_nan_in_a_former_c_stays_out_with_beta_0(schedule):
    spec = tw.MatmulSpec(7, 1 if schedule == "inner_product" else 37, 41, beta="arg")
    operands, former = random_operands(spec)
    former[...] = np.nan
    result = compiled(spec, schedule=schedule)(*operands[:2], out=former, beta=0.0)
    plain = spec.plain_sums
    assert (abs(result - tw.reference(plain, *operands[:2])) <= tw.error_bound(plain, *operands[:2])).all()


@pytest.mark.parametrize("fields", [{}, {"batch": (2,)}, {"b_packed": True}, {"epilogue": (tw.bias(),)}], ids=str)
def test_nan_in_a_and_b_stays_out_with_alpha_0(fields):
    spec = tw.MatmulSpec(7, 37, 41, alpha="arg", beta=0.5, **fields)
    kernel, (operands, former) = compiled(spec), random_operands(spec)
    bias = operands[2] if "epilogue" in fields else np.float32(0)
    operands[0][...] = operands[1][...] = np.nan
    result = former.copy()
    given = [operands[0], kernel.pack_b(operands[1]) if spec.b_packed else operands[1], *operands[2:-1]]
    kernel(*given, out=result, alpha=0)
    assert (result == bias + np.float32(0.5) * former).all()


def test_alpha_0_reads_neither_a_nor_b():
    in_new_process(
        """
        import ctypes
        import numpy as np
        import tilewright as tw

        PARAMETERS = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64] * 3 + [ctypes.c_void_p] * 2
        one = ctypes.addressof(half := ctypes.c_float(0.5))
        none = ctypes.addressof(zero := ctypes.c_float(0))
        c = np.ones((19, 37), np.float32)
        for fields in ({"m": 19, "n": 37, "k": 41}, {"m": None, "n": None, "k": None}):
            for alpha, factors in (("arg", [none, one]), (0, [one])):
                kernel = tw.compile(tw.MatmulSpec(**fields, alpha=alpha, beta="arg"))
                call = ctypes.CFUNCTYPE(ctypes.c_int32, *PARAMETERS[: 9 + len(factors)])(kernel.c_function.address)
                # Nothing is mapped at address 8.
                assert call(19, 37, 41, 8, 41, 8, 37, c.ctypes.data, 37, *factors) == 0
        assert (c == 0.5**4).all()
        """
    )


def test_the_c_entry_takes_pointers_to_factors():
    spec = tw.MatmulSpec(5, 6, 7, a="f64", alpha="arg", beta="arg")
    kernel, (operands, former) = compiled(spec), random_operands(spec)
    assert kernel.c_function.prototype.endswith("int64_t ldc, const double *alpha, const double *beta)")
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    matrix = (pointer, integer)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[integer] * 3, *matrix * 3, pointer, pointer)(
        kernel.c_function.address
    )
    a, b, alpha, beta = operands
    result = former.copy()
    places = [each.ctypes.data for each in (a, b, result, alpha, beta)]
    assert function(5, 6, 7, places[0], 7, places[1], 6, places[2], 6, *places[3:]) == 0
    assert_right(spec, operands, former, result)
    assert function(5, 6, 8, places[0], 7, places[1], 6, places[2], 6, *places[3:]) == 1


def test_a_header_declares_the_factors(tmp_path):
    spec = tw.MatmulSpec(5, 6, 7, alpha="arg", beta=0.5)
    compiled(spec).write(tmp_path / "k.h", name="scaled")
    text = (tmp_path / "k.h").read_text()
    assert "C = *alpha * A * B + 0.5 * C" in text
    assert re.search(r"int32_t scaled\(.*int64_t ldc, const float \*alpha\);", text)


def test_column_major_callers_swap_the_operands():
    """C = alpha·A·B + beta·C of column-major matrices is C' = alpha·B'·A' + beta·C' of their transposes, which are row-major."""
    rng = np.random.default_rng(0)
    a, b, c = (np.asfortranarray(rng.uniform(-1, 1, shape)) for shape in ((19, 41), (41, 37), (19, 37)))
    kernel = compiled(tw.MatmulSpec(37, 19, 41, a="f64", alpha="arg", beta="arg"))
    expected = 0.75 * (a @ b) - 1.5 * c
    kernel(b.T, a.T, out=c.T, alpha=0.75, beta=-1.5)
    np.testing.assert_allclose(c, expected, rtol=0, atol=50 * 2.0**-53 * 41)
    # A transposed A of a column-major caller is row-major: the second letter of the layout.
    turned = compiled(tw.MatmulSpec(37, 19, 41, a="f64", layout="nt"))
    np.testing.assert_allclose(turned(b.T, np.ascontiguousarray(a)).T, a @ b, rtol=0, atol=50 * 2.0**-53 * 41)


@pytest.mark.parametrize(
    ("types", "given", "match"),
    [
        ({}, {"alpha": "2"}, "operand alpha: a str|operand alpha: .*str is not a numpy array"),
        ({"a": "i8"}, {"alpha": 0.5}, "operand alpha: the number is 0.5; expected a number that int32 holds"),
        (
            {"a": "i8"},
            {"alpha": 2**40},
            "operand alpha: the number is 1099511627776; expected a number that int32 holds",
        ),
        ({}, {"alpha": np.zeros(1, np.float32)}, r"operand alpha: shape \(1,\); expected \(\)"),
    ],
)
def test_what_is_no_factor_is_refused(types: dict[str, Any], given: dict[str, Any], match: str):
    spec = tw.MatmulSpec(3, 4, 5, alpha="arg", **types)
    operands, _ = random_operands(spec)
    with pytest.raises(OperandError, match=match):
        compiled(spec)(*operands[:2], **given)
    with pytest.raises(TypeError, match="alpha is missing"):
        compiled(spec)(*operands[:2])


def test_a_result_is_needed_where_something_is_added_to_it():
    spec = tw.MatmulSpec(3, 4, 5, beta="arg")
    with pytest.raises(OperandError, match="the kernel adds to it"):
        compiled(spec)(*random_operands(spec)[0])


@pytest.mark.parametrize("target", ["neoverse-n1", "neoverse-v1", "armv9-a+sme", "rv64gcv"])
def test_emulated_processors(target):
    kernel = compiled(tw.MatmulSpec(19, 37, 41, alpha="arg", beta="arg"), target)
    if kernel.refusal is not None:
        pytest.skip(str(kernel.refusal))
    check(kernel)
    check(kernel, 0, 2)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("sm_80", "f32"),
        ("sm_80", "f16"),
        ("sm_90a", "bf16"),
        ("sm_100a", "bf16"),
        ("gfx942", "bf16"),
        ("gfx1100", "f16"),
    ],
)
def test_gpus(name, dtype):
    card = gpu(name)
    assert card is not None
    kernel = tw.compile(tw.MatmulSpec(33, 40, 48, a=dtype, alpha="arg", beta="arg"), card.emulated())
    rng = np.random.default_rng(0)
    a, b = (values(rng, each.shape, each.type) for each in kernel.spec.operands[:2])
    c = values(rng, kernel.spec.c_shape, kernel.spec.c_type)
    for alpha, beta in ((0.75, -1.5), (0, 2.0), (1.5, 0)):
        former = c.copy()
        result = kernel(a, b, out=c.copy(), alpha=alpha, beta=beta)
        given = (a, b, alpha, beta, former)
        expected, bound = tw.reference(kernel.spec, *given), tw.error_bound(kernel.spec, *given)
        assert (abs(result - expected) <= bound).all()
    a[...] = b[...] = np.nan
    assert (kernel(a, b, out=c.copy(), alpha=0, beta=1) == c).all()
    c[...] = np.nan
    assert not kernel(a, b, out=c, alpha=0, beta=0).any()


def test_a_gpu_multiplies_nothing_with_alpha_0():
    card = gpu("sm_80")
    assert card is not None
    kernel = tw.compile(tw.MatmulSpec(33, 40, 48, alpha=0, beta=0.5), card.emulated())
    a, b, c = (np.ones(shape, np.float32) for shape in ((33, 48), (48, 40), (33, 40)))
    assert (kernel(a, b, out=c) == 0.5).all()


def test_a_chain_scales_its_products():
    first, second = tw.MatmulSpec(8, 16, 24, alpha=0.5), tw.MatmulSpec(8, 12, 16, alpha="arg")
    rng = np.random.default_rng(0)
    a, b, d = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((8, 24), (24, 16), (16, 12)))
    result = tw.compile_chain([first, second])(a, b, d, np.array(3, np.float32))
    np.testing.assert_allclose(result, 1.5 * (a.astype(np.float64) @ b) @ d, rtol=0, atol=24 * 16 * 4 * 2.0**-24)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"alpha": "2"}, "alpha is '2'; expected a finite number, or 'arg'"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"beta": float("inf")}, "beta is inf"),
        ({"alpha": True}, "alpha is True"),
        ({"alpha": None}, "alpha is None"),
        ({"a": "i8", "alpha": 0.5}, "alpha is 0.5; expected an int of 32 bits, or 'arg'"),
        ({"a": "i8", "beta": 2**31}, "beta is 2147483648; expected an int of 32 bits"),
        ({"alpha": 2, "epilogue": (tw.glu("silu"),)}, "alpha 2.0 with glu is not supported yet"),
        ({"beta": "arg", "epilogue": (tw.softmax(),)}, "beta arg with softmax"),
        ({"a": "i8", "beta": 2, "epilogue": (tw.dequantize(0.5), tw.quantize(1))}, "beta 2 with C of i8"),
    ],
)
def test_factors_are_checked(fields, match):
    with pytest.raises(SpecError, match=match):
        tw.MatmulSpec(2, 3, 4, **fields)


def test_factors_of_1_and_0_are_the_plain_product():
    assert tw.MatmulSpec(2, 3, 4, alpha=1.0, beta=0.0) == tw.MatmulSpec(2, 3, 4)
    assert str(tw.MatmulSpec(2, 3, 4, alpha=1.0, beta=1.0)) == "2x3x4 f32 nn beta=1"
    assert str(tw.MatmulSpec(2, 3, 4, alpha="arg", beta=0.5)) == "2x3x4 f32 nn alpha=arg beta=0.5"
    assert not tw.MatmulSpec(2, 3, 4, c="f32", beta=1).fused
