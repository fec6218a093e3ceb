# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How errors grow: whatever the numbers really are, what is computed of them lies within the error of the result."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tilewright.payload import propagation
from tilewright.payload.propagation import Known

PYTHON = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def known(value: float, error: float = 0.0) -> Known:
    return Known(np.array([value]), np.array([error]))


@pytest.mark.parametrize("op", PYTHON)
def test_every_number_of_the_intervals_stays_within_the_error(op):
    random = np.random.default_rng(0)
    for _ in range(200):
        x, y = random.uniform(-4, 4, 2)
        off = random.choice([0.0, 0.1, 1.0, 3.0], 2)
        result = propagation._step(op, [known(x, off[0]), known(y, off[1])], "f64")
        for a, b in itertools.product((x - off[0], x, x + off[0]), (y - off[1], y, y + off[1])):
            assert abs(PYTHON[op](a, b) - result.value[0]) <= result.error[0] * (1 + 1e-12)


@pytest.mark.parametrize("op", ["multiply", "divide", "maximum", "minimum"])
def test_the_error_is_no_larger_than_it_has_to_be(op):
    x, y = known(3.0, 0.25), known(2.0, 0.5)
    result = propagation._step(op, [x, y], "f64")
    corners = [PYTHON[op](a, b) for a, b in itertools.product((2.75, 3.25), (1.5, 2.5))]
    assert result.error[0] <= 1.001 * max(abs(each - result.value[0]) for each in corners) + 1e-12


def test_what_is_surely_too_large_is_infinite_and_what_may_be_is_not_promised():
    sure = propagation._settled(np.array([-4e38]), np.array([0.0]), "f32", 1, [])
    assert (sure.value[0], sure.error[0]) == (-np.inf, 0)
    maybe = propagation._settled(np.array([3e38]), np.array([1e38]), "f32", 1, [])
    assert (maybe.value[0], maybe.error[0]) == (3e38, np.inf)
    no_infinity = propagation._settled(np.array([500.0]), np.array([0.0]), "f8E4M3FN", 1, [])
    assert np.isnan(no_infinity.value[0])
    assert no_infinity.error[0] == 0


def test_floats_that_become_integers_stay_in_their_range():
    rounded = propagation.converted(known(2.5, 1.0), "f32", "i8")
    assert (rounded.value[0], rounded.error[0]) == (2, 2)  # From 2 to 4: half is rounded to even.
    ends = propagation.converted(Known(np.array([300.0, -np.inf, np.nan]), np.zeros(3)), "f32", "u8")
    assert ends.value.tolist() == [255, 0, 0]
    most = propagation.converted(known(3e9), "f32", "i32")
    assert most.value[0] == 2**31 - 2**7
