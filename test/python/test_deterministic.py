# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same bits: from run to run for every kernel, and for every M, batch and number of threads where a spec asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.dtypes import to_numpy
from tilewright.payload.samples import values
from tilewright.schedules.make import make
from tilewright.schedules.select import choose
from tilewright.targets import resolve

ROWS = (1, 2, 8, 17, 33, 130, 1300)
SPECS: list[dict[str, Any]] = [
    {"n": 48, "k": 64},
    {"n": 200, "k": 129},
    {"n": 64, "k": 100, "layout": "nt"},
    {"n": 40, "k": 70, "layout": "tn", "beta": 1},
    {"n": 48, "k": 64, "a": "bf16"},
    {"n": 17, "k": 33, "a": "bf16"},
    {"n": 1, "k": 301, "a": "bf16"},
    {"n": 70, "k": 90, "a": "bf16", "c": "bf16"},
    {"n": 70, "k": 90, "epilogue": (tw.bias(), tw.gelu())},
    {"n": 96, "k": 30, "epilogue": (tw.softmax(),)},
    {"n": 48, "k": 64, "a": "f16"},
]


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint8)


def operands_of(spec: tw.MatmulSpec) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [values(random, each.shape, each.type) for each in spec.operands]


@pytest.mark.parametrize("fields", SPECS, ids=str)
def test_a_row_does_not_depend_on_how_many_there_are(fields):
    whole = tw.MatmulSpec(m=max(ROWS), deterministic=True, **fields)
    a, *others = operands_of(whole)
    former = values(np.random.default_rng(1), whole.c_shape, whole.c_type)
    logical = a.T if whole.a_transposed else a
    results = {}
    for m in ROWS:
        spec = replace(whole, m=m)
        rows = np.ascontiguousarray(logical[:m].T) if whole.a_transposed else logical[:m]
        results[m] = tw.compile(spec)(rows, *others, out=former[:m].copy())
    for m, result in results.items():
        assert (bits(result) == bits(results[max(ROWS)][:m])).all(), m


def test_numbers_of_rows_between():
    """Rows of one result, of numbers from 1 to 130, in one type that one instruction multiplies by pairs."""
    whole = tw.MatmulSpec(m=130, n=16, k=31, a="bf16", deterministic=True)
    a, b = operands_of(whole)
    expected = tw.compile(whole)(a, b)
    for m in range(1, 130, 11):
        assert (bits(tw.compile(replace(whole, m=m))(a[:m], b)) == bits(expected[:m])).all(), m


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_threads_and_batches(element):
    alone = tw.MatmulSpec(130, 512, 640, a=element, deterministic=True)
    a, b = operands_of(replace(alone, batch=(3,), a_batch=(3,)))
    kernel = tw.compile(alone)
    expected = [kernel(each, b) for each in a]
    both = tw.compile(alone, threads=2)
    assert both.metadata.threads == 2
    assert (bits(both(a[0], b)) == bits(expected[0])).all()
    for threads in (1, 2):
        many = tw.compile(replace(alone, batch=(3,), a_batch=(3,)), threads=threads)
        assert many.metadata.threads == threads
        for result, one in zip(many(a, b), expected, strict=True):
            assert (bits(result) == bits(one)).all()


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_rows_and_columns_of_a_dynamic_product(layout):
    """The whole product, and each row and column of it by itself, which would otherwise be summed by vectors along K."""
    spec = tw.MatmulSpec(None, None, None, layout=layout, alpha="arg", beta="arg", deterministic=True)
    kernel, target = tw.compile(spec), resolve("host")
    free, same = (
        {case.plan.name for case in make(each, target, None, None, 1).cases}
        for each in (replace(spec, deterministic=False), spec)
    )
    assert "inner_product" in free, "the premise: without it there is such code"
    assert "inner_product" not in same
    assert layout == "nt" or "streamed" in same  # What agrees with panels is still chosen by the extents.
    random = np.random.default_rng(0)
    a = random.uniform(-1, 1, (40, 301)).astype(np.float32)
    b = random.uniform(-1, 1, (301, 50) if layout == "nn" else (50, 301)).astype(np.float32)
    whole = kernel(a, b, out=np.zeros((40, 50), np.float32), alpha=2.0, beta=0.0)
    column = np.ascontiguousarray(b[:, 7:8] if layout == "nn" else b[7:8])
    row = kernel(a[3:4], b, out=np.zeros((1, 50), np.float32), alpha=2.0, beta=0.0)
    one = kernel(a, column, out=np.zeros((40, 1), np.float32), alpha=2.0, beta=0.0)
    assert (bits(row) == bits(whole[3:4])).all()
    assert (bits(one) == bits(whole[:, 7:8])).all()


def test_without_it_the_model_chooses_by_rows():
    """The premise of the tests above: other strategies, of another order, for other numbers of rows."""
    target = resolve("znver4")
    for fields in ({"n": 17, "k": 33, "a": "bf16"}, {"n": 64, "k": 100, "layout": "nt"}):
        free = {m: choose(tw.MatmulSpec(m, **fields), target).strategy for m in (1, 1300)}
        same = {m: choose(tw.MatmulSpec(m, deterministic=True, **fields), target).strategy for m in (1, 1300)}
        assert len(set(free.values())) == 2
        assert set(same.values()) == {"packed"}


@pytest.mark.parametrize(("element", "threads"), [("f32", 1), ("bf16", 2)])
def test_a_kernel_gives_the_same_bits_in_every_call(element, threads):
    spec = tw.MatmulSpec(130, 512, 640, a=element)
    kernel = tw.compile(spec, threads=threads)
    a, b = operands_of(spec)
    first = kernel(a, b)
    for _ in range(5):
        assert (bits(kernel(a.copy(), b.copy())) == bits(first)).all()


def _schedule(spec: tw.MatmulSpec, target: tw.Target, sizes: object) -> Any:
    raise AssertionError("nobody asks for it")


def test_a_schedule_that_sums_in_another_order_is_refused():
    spec = tw.MatmulSpec(4, 17, 33, a="bf16", deterministic=True)
    with pytest.raises(tw.ScheduleError, match="strategy unpacked adds products up in another order"):
        tw.compile(spec, "znver4", schedule="unpacked")  # Multiplies pairs of bf16 only where they are packed.
    with pytest.raises(tw.ScheduleError, match="the summation order of a user's schedule is unspecified"):
        tw.compile(spec, schedule=_schedule)
    wide = tw.MatmulSpec(4, 17, 33, deterministic=True)
    a, b = operands_of(wide)
    assert (tw.compile(wide, schedule="unpacked")(a, b) == tw.compile(wide, schedule="packed")(a, b)).all()


def test_integers_are_the_same_anyway():
    spec = tw.MatmulSpec(4, 1, 33, a="u8", b="i8", deterministic=True)
    assert to_numpy(spec.c_type) == np.int32
    assert choose(spec, resolve("x86-64-v4")) == choose(replace(spec, deterministic=False), resolve("x86-64-v4"))
