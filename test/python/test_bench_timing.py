# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The timing loop under a clock that only the timed calls move, and the operands."""

import gc
import os
from itertools import pairwise

import numpy as np
import pytest
from tilewright.bench import timing
from tilewright.bench.contender import Local
from tilewright.bench.operands import operands, rotation
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Loop, calibrate, cores, pinned
from tilewright.errors import TargetError


class Clock:
    """A clock in nanoseconds that stands still until somebody waits on it."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now

    def call(self, nanoseconds):
        """A call that takes so long."""

        def wait():
            self.now += nanoseconds

        return wait


@pytest.mark.parametrize(("nanoseconds", "least"), [(1_000, 30_000), (10_000_000, 3), (50_000_000, 1)])
def test_a_sample_has_enough_calls(nanoseconds, least):
    clock = Clock()
    count = Loop([clock.call(nanoseconds)], clock).calibrate(0.03)
    assert least <= count <= max(1.3 * least, least + 1)


def test_one_interruption_does_not_pass_for_a_slow_call():
    answers = iter([0.05])
    assert calibrate(lambda count: next(answers, count * 1e-6), 0.03) >= 30_000


def test_a_call_of_seconds_is_made_once():
    asked = []
    assert calibrate(lambda count: asked.append(count) or 2.0 * count, 0.03) == 1
    assert asked == [1]


def test_a_sample_is_the_mean_of_its_calls_after_untimed_ones():
    clock = Clock()
    made = []
    loop = Loop([lambda: made.append(clock.call(7)())], clock)
    assert loop.sample(100) == pytest.approx(7e-9)
    assert len(made) == 110


def test_a_count_from_a_busy_moment_is_raised():
    clock = Clock()
    now = [1_000_000]
    loop = Loop([lambda: clock.call(now[0])()], clock)
    count = loop.calibrate(0.03)
    assert count <= 40
    now[0], before = 1_000, clock.now
    assert loop.sample(count) == pytest.approx(1e-6)
    assert clock.now - before > 15_000_000


def test_long_calls_are_not_made_twice():
    clock = Clock()
    made = []
    loop = Loop([lambda: made.append(clock.call(10**9)())], clock)
    assert loop.calibrate(0.03) == 1
    made.clear()
    assert loop.sample(1) == pytest.approx(1.0)
    assert len(made) == 1


def test_several_calls_are_taken_in_turn_across_samples():
    order = []
    loop = Loop([lambda i=i: order.append(i) for i in range(3)])
    loop.seconds(2)
    loop.seconds(2)
    assert order == [0, 1, 2, 0]


def test_the_collector_rests_during_a_sample_and_runs_again_after_a_failure():
    def fail():
        assert not gc.isenabled()
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Loop([fail]).seconds(1)
    assert gc.isenabled()


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_operands_are_the_same_everywhere_and_in_range(dtype):
    first, again = operands(Shape(5, 7, 11), dtype, seed=3), operands(Shape(5, 7, 11), dtype, seed=3)
    assert (first.a.shape, first.b.shape, first.c.shape) == ((5, 11), (11, 7), (5, 7))
    for x, y in zip((first.a, first.b), (again.a, again.b), strict=True):
        np.testing.assert_array_equal(x, y)
        assert -1 <= x.min() < -0.5 < 0.5 < x.max() <= 1
        assert x.dtype.name == {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}[dtype]
        assert x.ctypes.data % 64 == 0
    assert np.isnan(first.c).all()
    assert not np.array_equal(first.a, operands(Shape(5, 7, 11), dtype, seed=4).a)


def test_integers_cover_their_range_and_types_may_differ():
    made = operands(Shape(64, 64, 64), "u8,i8,i32")
    assert (made.a.dtype.name, made.b.dtype.name, made.c.dtype.name) == ("uint8", "int8", "int32")
    assert (made.a.min(), made.a.max(), made.b.min(), made.b.max()) == (0, 255, -128, 127)
    assert (made.c == -(2**31)).all()


def test_rotation_goes_beyond_what_is_asked_and_shares_nothing():
    first = operands(Shape(8, 8, 8), "f32")
    every = rotation(first, 10_000)
    assert sum(x.a.nbytes + x.b.nbytes + x.c.nbytes for x in every) >= 10_000
    assert len(every) == 14
    np.testing.assert_array_equal(every[-1].a, first.a)
    starts = sorted(x.ctypes.data for each in every for x in (each.a, each.b, each.c))
    assert all(right - left >= 256 for left, right in pairwise(starts))
    assert rotation(first, 0) == [first]


def test_a_local_contender_computes_on_every_copy():
    seen = []

    def bind(each):
        def call():
            seen.append(each.c.ctypes.data)
            np.matmul(each.a, each.b, each.c)

        return call

    local = Local("ours", "1", bind)
    local.load(Shape(8, 8, 8), "f32", 0, 2000)
    result = local.result()
    assert len(set(seen)) == 3
    expected = operands(Shape(8, 8, 8), "f32")
    np.testing.assert_array_equal(result, expected.a @ expected.b)
    local.unload()
    with pytest.raises(ValueError, match="load"):
        local.sample(1)


def test_cores_are_the_last_and_no_two_threads_of_one():
    allowed = sorted(os.sched_getaffinity(0))
    assert cores(1, siblings=lambda core: {core}) == (allowed[-1],)
    with pytest.raises(TargetError, match="cannot measure 2 threads on 1"):
        cores(2, allowed[:1])
    if len(allowed) > 1:
        with pytest.raises(TargetError, match="cannot measure 2 threads on 1"):
            cores(2, allowed[-2:], siblings=lambda core: allowed[-2:])
    with pytest.raises(TargetError, match="on 0 free cores"):
        cores(1, [100_000])
    with pytest.raises(TargetError):
        cores(0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-1,64", {5, 0, 1, 64}), ("5", {5}), ("2-4\n", {5, 2, 3, 4}), ("5,69\n", {5, 69}), (None, {5})],
)
def test_threads_of_a_core_are_read_from_the_kernels_list(monkeypatch, tmp_path, text, expected):
    file = tmp_path / "thread_siblings_list"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(timing, "Path", lambda name: file)
    assert timing.same_core(5) == expected


def test_pinning_ends_with_its_block():
    before = os.sched_getaffinity(0)
    one = {min(before)}
    with pinned(one):
        inside = os.sched_getaffinity(0)
    assert inside == one
    with pytest.raises(KeyError), pinned(one):
        raise KeyError
    assert os.sched_getaffinity(0) == before
