# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The terms of error bounds, one by one, against the types themselves."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright.dtypes import DTYPES, to_numpy
from tilewright.payload import rounding

FLOATS = [each for each in DTYPES.values() if each.kind == "float" and each.packed == 1 and each.bits < 64]
FLOATS.remove(DTYPES["f8E8M0FNU"])  # Scales: nothing is rounded to it.
TINY = 2.0**-126


@pytest.mark.parametrize("element", FLOATS, ids=str)
def test_overflow_begins_where_conversion_gives_no_number(element):
    kind = to_numpy(element)
    wider = np.float64 if element.bits == 32 else np.float32
    least = rounding.overflow(element)
    above = wider(least) if float(wider(least)) >= least else np.nextafter(wider(least), wider(np.inf))
    below = np.nextafter(above, wider(0))
    with np.errstate(over="ignore"):
        assert not np.isfinite(np.array(above).astype(kind).astype(np.float64))
        assert np.array(below).astype(kind) == rounding.limits(element).max
        found = np.array(above).astype(kind).astype(np.float64)
    assert np.array_equal(found, rounding.beyond(element), equal_nan=True)


def test_what_is_flushed_is_as_documented():
    spec = tw.MatmulSpec(1, 1, 3, a="bf16")
    a = np.array([[1, 2.0**-130, 4]], ml_dtypes.bfloat16)
    b = np.array([[3], [2], [2.0**-128]], ml_dtypes.bfloat16)
    # A zero for each of three products, three sums, the former C and the result; and two products with a factor below t.
    assert rounding.flushed(spec, a, b)[0, 0] == pytest.approx(
        8 * TINY + 2 * 2.0**-130 + 4 * 2.0**-128, rel=1e-12, abs=0
    )


@pytest.mark.parametrize(
    ("x", "y", "met"),
    [(np.inf, 2.0**-130, True), (2.0**-130, np.inf, True), (np.inf, TINY, False), (np.inf, 0, False), (1, 1, False)],
)
def test_an_infinity_that_meets_what_may_be_zero(x, y, met):
    a, b = (np.full(shape, value, ml_dtypes.bfloat16) for shape, value in (((1, 1), x), ((1, 1), y)))
    assert rounding.infinite_times_tiny(tw.MatmulSpec(1, 1, 1, a="bf16"), a, b)[0, 0] == met
    wide = a.astype(np.float32), b.astype(np.float32)
    assert not rounding.infinite_times_tiny(tw.MatmulSpec(1, 1, 1), *wide)[0, 0]


def test_gamma_is_all_of_it_from_as_many_roundings_on_as_a_unit_has():
    assert rounding.gamma(3, 0.25) == pytest.approx(3)
    assert rounding.gamma(4, 0.25) == np.inf


def test_tf32_loses_all_but_ten_bits_of_both_factors():
    exact, lost = tw.MatmulSpec(1, 1, 1), tw.MatmulSpec(1, 1, 1, tf32=True)
    assert rounding.shortened(exact) == 0
    assert rounding.shortened(lost) == pytest.approx((1 + 2.0**-10) ** 2 - 1, rel=1e-12)
