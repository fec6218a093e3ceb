# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""erf by a table, with AVX-512: as exact as is said at the ends of its intervals, the same bits in vectors of any length."""

import math

import numpy as np
import pytest
import tilewright as tw
from tilewright.lowering.types.table_functions import _MOST, _WIDTH

TARGET = tw.targets.get("x86-64-v4")
pytestmark = pytest.mark.skipif(bool(tw.targets.runnable(TARGET)), reason="AVX-512 is absent")
ERF = (tw.function(lambda c: tw.math.erf(c)),)


def computed(x):
    """Erf of each number, in vectors as long as `x`."""
    return tw.compile(tw.MatmulSpec(1, x.size, 1, epilogue=ERF), TARGET)(np.ones((1, 1), np.float32), x[None])[0]


def test_the_largest_error():
    ends = np.array([*((i + 0.5) * _WIDTH for i in range(15)), _MOST, 1e-30, 1e-5, 0.01, 0.1], np.float32)
    near = ends.view(np.int32)[:, None] + np.arange(-40, 40, dtype=np.int32)
    within = np.random.default_rng(0).uniform(0, 4, 3000).astype(np.float32)
    x = np.concatenate([near.view(np.float32).ravel(), within])
    x = np.concatenate([x, -x])
    exact = np.vectorize(math.erf)(x.astype(np.float64))
    errors = np.abs(computed(x) - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert errors.max() < 1.86
    assert (np.abs(computed(x)) <= 1).all()


def test_what_is_no_usual_number():
    x = np.array([np.inf, -np.inf, np.nan, 0, 1e-45, 7, -3e38], np.float32)
    np.testing.assert_array_equal(computed(x), np.array([1, -1, np.nan, 0, 1e-45, 1, -1], np.float32))


@pytest.mark.parametrize("count", [1, 3, 8, 17])
def test_short_vectors_have_the_same_bits(count):
    x = np.linspace(-4, 4, 64, dtype=np.float32)
    assert computed(x)[:count].tobytes() == computed(x[:count]).tobytes()
