# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""8-bit floats and 4-bit elements: every value is widened exactly, results are rounded to nearest, odd rows end in a byte."""

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from products import LEVELS
from tilewright.dtypes import DTYPES, SMALL_FLOATS, STORED, dtype, to_numpy
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

FLOATS = SMALL_FLOATS
FOURS = tuple(name for name, row in DTYPES.items() if row.packed > 1)


def codes(name: str) -> np.ndarray:
    """Every number of a type, in the order of its codes, as it is stored in a row."""
    if dtype(name).packed > 1:
        return np.arange(0, 256, 0x22, dtype=np.uint8)[:8] + np.uint8(0x10)
    return np.arange(256, dtype=np.uint8).view(to_numpy(dtype(name)))


def numbers(name: str) -> np.ndarray:
    """The same in float32."""
    stored = codes(name)
    return (tw.unpack_nibbles(stored, name, 16) if stored.dtype == np.uint8 else stored).astype(np.float32)


@pytest.mark.parametrize("target", ["host", *LEVELS])
@pytest.mark.parametrize("name", [*FLOATS, *FOURS])
def test_every_code_is_widened_exactly(name, target):
    expected, count = numbers(name), numbers(name).size
    spec = tw.MatmulSpec(m=1, n=count, k=1, a="f32", b=name)
    np.testing.assert_array_equal(
        tw.compile(spec, target=target)(np.ones((1, 1), np.float32), codes(name)[None])[0], expected
    )
    for schedule, wide in (("streamed", "bf16"), ("packed", "f16")):
        one = np.zeros((1, 64), to_numpy(dtype(wide)))
        one[0, 5] = 1
        b = np.zeros((64, codes(name).size), codes(name).dtype)
        b[5] = codes(name)
        kernel = tw.compile(tw.MatmulSpec(m=1, n=count, k=64, a=wide, b=name), target=target, schedule=schedule)
        np.testing.assert_array_equal(kernel(one, b)[0], expected)


@pytest.mark.parametrize("name", FLOATS)
def test_every_code_is_widened_exactly_along_k(name):
    kernel = tw.compile(tw.MatmulSpec(m=1, n=256, k=64, a=name, layout="nt"), schedule="inner_product")
    one, b = np.zeros((1, 64), to_numpy(dtype(name))), np.zeros((256, 64), to_numpy(dtype(name)))
    one[0, 37], b[:, 37] = 1, codes(name)
    np.testing.assert_array_equal(kernel(one, b)[:, :][0], numbers(name))


@pytest.mark.parametrize("target", ["host", "x86-64-v2"])
@pytest.mark.parametrize("name", FLOATS)
def test_results_are_rounded_to_nearest_and_what_is_too_large_is_not_the_largest(name, target):
    every = np.arange(2**16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    every = every[np.abs(every.astype(np.float32)) >= 2.0**-100]  # below, dot products of bf16 have zeros
    every = np.append(every, np.full(-every.size % 256, np.nan, ml_dtypes.bfloat16)).reshape(-1, 256)
    kernel = tw.compile(
        tw.MatmulSpec(m=1, n=256, k=1, a="bf16", c=name, batch=(len(every),), a_batch=()), target=target
    )
    found = kernel(np.ones((1, 1), ml_dtypes.bfloat16), every[:, None])[:, 0]
    with np.errstate(invalid="ignore"):
        expected = every.astype(np.float32).astype(to_numpy(dtype(name)))
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("name", FLOATS)
def test_the_bound_of_a_rounded_result_holds_and_says_where_it_overflows(name):
    spec = tw.MatmulSpec(m=9, n=17, k=33, a=name, c=name, beta=1)
    random = np.random.default_rng(2)
    a, b, c = (values(random, shape, dtype(name)) for shape in ((9, 33), (33, 17), (9, 17)))
    largest = float(ml_dtypes.finfo(a.dtype).max)
    a[0], b[:, 3], a[1, 1], b[2, 5] = largest, min(largest, 16), np.nan, -np.nan
    former, expected, bound = c.copy(), tw.reference(spec, a, b, c), tw.error_bound(spec, a, b, c)
    result = tw.compile(spec)(a, b, out=former).astype(np.float32)
    assert within_bound(result, expected, bound).all()
    assert not np.isfinite(result[0, 3])
    assert np.isnan(result[0, 3]) == dtype(name).finite
    assert np.isnan(result[1]).all()
    assert np.isnan(result[:, 5]).all()


@pytest.mark.parametrize(("a", "b"), [("i8", "i4"), ("u8", "u4"), ("i8", "u4"), ("u8", "i4"), ("i4", "u4")])
def test_extreme_integers_are_exact(a, b):
    random = np.random.default_rng(3)
    spec = tw.MatmulSpec(m=7, n=33, k=65, a=a, b=b)
    operands = [values(random, each.shape, each.type) for each in spec.operands]
    for operand, each in zip(operands, spec.operands, strict=True):
        least = {"i8": -128, "u8": 255, "i4": 0x88, "u4": 0xFF}[each.type.name]
        operand[:2] = least
    assert (tw.compile(spec)(*operands) == tw.reference(spec, *operands)).all()


def test_every_format_of_four_bits_round_trips():
    for name in FOURS:
        for count in (0, 1, 5, 16):
            stored = np.random.default_rng(4).integers(0, 256, (3, -(-count // 2)), np.uint8)
            elements = tw.unpack_nibbles(stored, name, count)
            assert elements.shape == (3, count)
            assert elements.dtype == to_numpy(dtype(name))
            packed = tw.pack_nibbles(elements)
            if count % 2:
                stored[:, -1] &= 15
            np.testing.assert_array_equal(packed, stored)


def test_nibbles_that_are_none_are_refused():
    with pytest.raises(tw.OperandError, match="one of ml_dtypes' float4_e2m1fn, int4, uint4"):
        tw.pack_nibbles(np.zeros((2, 2), np.int8))
    with pytest.raises(tw.OperandError, match="2 bytes along the last axis"):
        tw.unpack_nibbles(np.zeros((2, 3), np.uint8), "i4", 4)
    with pytest.raises(tw.SpecError, match="i8 has 8 bits"):
        tw.unpack_nibbles(np.zeros((2, 3), np.uint8), "i8", 6)


def test_elements_of_a_byte_each_are_told_how_to_become_two():
    kernel = tw.compile(tw.MatmulSpec(m=2, n=4, k=3, a="i8", b="i4"))
    with pytest.raises(tw.OperandError, match=r"tilewright.pack_nibbles\(b\)"):
        kernel(np.zeros((2, 3), np.int8), np.zeros((3, 4), ml_dtypes.int4))
    with pytest.raises(tw.OperandError, match=r"expected \(3, 2\)"):
        kernel(np.zeros((2, 3), np.int8), np.zeros((3, 4), np.uint8))


def test_specs_say_what_small_types_cannot():
    with pytest.raises(tw.SpecError, match="f8E8M0FNU for scales"):
        tw.MatmulSpec(2, 2, 2, a="f8E8M0FNU")
    with pytest.raises(tw.SpecError, match="two elements in a byte along a dynamic extent"):
        tw.MatmulSpec(2, None, 2, a="i8", b="i4")
    with pytest.raises(tw.SpecError, match="b_packed with a B of i4"):
        tw.MatmulSpec(2, 2, 2, a="i8", b="i4", b_packed=True)
    assert tw.MatmulSpec(None, 5, 3, a="i8", b="i4", layout="nt").operands[1].stored == (5, 2)
    assert set(STORED) == {*FLOATS, *FOURS, "f8E8M0FNU"}


def test_two_strategies_read_rows_that_end_within_a_byte():
    random = np.random.default_rng(5)
    for layout, schedule in (("nn", "streamed"), ("nt", "inner_product"), ("tt", "packed")):
        spec = tw.MatmulSpec(m=3, n=37, k=131, a="f4E2M1FN", b="i4", layout=layout)
        operands = [values(random, each.shape, each.type) for each in spec.operands]
        result = tw.compile(spec, schedule=schedule)(*operands)
        assert within_bound(result, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
