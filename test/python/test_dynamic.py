# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels of dynamic specs: one object for every size, right at each of them, and at the edges of what a Dim says."""

import ctypes
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import products
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

ANY = (None, None, None)
HOST = targets.resolve("host")
COUNTS = (0, 1, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65)


def call_sizes(spec: tw.MatmulSpec, count: int, seed: int):
    """Extents of calls that `spec` takes: zeros, ones, those around vectors and tiles, and others."""
    chosen = random.Random(seed)
    for _ in range(count):
        sizes = []
        for extent in (spec.m, spec.n, spec.k):
            size = chosen.choice([*COUNTS, *(chosen.randrange(90) for _ in range(5))])
            sizes.append(extent.nearest(size) if isinstance(extent, tw.Dim) else extent)
        yield tuple(sizes)


def assert_call(kernel: tw.Kernel, m: int, n: int, k: int) -> None:
    """Runs one call, whose operands lie among foreign elements, and checks it."""
    spec = kernel.spec.at(m, n, k)
    data = np.random.default_rng(m + 100 * n + 10000 * k)
    operands = [values(data, each.shape, each.type) for each in spec.operands]
    former = values(data, spec.c_shape, spec.c_type)
    given = [products.Bordered.of(each).inner if each.ndim == 2 else each for each in operands]
    c = products.Bordered.of(former if spec.beta else np.full_like(former, products.foreign(former.dtype)))
    assert kernel(*given, out=c.inner) is c.inner
    assert c.border_is_untouched()
    also = {"c": former} if spec.beta else {}
    # The dynamic spec itself is asked: it takes the extents from the operands.
    expected, bound = (f(kernel.spec, *operands, **also) for f in (tw.reference, tw.error_bound))
    wrong = np.argwhere(~within_bound(c.inner, expected, bound))
    assert len(wrong) == 0, f"{len(wrong)} elements of {spec} are wrong, the first at {wrong[0]}"


@pytest.mark.parametrize("dtypes", ["f32", "bf16", "u8,i8,i32"])
@pytest.mark.parametrize("schedule", ["packed", "unpacked"])
def test_any_size_by_each_strategy(schedule, dtypes):
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(*ANY, dtypes), schedule=schedule)
    assert kernel.metadata.schedule == schedule
    for sizes in call_sizes(kernel.spec, 25, seed=len(dtypes)):
        assert_call(kernel, *sizes)


@pytest.mark.parametrize("layout", ["nn", "nt"])
@pytest.mark.parametrize("dtypes", ["f32", "bf16"])
def test_nothing_that_a_buffer_held_before_is_in_a_sum(dtypes, layout):
    """Numbers times the zeros that fill a step up are zero, and what is no number stays none."""
    nothing = np.full((200, 700), np.nan, np.float32)
    before = tw.compile(tw.MatmulSpec(200, 200, 700, layout="nt"), schedule="packed")
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(*ANY, dtypes, layout=layout), schedule="packed")
    for sizes in call_sizes(kernel.spec, 12, seed=5):
        before(nothing, nothing)
        assert_call(kernel, *sizes)


STREAMED: list[tuple[tuple[Any, Any, Any], dict[str, Any]]] = [
    (ANY, {"beta": 1}),
    ((None, 70, tw.Dim(multiple=2)), {"a": "bf16"}),
    ((20, None, 33), {}),
    ((None, 64, 20), {"a": "u8", "b": "i8"}),
    ((9, 40, None), {"beta": 1}),
    ((None, tw.Dim(multiple=16), 20), {"epilogue": (tw.relu(),)}),
    (ANY, {"epilogue": (tw.bias("n"), tw.gelu()), "c": "bf16", "beta": 1}),
]


@pytest.mark.parametrize(("extents", "fields"), STREAMED, ids=str)
def test_blocks_of_streamed_products(extents, fields):
    """With blocks smaller than the extents, so that there are several of each, and short ones."""
    spec = tw.MatmulSpec(*extents, **fields)
    kernel = tw.compile(spec, schedule="streamed", parameters={"mr": 3, "nr": 32, "nc": 64, "kc": 16})
    for sizes in call_sizes(spec, 10, seed=3):
        assert_call(kernel, *sizes)
    assert_call(
        kernel, *(300 if each is None else each if isinstance(each, int) else each.nearest(100) for each in extents)
    )


def test_blocks_of_a_batch_of_streamed_products():
    spec = tw.MatmulSpec(*ANY, batch=(2,), epilogue=(tw.bias("n"),))
    kernel = tw.compile(spec, schedule="streamed", parameters={"mr": 3, "nr": 32, "nc": 64, "kc": 16})
    for sizes in ((7, 100, 33), (20, 64, 5)):
        operands = [values(np.random.default_rng(1), each.shape, each.type) for each in spec.at(*sizes).operands]
        expected, bound = (f(spec, *operands) for f in (tw.reference, tw.error_bound))
        assert within_bound(kernel(*operands), expected, bound).all()


@pytest.mark.parametrize(
    ("dims", "fields"),
    [
        (ANY, {"dtypes": "f32"}),
        (ANY, {"dtypes": "f32", "layout": "nt", "epilogue": (tw.bias("n"),)}),
        ((None, 96, 80), {"dtypes": "bf16,bf16,bf16", "beta": 1}),
        ((None, 33, 100), {"dtypes": "u8,i8,i32", "layout": "nt"}),
        ((5, None, None), {"dtypes": "f32", "layout": "tn"}),
        ((tw.Dim(max=48, multiple=4), tw.Dim(16, 64, 16), tw.Dim(multiple=8)), {"dtypes": "bf16"}),
        ((None, 72, None), {"dtypes": "f32", "epilogue": (tw.bias("n"), tw.relu(), tw.residual())}),
        ((None, 48, 40), {"dtypes": "f64", "deterministic": True}),
    ],
    ids=str,
)
def test_the_cases_that_are_chosen(dims, fields):
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(*dims, **fields))
    for sizes in call_sizes(kernel.spec, 25, seed=7):
        assert_call(kernel, *sizes)


@pytest.mark.parametrize("dtypes", ["f32", "bf16", "u8,i8,i32"])
def test_tiny_products(dtypes):
    """One register tile, under every mask of the last vector, and what lies just outside of it."""
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(tw.Dim(max=20), tw.Dim(max=70), tw.Dim(max=40), dtypes))
    for m, n, k in (
        (m, n, k) for m in (1, 4, 5, 7, 16, 17) for n in (1, 2, 9, 16, 17, 32, 33, 64, 65) for k in (1, 8, 9)
    ):
        assert_call(kernel, m, n, k)
    for m, n in zip(range(1, 17), range(2, 18), strict=True):
        assert_call(kernel, m, n, 4)
    assert_call(kernel, 4, 4, 0)


def test_each_case_is_entered():
    kernel = tw.compile(tw.MatmulSpec(None, 2048, 2050))
    names = kernel.metadata.schedule.split(" or ")
    assert "packed" in names
    assert len(set(names)) > 1
    for m in (1, 2, 8, 9, 40, 130):
        assert_call(kernel, m, 2048, 2050)


def test_several_threads_give_the_same_bits():
    spec = tw.MatmulSpec(None, 512, 300)
    one, two = (tw.compile(spec, threads=threads, schedule="packed") for threads in (1, 2))
    assert two.metadata.threads == 2
    for m in (1, 63, 400):
        a, b, _ = products.uniform(spec.at(m, 512, 300))
        np.testing.assert_array_equal(one(a, b), two(a, b))
    assert_call(tw.compile(spec, threads=2), 700, 512, 300)


TALL: list[tuple[tuple[Any, Any, Any], int, dict[str, Any]]] = [
    ((None, 100, 40), 2, {}),
    ((None, 120, 40), 1, {"epilogue": (tw.bias("n"), tw.relu())}),
    ((None, 70, None), 1, {"beta": 1}),
    (ANY, 2, {}),
]


@pytest.mark.parametrize(("extents", "threads", "fields"), TALL, ids=str)
def test_many_rows_by_a_small_b_are_read_once(extents, threads, fields):
    """A does not stay in the L2 of this target, and B does: the loop over rows is around that over columns."""
    target = replace(HOST, name="small-l2", l2=replace(HOST.l2, bytes=131072))
    kernel = tw.compile(tw.MatmulSpec(*extents, a="f64", **fields), target, threads=threads, cache=False)
    assert "order = 1" in kernel.asm["schedule"]
    known = "memref.prefetch" in kernel.asm["bufferized"]
    assert known == (None not in extents[1:]), "the next rows of A are prefetched where a tile's steps are known"
    for m in (1, 6, 7, 200, 1001, 20003):
        assert_call(kernel, m, *(size or 40 for size in extents[1:]))


def test_one_packed_b_serves_every_number_of_rows():
    kernel = tw.compile(tw.MatmulSpec(None, 100, 70, b_packed=True))
    static = tw.compile(tw.MatmulSpec(64, 100, 70, b_packed=True))
    assert kernel.packed_format == static.packed_format
    for m in (0, 1, 4, 7, 64, 65):
        spec = tw.MatmulSpec(m, 100, 70)
        operands = products.uniform(spec)
        result = kernel(operands[0], kernel.pack_b(operands[1]))
        products.assert_right(spec, operands, result)
    with pytest.raises(tw.SpecError, match="b_packed with a dynamic n or k"):
        tw.MatmulSpec(None, None, 70, b_packed=True)


def test_the_c_entry_takes_what_fits_the_dims():
    kernel = tw.compile(tw.MatmulSpec(tw.Dim(2, 12, 2), None, 5), schedule="packed")
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * 3, *[ctypes.c_void_p, ctypes.c_int64] * 3)
    entry = kind(kernel.c_function.address)

    def status(m: int, n: int, k: int) -> int:
        a, b, c = (np.ones(shape, np.float32) for shape in ((12, 5), (5, 9), (12, 9)))
        result = entry(m, n, k, a.ctypes.data, 5, b.ctypes.data, 9, c.ctypes.data, 9)
        used = m if result == 0 else 0
        assert (c[:used, :n] == 5).all()
        assert (c[used:] == 1).all()
        return result

    assert [status(*sizes) for sizes in ((2, 9, 5), (12, 1, 5), (4, 0, 5))] == [0, 0, 0]
    assert [status(*sizes) for sizes in ((3, 9, 5), (14, 9, 5), (0, 9, 5), (4, -1, 5), (4, 9, 4))] == [1] * 5


def test_operands_that_do_not_fit_are_explained():
    kernel = tw.compile(tw.MatmulSpec(tw.Dim(max=8, multiple=4), None, 3, epilogue=(tw.bias("m"),)), schedule="packed")
    plain = tw.compile(tw.MatmulSpec(tw.Dim(max=8, multiple=4), None, tw.Dim(1)), schedule="packed")

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, np.float32)

    def refusal(call, *operands) -> tw.OperandError:
        with pytest.raises(tw.OperandError) as caught:
            call(*operands)
        return caught.value

    for call, bias in ((kernel, [zeros(6)]), (plain, [])):
        error = refusal(call, zeros(6, 3), zeros(3, 4), *bias)
        assert (error.operand, error.what) == ("a", "m is 6")
        assert error.expected == "a multiple of 4 from 0 to 8"
    assert refusal(kernel, zeros(4, 3), zeros(3, 4), zeros(8)).operand == "bias"
    assert refusal(plain, zeros(4, 0), zeros(0, 4)).what == "k is 0"
    assert refusal(plain, zeros(4, 3), zeros(2, 4)).operand == "b"
    assert refusal(lambda *given: tw.reference(plain.spec, *given), zeros(6, 3), zeros(3, 4)).what == "m is 6"


def test_what_is_not_done_is_refused():
    with pytest.raises(tw.SpecError, match="with a dynamic n"):
        tw.compile(tw.MatmulSpec(None, None, 8, epilogue=(tw.softmax(),)))
    with pytest.raises(tw.SpecError, match="k of at most"):
        tw.compile(tw.MatmulSpec(None, 8, None, epilogue=(tw.softmax(),)))
    with pytest.raises(tw.ScheduleError, match="columns of B of any number or length"):
        tw.compile(tw.MatmulSpec(None, 1, None), schedule="inner_product")
    with pytest.raises(tw.SpecError, match="is dynamic"):
        _ = tw.MatmulSpec(None, 8, 8).flops


def test_a_dim_is_checked_and_rounded():
    assert (tw.Dim(1, 30, 8).min, tw.Dim(1, 30, 8).max) == (8, 24)
    assert tw.MatmulSpec(tw.Dim(5, 5), None, 1) == tw.MatmulSpec(5, tw.Dim(), 1)
    assert str(tw.MatmulSpec(None, tw.Dim(1, 512, 8), 3)) == "?x?8..512/8x3 f32 nn"
    wrong: list[dict[str, Any]] = [{"min": -1}, {"max": 2**31}, {"multiple": 0}, {"min": 1.5}]
    for fields in (*wrong, {"min": 9, "max": 15, "multiple": 8}):
        with pytest.raises(tw.SpecError, match="Dim: "):
            tw.Dim(**fields)


def test_a_schedule_of_the_users_takes_them_too():
    from tilewright.schedules import steps

    def schedule(spec, target, blocking):
        with steps.script() as script:
            steps.tile(steps.match_product(script.root, spec), [4, 0, 0])
        return script.module

    kernel = tw.compile(tw.MatmulSpec(None, None, None), schedule=schedule)
    for sizes in ((3, 4, 5), (9, 1, 2)):
        assert_call(kernel, *sizes)


def test_loops_stay_as_they_are_where_no_extent_is_known():
    kept = "loop_unroll<disable = true>"
    assert kept in tw.compile(tw.MatmulSpec(None, None, None), "x86-64-v4", schedule="unpacked").asm["llvm"]
    assert kept not in tw.compile(tw.MatmulSpec(None, 8, 8), "x86-64-v4", schedule="unpacked").asm["llvm"]


def test_static_specs_have_one_entry_without_cases():
    text = tw.compile(tw.MatmulSpec(8, 8, 8)).asm["llvm"]
    assert "case0" not in text
    assert "case0" in tw.compile(tw.MatmulSpec(None, 8, 8)).asm["llvm"]


@pytest.mark.parametrize("target", products.LEVELS)
def test_nothing_is_touched_beyond_the_operands(target):
    program = str(Path(__file__).with_name("dynamic_guard_pages.py"))
    kinds = [
        "f32:packed",
        "f32:unpacked",
        *(["u8,i8,i32:packed", "bf16:packed"] if target == products.LEVELS[0] else []),
    ]
    run = subprocess.run([sys.executable, program, target, *kinds], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout.splitlines()[-1:] + run.stderr.splitlines()[-3:]
    assert run.stdout.endswith("done\n")


@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="no emulator of aarch64")
@pytest.mark.parametrize(("target", "dtypes"), [("neoverse-n1", "f32"), ("neoverse-n2", "u8,i8,i32")])
def test_other_targets_take_them_too(target, dtypes):
    kernel = tw.compile(tw.MatmulSpec.from_dtypes(None, 40, None, dtypes), target=target)
    for sizes in call_sizes(kernel.spec, 6, seed=3):
        assert_call(kernel, *sizes)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn"])
def test_what_is_done_to_the_sums_of_a_batch(layout):
    spec = tw.MatmulSpec(*ANY, layout=layout, batch=(None,), epilogue=(tw.bias("n"), tw.relu()))
    kernel = tw.compile(spec)
    for entries, m, n, k in ((2, 7, 33, 65), (1, 130, 70, 9), (0, 2, 2, 2), (3, 1, 1, 40), (2, 5, 16, 0)):
        random = np.random.default_rng(m)
        shapes = ((entries, m, k), (entries, k, n), (n,))
        a, b, bias = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        stored = (x.mT.copy() if turned == "t" else x for x, turned in zip((a, b), layout, strict=True))
        np.testing.assert_allclose(kernel(*stored, bias), np.maximum(a @ b + bias, 0), atol=1e-4)


def test_threads_share_entries_that_only_a_call_counts():
    kernel = tw.compile(tw.MatmulSpec(1, 17, None, layout="nt", batch=(None,)), threads=2)
    for entries, k in ((0, 3), (1, 300), (5, 33)):
        a, b = (np.ones(shape, np.float32) for shape in ((entries, 1, k), (entries, 17, k)))
        np.testing.assert_array_equal(kernel(a, b), np.full((entries, 1, 17), k))


@pytest.mark.parametrize("layout", ["nn", "tn", "nt", "tt"])
@pytest.mark.parametrize("extents", [(None, None, 1), (None, 9, 1)])
def test_outer_products_of_a_batch(extents, layout):
    """A matrix of one element out of a batch: which of its unit dimensions is the batch's is known by the schedule alone."""
    kernel = tw.compile(tw.MatmulSpec(*extents, layout=layout, batch=(3,)))
    random = np.random.default_rng(1)
    for m, n, _ in call_sizes(kernel.spec, 8, seed=1):
        spec = kernel.spec.at(m, n, 1)
        a, b = (values(random, each.shape, each.type) for each in spec.operands)
        assert within_bound(kernel(a, b), tw.reference(spec, a, b), tw.error_bound(spec, a, b)).all(), spec
