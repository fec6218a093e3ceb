# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""K in parts that threads share: numbers, the same bits for any number of threads, when it is done, and what cannot be split."""

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from products import TARGETS, check, uniform
from threadpoolctl import threadpool_limits
from tilewright import targets
from tilewright.emit import stages
from tilewright.errors import ScheduleError
from tilewright.schedules import choices, make, select
from tilewright.schedules.models import parts, space
from tilewright.schedules.models.threads import take_parts
from tilewright.schedules.plan import Plan
from tilewright.tuning import candidates

TARGET = targets.get("x86-64-v4")
LONG = tw.MatmulSpec(64, 64, 65536)


@pytest.fixture(autouse=True)
def many():
    """Lets OpenMP have as many threads as the tests want, whatever the machine."""
    with threadpool_limits(limits=4, user_api="openmp"):
        yield


SPECS = [
    tw.MatmulSpec(33, 37, 1152),
    tw.MatmulSpec(33, 37, 1152, beta=1),
    tw.MatmulSpec(1, 1, 1152),
    tw.MatmulSpec(1, 50, 1152, epilogue=(tw.relu(),)),
    tw.MatmulSpec(50, 1, 1152),
    tw.MatmulSpec(20, 70, 1152, a="f64", layout="tt"),
    tw.MatmulSpec(20, 70, 1152, layout="nt", epilogue=(tw.bias("n"), tw.gelu())),
    tw.MatmulSpec(20, 16, 1152, layout="tn", alpha=0.5, beta=-2.0),
    tw.MatmulSpec(9, 33, 1152, a="bf16", c="bf16", epilogue=(tw.bias("n"),)),
    tw.MatmulSpec(9, 64, 1152, a="f16", c="f32"),
    tw.MatmulSpec(9, 33, 1152, a="u8", b="i8", c="i32"),
    tw.MatmulSpec(9, 33, 1152, a="i8", c="i32", layout="nt"),
    tw.MatmulSpec(9, 33, 1152, a="i8", b="u8", c="i32", beta=1),
    tw.MatmulSpec(9, 17, 1152, a="c64"),
]


STRATEGIES = ["unpacked", "packed", "streamed", "inner_product"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_numbers_and_the_same_bits_for_any_threads(strategy, spec):
    kernels = [
        tw.compile(spec, schedule=strategy, threads=threads, parameters={"parts": 6}, verify=True)
        for threads in (1, 2, 4)  # which divide the parts, and do not
    ]
    assert kernels[0].metadata.parameters["parts"] == 6
    if spec.further:
        return
    operands = uniform(spec)
    first, *others = (check(kernel, operands) for kernel in kernels)
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_a_part_is_summed_by_itself():
    """In f32, a large number swallows the ones after it, but not those of the other part, which are added up before."""
    k, large = 512, 2.0**24
    a, b = np.ones((1, k), np.float32), np.ones((k, 16), np.float32)
    a[0, 0] = large
    for parts_, expected in ((1, large), (2, large + k // 2)):
        kernel = tw.compile(tw.MatmulSpec(1, 16, k), schedule="unpacked", parameters={"parts": parts_})
        np.testing.assert_array_equal(kernel(a, b), np.full((1, 16), expected, np.float32))


def over_parts(spec, threads, **sizes):
    """For each parallel region of a kernel, whether the loop over parts is in it."""
    plan = make.make(spec, TARGET, "packed", sizes, threads)
    text = stages.build(spec, TARGET, plan, until="bufferized").texts["bufferized"]
    return ["mark_parts" in each.split("omp.terminator")[0] for each in text.split("omp.parallel")[1:]]


def test_threads_take_parts_where_there_are_enough_for_all():
    spec = tw.MatmulSpec(256, 256, 8192)
    assert over_parts(spec, 2, parts=2) == [True, False]  # They share what adds the parts up, too.
    assert not any(over_parts(spec, 4, parts=2))  # Two threads would be idle: they share the loops of each part.
    assert [take_parts(16, threads) for threads in (2, 3, 8, 12)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (LONG, 16),
        (replace(LONG, k=4096), 2),
        (replace(LONG, k=65537), 1),  # a prime number
        (replace(LONG, k=3 * 5 * 7 * 1001), 15),
        (replace(LONG, k=1024), 1),
        (tw.MatmulSpec(1024, 1024, 1024), 1),
        (tw.MatmulSpec(128, 128, 1024), 1),
        (tw.MatmulSpec(128, 128, 1024, a="u8", b="i8", c="i32"), 2),  # whose panels would move from core to core
        (tw.MatmulSpec(32, 32, 1024, a="u8", b="i8", c="i32"), 1),
        (tw.MatmulSpec(128, 512, 2048), 1),  # rows and columns enough to share
        (tw.MatmulSpec(1024, 1024, 16384), 1),  # sums that L2 does not hold
        (tw.MatmulSpec(1, 1, 1 << 22), 16),
        (replace(LONG, deterministic=True), 1),
        (replace(LONG, batch=(2,)), 1),
        (tw.MatmulSpec(64, 64, 65536, a="u8", c="i32"), 1),
        (tw.MatmulSpec(64, 64, 65536, a="i8", b="u8", c="i32"), 16),
        (tw.MatmulSpec(64, 64, None), 1),
        (replace(LONG, prologue_a=(tw.relu(),)), 1),
        (replace(LONG, epilogue=(tw.bias("n"),)), 16),
    ],
    ids=str,
)
def test_when_k_is_split(spec, count):
    assert parts.count(spec, TARGET) == count
    if not spec.dynamic:
        chosen = [select.choose(spec, TARGET, None, threads).parameters.parts for threads in (1, 2, 7)]
        assert chosen == [count] * 3  # or bits would depend on the threads


def test_elements_without_a_sign_are_not_taken_for_such_with_one():
    spec = tw.MatmulSpec(64, 48, 4096, a="u8", c="i32")
    check(tw.compile(spec, threads=2, verify=True), uniform(spec))


def test_parts_are_of_whole_steps():
    """Two elements of bf16 are multiplied at once: three parts of 2 x 3 x 7 elements have a whole number of pairs, two have not."""
    spec = tw.MatmulSpec(4, 4, 42, a="bf16", c="f32")
    assert parts.options(spec, targets.get("znver4")) == [1, 3, 7]
    assert parts.options(spec, targets.get("x86-64-v3")) == [1, 2, 3, 6, 7, 14]


@pytest.mark.parametrize(
    ("spec", "schedule", "given"),
    [
        (tw.MatmulSpec(8, 8, 64), "packed", 3),
        (tw.MatmulSpec(8, 8, 64), "packed", 65),
        (tw.MatmulSpec(8, 8, 64), "packed", 2**31 - 1),
        (tw.MatmulSpec(8, 8, 64), "scaled_sums", 2),
        (tw.MatmulSpec(8, 8, 64), "packed", 0),
        (tw.MatmulSpec(8, 8, 64), "packed", True),
        (tw.MatmulSpec(8, 8, 64), "packed", "2"),
        (tw.MatmulSpec(8, 8, 64, batch=(3,)), "packed", 2),
        (tw.MatmulSpec(8, 8, 64, deterministic=True), "packed", 2),
        (tw.MatmulSpec(8, 8, None), "packed", 2),
    ],
    ids=str,
)
def test_what_is_not_split(spec, schedule, given):
    with pytest.raises(ScheduleError, match="parts is"):
        tw.compile(spec, schedule=schedule, parameters={"parts": given})


@pytest.mark.parametrize("given", [5, ["parts"], "parts"])
def test_sizes_that_are_no_mapping_are_refused(given):
    with pytest.raises(ScheduleError, match="a mapping of sizes by name"):
        tw.compile(tw.MatmulSpec(8, 8, 64), schedule="packed", parameters=given)


def test_convolutions_are_not_split():
    images, filters = np.ones((1, 6, 6, 512), np.float32), np.ones((3, 3, 512, 16), np.float32)
    expected = np.full((1, 4, 4, 16), 9 * 512, np.float32)
    np.testing.assert_array_equal(tw.conv2d(images, filters), expected)
    spec = tw.Conv2dSpec(1, 6, 6, 512, 16, 3, 3)
    assert tw.compile(spec).metadata.parameters.get("parts", 1) == 1
    with pytest.raises(ScheduleError, match="parts is 2"):
        tw.compile(spec, parameters={"parts": 2})


def test_the_text_alone_splits_k():
    spec = replace(LONG, k=8192)
    plan = make.make(spec, TARGET, "unpacked")
    built = stages.build(spec, TARGET, plan, until="asm").texts
    assert "split_reduction" in built["schedule"]
    assert "parts" not in [each.name for each in choices.read(built["schedule"])]
    again = stages.build(spec, TARGET, Plan("edited.mlir", None, text=built["schedule"], trusted=False), until="asm")
    assert again.texts["asm"] == built["asm"]


def test_a_search_tries_other_numbers_of_parts():
    spec = replace(LONG, k=8192)
    start = select.sized("unpacked", spec, TARGET).parameters
    near = {each.parts: each for each in space.around(select.row("unpacked").axes, spec, TARGET, start)}
    assert start.parts == 4
    assert {2, 8} <= {each for each in near if near[each] != start} | {start.parts}
    for each in near.values():
        assert each.kc <= spec.k // each.parts
    found = candidates.of(spec, TARGET, make.make(spec, TARGET, threads=2), 2)
    for each in (found.start, *found.ordered[:3]):
        kernel = found.compile(each)
        assert kernel.metadata.parameters.get("parts", 1) == each.blocking.parts


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_blocks_of_their_own_give_threads_the_same_bits(dtype):
    spec = tw.MatmulSpec(61, 2111, 1333, a=dtype)
    kernels = [tw.compile(spec, "cascadelake", threads=threads) for threads in (1, 2)]
    assert [each.metadata.schedule for each in kernels] == ["packed", "packed"]
    if "cascadelake" not in TARGETS:
        pytest.skip("this machine has no AVX-512, in which the kernels are")
    operands = uniform(spec)
    one, two = (check(each, operands) for each in kernels)
    np.testing.assert_array_equal(two, one)
