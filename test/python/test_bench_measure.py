# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns, checks and settings of a run, with fake contenders."""

import itertools
import os

import numpy as np
import pytest
from tilewright.bench import CheckError, Shape, run_suite
from tilewright.bench.checks import Expected, check, expect
from tilewright.bench.operands import operands
from tilewright.bench.turns import take_turns
from tilewright.dtypes import dtype, to_numpy
from tilewright.errors import SpecError, TargetError, TilewrightError
from tilewright.spec import MatmulSpec

HERE = (max(os.sched_getaffinity(0)),)


class Fake:
    """A contender, or a limit, whose samples are given; notes its turns and where they ran."""

    def __init__(self, name, samples, turns):
        self.name = name
        self._samples = iter(samples)
        self._turns = turns

    def calibrate(self, min_seconds):
        assert min_seconds == 0.25
        return 3

    def sample(self, count):
        assert count == 3
        assert os.sched_getaffinity(0) == set(HERE)
        self._turns.append(self.name)
        return next(self._samples)


def turns_of(rounds):
    turns = []
    done = []
    rates = take_turns(
        {"ours": Fake("ours", [1e-6, 2e-6, 4e-6], turns), "mkl": Fake("mkl", [2e-6] * 3, turns)},  # type: ignore[dict-item]
        {"peak": Fake("peak", [5e9] * 3, turns)},  # type: ignore[dict-item]
        flops=8000,
        rounds=rounds,
        min_seconds=0.25,
        on_cores=HERE,
        after_round=done.append,
    )
    return turns, done, rates


def test_everyone_is_sampled_once_a_round_and_no_one_is_always_first():
    before = os.sched_getaffinity(0)
    turns, done, rates = turns_of(3)
    assert turns == ["ours", "mkl", "peak", "mkl", "peak", "ours", "peak", "ours", "mkl"]
    assert done == [1, 2, 3]
    assert rates["ours"].rounds == pytest.approx((8.0, 4.0, 2.0))
    assert rates["mkl"].rounds == pytest.approx((4.0, 4.0, 4.0))
    assert rates["peak"].rounds == pytest.approx((5.0, 5.0, 5.0))
    assert os.sched_getaffinity(0) == before


def test_a_contender_that_takes_long_and_is_far_behind_is_sampled_once(monkeypatch):
    now = iter(range(0, 1000, 2))
    monkeypatch.setattr("tilewright.bench.turns.time.perf_counter", lambda: float(next(now)))
    turns = []
    rates = take_turns(
        {"ours": Fake("ours", [1e-6] * 3, turns), "slow": Fake("slow", [2e-5], turns)},  # type: ignore[dict-item]
        {"peak": Fake("peak", [5e9] * 3, turns)},  # type: ignore[dict-item]
        flops=8000,
        rounds=3,
        min_seconds=0.25,
        on_cores=HERE,
        after_round=lambda done: None,
    )
    assert turns.count("slow") == 1
    assert rates["slow"].rounds == pytest.approx((0.4,))
    assert rates["ours"].over(rates["slow"]) == pytest.approx(20)


@pytest.mark.parametrize(("seconds", "slow", "turns"), [(2, 2e-5, 1), (2, 5e-6, 3), (0.5, 2e-5, 3)])
def test_only_what_is_both_far_behind_and_long_is_left_out(monkeypatch, seconds, slow, turns):
    ticks = itertools.count()
    monkeypatch.setattr("tilewright.bench.turns.time.perf_counter", lambda: seconds * next(ticks))
    taken = []
    take_turns(
        {"ours": Fake("ours", [1e-6] * 3, taken), "slow": Fake("slow", [slow] * turns, taken)},  # type: ignore[dict-item]
        {},
        flops=8000,
        rounds=3,
        min_seconds=0.25,
        on_cores=HERE,
        after_round=lambda done: None,
    )
    assert (taken.count("ours"), taken.count("slow")) == (3, turns)


def test_right_numbers_pass_and_the_worst_wrong_one_is_named():
    expected = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    bound = np.full((2, 3), 0.01)
    check("mkl", expected.astype(np.float32), expected, bound)
    wrong = expected.astype(np.float32)
    wrong[0, 1], wrong[1, 2] = 2.1, 7.0
    with pytest.raises(CheckError, match=r"mkl: 2 of 6 elements are wrong, the worst C\[1, 2\] = 7; expected 6 ± 0.01"):
        check("mkl", wrong, expected, bound)
    wrong[1, 0] = np.nan
    with pytest.raises(CheckError, match=r"3 of 6 elements are wrong, the worst C\[1, 0\] = nan"):
        check("mkl", wrong, expected, bound)


def test_the_bound_grows_with_the_rounding_of_a_narrower_product():
    data = operands(Shape(4, 5, 6), "bf16,bf16,f32")
    wide = expect(MatmulSpec(4, 5, 6, a="bf16"), data)
    assert (wide.bound("bf16") > wide.bound("f32")).all()
    rounded = wide.product.astype(np.float32).astype(to_numpy(dtype("bf16"))).astype(np.float32)
    check("onednn", rounded, wide.product, wide.bound("bf16"))
    with pytest.raises(CheckError, match="elements are wrong"):
        check("onednn", rounded, wide.product, wide.bound("f32"))


def test_the_bound_rounds_sums_that_are_as_far_off_as_they_may_be():
    bound = Expected(np.zeros((1, 1)), np.ones((1, 1)), "f32").bound("bf16")
    assert bound == 1 + 2.0**-8


def test_integers_are_exact_also_as_floats_as_far_as_floats_can():
    data = operands(Shape(4, 5, 6), "u8,i8,i32")
    exact = expect(MatmulSpec(4, 5, 6, a="u8", b="i8"), data)
    assert (exact.bound("i32") == 0).all()
    check("onednn", exact.product.astype(np.float32), exact.product, exact.bound("f32"))
    with pytest.raises(CheckError, match="20 of 20 elements are wrong"):
        check("mkl", exact.product.astype(np.int32) + 1, exact.product, exact.bound("i32"))


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"rounds": 0}, SpecError, "rounds is 0"),
        ({"min_seconds": 0}, SpecError, "min_seconds is 0"),
        ({"cache": "warm"}, SpecError, "cache is 'warm'; expected hot or cold"),
        ({"dtype": "f31"}, SpecError, "f31"),
        ({"dtype": "f32,f32"}, SpecError, "f32,f32"),
        ({"target": "x86-63"}, TargetError, "x86-63"),
        ({"threads": 100_000}, TargetError, "cannot measure 100000 threads"),
        ({"on_cores": (100_000,)}, TargetError, "cannot measure 1 threads on 0"),
        ({"peers": ("mlk",)}, TilewrightError, "unknown peer 'mlk'"),
        ({"shapes": [Shape(4, 0, 4)]}, SpecError, "no work"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_starts(fields, error, message):
    told = []
    with pytest.raises(error, match=message):
        run_suite(**{"shapes": [Shape(4, 4, 4)], "progress": told.append, **fields})
    assert told == []
