# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What kernels of 16-bit floats and 8-bit integers compute: the right numbers on every target, at their extremes too."""

import re
from dataclasses import asdict, replace

import ml_dtypes
import numpy as np
import products
import pytest
import tilewright as tw
from products import TARGETS
from strategies import STRATEGIES
from tilewright.dtypes import COMBINATIONS, Combination, to_numpy
from tilewright.emit import stages
from tilewright.errors import OperandError, SpecError
from tilewright.payload.reference import within_bound
from tilewright.schedules import make

NARROW = [types for types in COMBINATIONS if types.a != types.acc]
INTEGERS = [types for types in NARROW if types.acc == "i32"]
FLOATS = [types for types in NARROW if types.acc == "f32"]
# One with instructions for most types, one with conversions of f16 only, one with none.
LEVELS = [name for name in ("host", "x86-64-v3", "x86-64") if name in TARGETS]
BLOCKS = {"mr": 4, "nr": 32, "mc": 8, "nc": 64, "kc": 12}


def spec_of(types: Combination, m: int, n: int, k: int, beta: int = 0) -> tw.MatmulSpec:
    return tw.MatmulSpec(m, n, k, **asdict(types), beta=beta)


def compiled(spec: tw.MatmulSpec, target: str = "host", schedule: str | None = None, **sizes: int) -> tw.Kernel:
    # Not from the disk: these are tests of what the compiler makes now.
    return tw.compile(spec, target, schedule=schedule, parameters=sizes, cache=False)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("types", NARROW, ids=str)
def test_every_target_with_several_blocks_and_short_ones(types, target):
    spec = spec_of(types, 19, 75, 29, beta=TARGETS.index(target) % 2)
    products.check(compiled(spec, target, "packed", **BLOCKS), products.uniform(spec))


SHAPES = [(1, 1, 1), (2, 3, 1), (4, 32, 8), (5, 17, 3), (24, 96, 64), (3, 5, 0), (0, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("types", NARROW, ids=str)
def test_tiny_even_odd_and_empty(types, shape):
    spec = spec_of(types, *shape, beta=SHAPES.index(shape) % 2)
    products.check(compiled(spec), products.uniform(spec))


@pytest.mark.parametrize("schedule", ["unpacked", "inner_product"])
@pytest.mark.parametrize("types", NARROW, ids=str)
def test_strategies(types, schedule):
    for beta in (0, 1):
        spec = spec_of(types, 21, 1 if schedule == "inner_product" else 45, 35, beta)
        products.check(compiled(spec, schedule=schedule, mr=4, kc=32), products.uniform(spec))


@pytest.mark.parametrize("types", NARROW, ids=str)
def test_matmul_infers_the_types(types):
    if types.c != types.acc:
        pytest.skip("the accumulator's type is the default")
    spec = spec_of(types, 5, 6, 7)
    a, b, _ = products.uniform(spec)
    result = tw.matmul(a, b)
    assert result.dtype == to_numpy(spec.c_type)
    products.assert_right(spec, (a, b, result), result)


def test_types_that_do_not_go_together_are_refused():
    with pytest.raises(SpecError, match=r"A of i8, B of bf16 .* expected one of"):
        tw.MatmulSpec(2, 2, 2, a="i8", b="bf16")
    with pytest.raises(SpecError, match="A of i32, B of i64"):
        tw.MatmulSpec(2, 2, 2, a="i32", b="i64")


@pytest.mark.parametrize("target", [each.target.name for each in tw.targets()])
@pytest.mark.parametrize("types", NARROW, ids=str)
def test_nothing_is_called_to_convert_elements(types, target):
    # Such functions, of the compiler's library, need not be there where an object is linked.
    spec, row = spec_of(types, 5, 19, 3, beta=1), tw.targets.resolve(target)
    plan = make.make(spec, row, "packed")
    called = re.findall(r"\bcallq?\s+\*?(\S+)", stages.build(spec, row, plan, until="asm").texts["asm"])
    assert not [name for name in called if name.startswith("__")]


# Operands.


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (np.float16, r"operand a: element type float16; expected bfloat16. Convert with a.astype\('bfloat16'\)"),
        (np.uint16, "element type uint16; expected bfloat16"),
        (np.dtype("V2"), r"element type \|V2; expected bfloat16"),
        (np.float32, "element type float32; expected bfloat16"),
    ],
)
def test_only_bf16_is_bf16(found, message):
    kernel = tw.compile(tw.MatmulSpec(2, 3, 4, a="bf16"))
    a, b = np.zeros((2, 4), found), np.zeros((4, 3), ml_dtypes.bfloat16)
    with pytest.raises(OperandError, match=message):
        kernel(a, b)


def test_signs_are_told_apart():
    kernel = tw.compile(tw.MatmulSpec(2, 3, 4, a="u8", b="i8"))
    u8, i8 = np.zeros((2, 4), np.uint8), np.zeros((4, 3), np.int8)
    assert kernel(u8, i8).dtype == np.int32
    with pytest.raises(OperandError, match="element type int8; expected uint8"):
        kernel(u8.view(np.int8), i8)
    with pytest.raises(OperandError, match="element type uint8; expected int8"):
        kernel(u8, i8.view(np.uint8))
    with pytest.raises(
        OperandError, match=r"operand out: element type int64; expected int32. Allocate it with numpy.empty"
    ):
        kernel(u8, i8, out=np.zeros((2, 3), np.int64))


def test_alignment_and_byte_order_of_16_bits():
    kernel = tw.compile(tw.MatmulSpec(2, 3, 4, a="f16"))
    a, b = np.zeros((2, 4), np.float16), np.zeros((4, 3), np.float16)
    with pytest.raises(OperandError, match="its first element lies 1 bytes off a multiple"):
        kernel(np.zeros(17, np.uint8)[1:].view(np.float16).reshape(2, 4), b)
    with pytest.raises(OperandError, match="element type >f2; expected float16"):
        kernel(a.astype(">f2"), b)
    with pytest.raises(OperandError, match="the elements of a row are not adjacent"):
        kernel(a, np.zeros((3, 4), np.float16).T)


# Integers.


def extremes(spec: tw.MatmulSpec, random: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
    """Operands of the largest and smallest numbers only, and of these with those beside zero."""
    limits = [np.iinfo(to_numpy(each)) for each in (spec.a_type, spec.b_type)]
    shapes = (spec.a_shape, spec.b_shape)
    same = [
        tuple(np.full(shape, value, limit.dtype) for shape, value, limit in zip(shapes, pair, limits, strict=True))
        for pair in ((limits[0].min, limits[1].min), (limits[0].min, limits[1].max), (limits[0].max, limits[1].min))
    ]
    mixed = [
        tuple(
            random.choice(np.array([limit.min, limit.min + 1, 0, 1, limit.max - 1, limit.max]), shape).astype(
                limit.dtype
            )
            for shape, limit in zip(shapes, limits, strict=True)
        )
        for _ in range(3)
    ]
    largest = tuple(np.full(shape, limit.max, limit.dtype) for shape, limit in zip(shapes, limits, strict=True))
    return [*same, largest, *mixed]


@pytest.mark.parametrize("schedule", STRATEGIES)
@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("types", INTEGERS, ids=str)
def test_integers_are_exact_at_their_extremes(types, target, schedule):
    spec = spec_of(types, 7, 1 if schedule == "inner_product" else 33, 131)
    kernel = compiled(spec, target, schedule)
    for a, b in extremes(spec, np.random.default_rng(0)):
        np.testing.assert_array_equal(kernel(a, b), a.astype(np.int64) @ b.astype(np.int64))


@pytest.mark.parametrize("types", INTEGERS, ids=str)
def test_sums_beyond_i32_wrap_around(types):
    spec = spec_of(types, 2, 3, 8, beta=1)
    random = np.random.default_rng(0)
    kernel = compiled(spec)
    for a, b in extremes(spec, random):
        former = random.choice(np.array([-(2**31), 2**31 - 1]), spec.c_shape).astype(np.int32)
        c = former.copy()
        kernel(a, b, out=c)
        exact = former + a.astype(np.int64) @ b.astype(np.int64)
        np.testing.assert_array_equal(c, (exact + 2**31) % 2**32 - 2**31)
        np.testing.assert_array_equal(c, tw.reference(spec, a, b, former))
        assert not tw.error_bound(spec, a, b, former).any()


def test_a_long_sum_wraps_around():
    spec = tw.MatmulSpec(1, 1, 33027, a="u8")
    a, b = np.full(spec.a_shape, 255, np.uint8), np.full(spec.b_shape, 255, np.uint8)
    assert compiled(spec)(a, b)[0, 0] == 33027 * 255 * 255 - 2**32 == tw.reference(spec, a, b)[0, 0]


# 16-bit floats.


def special(spec: tw.MatmulSpec, share: float, seed: int) -> tuple[np.ndarray, ...]:
    """Operands of `spec` of which a part are NaN, infinite, subnormal or the largest there are."""
    random = np.random.default_rng(seed)

    def spoil(x: np.ndarray) -> np.ndarray:
        limits = ml_dtypes.finfo(x.dtype)
        choice = [
            np.nan,
            np.inf,
            -np.inf,
            0.0,
            -0.0,
            1.0,
            limits.max,
            -limits.max,
            limits.tiny,
            limits.smallest_subnormal,
        ]
        picked = random.choice(np.array(choice, np.float64), x.shape).astype(x.dtype)
        return np.where(random.random(x.shape) < share, picked, x)

    return tuple(spoil(each) for each in products.uniform(spec, seed))


@pytest.mark.parametrize("schedule", STRATEGIES)
@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("types", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_inf_subnormal_and_largest(types, target, schedule):
    spec = spec_of(types, 13, 1 if schedule == "inner_product" else 37, 9, beta=1)
    kernel = compiled(spec, target, schedule)
    for seed, share in enumerate((0.01, 0.05, 0.5)):
        a, b, former = special(spec, share, seed)
        c = former.copy()
        kernel(a, b, out=c)
        expected, bound = tw.reference(spec, a, b, former), tw.error_bound(spec, a, b, former)
        assert within_bound(c, expected, bound).all()
        # Something is promised of most elements.
        assert np.isfinite(bound).mean() > (0.4 if share < 0.5 else 0.2)


def every_number(dtype: np.dtype) -> np.ndarray:
    """Each of the 65536 numbers of a 16-bit type, NaN among them, as a column."""
    return np.arange(2**16, dtype=np.uint16).view(dtype).reshape(-1, 1)


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("types", FLOATS, ids=str)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_number_times_one_is_itself(types, target):
    a = every_number(to_numpy(tw.dtypes.dtype(types.a)))
    spec = spec_of(types, len(a), 1, 1)
    result = compiled(spec, target, "unpacked")(a, np.ones((1, 1), a.dtype)).astype(np.float64)
    expected = a.astype(np.float64)
    normal = ~(np.abs(expected) < np.finfo(np.float32).tiny)
    np.testing.assert_array_equal(result[normal], expected[normal])
    # Numbers that are subnormal in f32 too may become zero.
    assert np.isin(result[~normal] / expected[~normal], (0.0, 1.0)).all() or (expected[~normal] == 0).any()


@pytest.mark.parametrize("target", LEVELS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sums_are_rounded_to_the_nearest_once(dtype, target):
    # Products of two numbers are exact in f32, so that the result is the correctly rounded one, ties to even.
    random = np.random.default_rng(1)
    spec = tw.MatmulSpec(256, 257, 1, a=dtype, c=dtype)
    numpy_type = to_numpy(spec.a_type)
    for low, high in ((-3, 3), (-13, 9), (-8, -4)):
        a, b = (
            (random.uniform(1, 2, shape) * 2.0 ** random.integers(low, high, shape)).astype(numpy_type)
            for shape in (spec.a_shape, spec.b_shape)
        )
        exact = a.astype(np.float32) * b.astype(np.float32)
        result = compiled(spec, target)(a, b)
        np.testing.assert_array_equal(result.astype(np.float64), exact.astype(numpy_type).astype(np.float64))


def test_the_same_numbers_as_a_wider_result_rounded():
    wide, narrow = tw.MatmulSpec(17, 33, 65, a="bf16"), tw.MatmulSpec(17, 33, 65, a="bf16", c="bf16")
    a, b, _ = products.uniform(wide)
    for schedule in ("packed", "unpacked"):
        result = compiled(wide, schedule=schedule)(a, b).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(compiled(narrow, schedule=schedule)(a, b), result)


def test_the_former_c_is_a_term_of_the_sum():
    # 256 + 1 + 1: added one at a time to a C of bf16, which has 8 bits, nothing would change.
    spec = tw.MatmulSpec(1, 1, 2, a="bf16", c="bf16", beta=1)
    a, b = np.ones((1, 2), ml_dtypes.bfloat16), np.ones((2, 1), ml_dtypes.bfloat16)
    c = np.full((1, 1), 256, ml_dtypes.bfloat16)
    assert compiled(spec)(a, b, out=c)[0, 0] == 258
    # Without products it stays as it is, whatever rounding does to subnormal numbers.
    c = np.array([[ml_dtypes.finfo(ml_dtypes.bfloat16).smallest_subnormal]])
    assert compiled(replace(spec, k=0))(a[:, :0], b[:0], out=c)[0, 0] != 0
