# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with dynamic extents whose calls threads share by rows or columns of C: results, the same bits, and which calls are shared."""

import numpy as np
import pytest
import tilewright as tw
from products import check, uniform
from threadpoolctl import threadpool_limits
from tilewright.emit import stages
from tilewright.payload.samples import values
from tilewright.schedules import cases, make
from tilewright.schedules.models.threads import divided
from tilewright.targets import registry

THREADS = 3
"""No divisor of the extents, and more than some machines have."""
ANY = tw.Dim()


@pytest.fixture(autouse=True)
def several():
    """Lets OpenMP have as many threads as the tests want, whatever the machine."""
    with threadpool_limits(limits=THREADS, user_api="openmp"):
        yield


@pytest.mark.parametrize(
    ("types", "layout", "schedule"),
    [
        ("f32", "nn", None),
        ("f32", "nt", "inner_product"),
        ("f64", "tn", "unpacked"),
        ("bf16", "nn", None),
        ("u8,i8,i32", "nn", "streamed"),
    ],
)
def test_numbers_and_the_bits_of_one_thread(types, layout, schedule):
    spec = tw.MatmulSpec.from_dtypes(ANY, ANY, ANY, types, layout=layout, beta=1)
    kernel = tw.compile(spec, threads=THREADS, schedule=schedule)
    # Few columns, few rows, one of either, a tall product, and little work.
    for call in ((1001, 7, 600), (23, 1001, 300), (1, 2003, 700), (2003, 1, 700), (30011, 40, 30), (9, 9, 9)):
        operands = uniform(spec.at(*call))
        shared = check(kernel, operands, spec=spec.at(*call))
        with threadpool_limits(limits=1, user_api="openmp"):
            assert (check(kernel, operands, spec=spec.at(*call)) == shared).all(), call


@pytest.mark.parametrize(("types", "batch"), [("f32", (ANY,)), ("bf16", ())], ids=["batch", "one"])
def test_what_is_done_to_the_sums_goes_with_its_rows_and_columns(types, batch):
    epilogue = (tw.bias(), tw.bias("m"), tw.residual(), tw.relu())
    spec = tw.MatmulSpec.from_dtypes(ANY, ANY, 300, types, batch=batch, epilogue=epilogue)
    kernel = tw.compile(spec, threads=THREADS, schedule="unpacked")
    for m, n in ((1001, 9), (13, 1500)):
        call = spec.at(m, n, 300, *([2] * len(batch)))
        random = np.random.default_rng(0)
        operands = [values(random, each.shape, each.type) for each in call.operands]
        error = np.abs(kernel(*operands) - tw.reference(call, *operands))
        assert (error <= tw.error_bound(call, *operands)).all()


def test_each_part_has_scratch_memory_of_its_own():
    # A column of B is copied first.
    spec = tw.MatmulSpec(ANY, 1, tw.Dim(max=900))
    kernel = tw.compile(spec, threads=THREADS, schedule="inner_product")
    assert kernel.metadata.workspace_bytes >= THREADS * 900 * 4
    call = spec.at(5003, 1, 900)
    check(kernel, uniform(call), spec=call)


def built(spec):
    plan = make.make(spec, registry.get("x86-64-v4"), None, threads=2)
    return plan, stages.build(spec, plan=plan, target=registry.get("x86-64-v4"), until="llvm").texts["llvm"]


def test_code_that_no_loop_of_is_shared_is_called_by_several_threads():
    plan, text = built(tw.MatmulSpec(ANY, ANY, ANY))
    by_calls = [each for _, each in plan.kernels if each.share == "calls"]
    assert {"unpacked", "inner_product"} <= {each.name for each in by_calls}
    assert {each.name for _, each in plan.kernels if each.share == "loops" and each.threads > 1} == {
        "packed",
        "unpacked",  # of few rows by a large B: a part of its columns could be too few
    }
    assert sum("_body_part" in line and "llvm.func" in line for line in text.splitlines()) == len(by_calls)


@pytest.mark.parametrize(
    ("spec", "axes"),
    [
        (tw.MatmulSpec(ANY, ANY, ANY), "mn"),
        (tw.MatmulSpec(64, ANY, ANY), "n"),
        (tw.MatmulSpec(tw.Dim(max=512, multiple=4), 64, 64), "m"),
        (tw.MatmulSpec(tw.Dim(min=16, max=512), 64, 64), ""),  # a part would have fewer rows than the kernel takes
        (tw.MatmulSpec(ANY, 64, ANY, epilogue=(tw.softmax(),)), "m"),  # of whole rows
        (tw.MatmulSpec(ANY, 64, 64, b_packed=True), "m"),
        (tw.MatmulSpec(64, ANY, 64, b="u4", layout="nt", prologue_b=(tw.dequantize("n", 3),)), "n"),
        (tw.MatmulSpec(64, 64, ANY), ""),
    ],
    ids=str,
)
def test_what_can_be_cut(spec, axes):
    assert divided(spec) == axes


def test_a_product_that_cannot_be_cut_is_packed_for_two_threads():
    spec = tw.MatmulSpec(256, 64, ANY)
    plan = cases.plan(spec, registry.get("znver4"), None, threads=2)
    taken = next(case.plan for case in plan.cases if all(test.holds(256, 64, 32768) for test in case.tests))
    assert (taken.name, taken.threads, taken.share) == ("packed", 2, "loops")
