# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strips of A packed one by one, for a core that waits for L2: sizes, who shares what, and numbers with such sizes on any target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from products import check, uniform
from threadpoolctl import threadpool_limits
from tilewright.emit import stages
from tilewright.schedules import make, select
from tilewright.schedules.models import strips_of_a
from tilewright.schedules.models.blocking import packed_blocking
from tilewright.schedules.models.parts import for_threads
from tilewright.targets.registry import get

CASCADE_LAKE = get("cascadelake")
L2 = CASCADE_LAKE.l2.bytes


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8"])
@pytest.mark.parametrize(
    "shape", [(512, 512, 512), (1024, 1024, 1024), (1000, 777, 3000), (128, 3072, 768), (96, 640, 2720)], ids=str
)
def test_a_block_of_b_waits_in_l2_and_a_strip_in_l1(shape, dtype):
    spec = tw.MatmulSpec(*shape, a=dtype)
    sizes = packed_blocking(spec, CASCADE_LAKE)
    assert strips_of_a.are(sizes, spec.m)
    assert sizes.rows_ahead > 0
    element = {"f32": 4, "f64": 8, "bf16": 4, "i8": 1}[dtype]  # bf16 is widened as it is packed
    assert sizes.kc * sizes.nc * element <= 0.6 * L2
    assert sizes.kc * sizes.mr * element <= CASCADE_LAKE.l1.bytes / 2


def test_a_strip_has_the_rows_of_the_tile_that_is_asked_for():
    spec = tw.MatmulSpec(700, 500, 400)
    assert select.choose(spec, CASCADE_LAKE, {"mr": 5}).parameters.mc == 5
    assert select.choose(spec, CASCADE_LAKE, {"mr": 5, "mc": 50}).parameters.mc == 50


def test_a_single_tile_of_rows_is_no_strip():
    spec = tw.MatmulSpec(5, 3000, 400)
    assert not strips_of_a.are(packed_blocking(spec, CASCADE_LAKE), spec.m)


def test_few_rows_leave_room_for_the_next_block():
    few, many = (packed_blocking(tw.MatmulSpec(m, 2048, 2048), CASCADE_LAKE) for m in (128, 1024))
    assert few.kc * few.nc <= many.kc * many.nc / 2


@pytest.mark.parametrize(
    ("changes", "are"),
    [
        ({}, True),
        ({"b_packed": True}, True),
        ({"deterministic": True}, True),
        ({"epilogue": (tw.relu(),)}, True),  # K is short
        ({"epilogue": (tw.relu(),), "k": 900}, False),  # a block as deep as K would have few columns
        ({"epilogue": (tw.relu(),), "k": 2000}, True),  # sums wait in scratch
        ({"epilogue": (tw.softmax(),)}, False),
        ({"m": tw.Dim()}, False),
    ],
    ids=str,
)
def test_where_strips_are_wanted(changes, are):
    spec = tw.MatmulSpec(**{"m": 700, "n": 500, "k": 400, **changes})
    if spec.dynamic:
        assert not strips_of_a.wanted(spec, CASCADE_LAKE, 4)
    else:
        assert strips_of_a.are(packed_blocking(spec, CASCADE_LAKE), 700) == are
    assert not strips_of_a.wanted(spec, replace(CASCADE_LAKE, rows_ahead=0), 4)


def test_panels_that_come_packed_depend_on_n_and_k_alone():
    sizes = [packed_blocking(tw.MatmulSpec(m, 900, 800, b_packed=True), CASCADE_LAKE) for m in (1, 7, 8, 130, 2000)]
    assert len({(each.nr, each.nc, each.kc) for each in sizes}) == 1


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "u8,i8,i32"])
def test_dynamic_kernels_have_strips_too(dtype):
    spec = tw.MatmulSpec.from_dtypes(None, None, None, dtypes=dtype)
    cases = make.make(spec, CASCADE_LAKE).cases
    *_, packed = (each.plan.parameters for each in cases if each.plan.name == "packed" and each.plan.parameters)
    assert strips_of_a.are(packed, packed.mr + 1)
    assert packed.rows_ahead


@pytest.mark.parametrize("rows", [1, 2, 40, 700])
def test_a_b_packed_by_a_dynamic_kernel_has_the_blocks_of_static_ones(rows):
    spec = tw.MatmulSpec(None, 768, 192, b_packed=True)
    sizes = [each.plan.parameters for each in make.make(spec, CASCADE_LAKE).cases]
    blocks = {(each.nc, each.kc) for each in sizes if each is not None}
    static = packed_blocking(tw.MatmulSpec(rows, 768, 192, b_packed=True), CASCADE_LAKE)
    assert blocks == {(static.nc, static.kc)}


@pytest.mark.parametrize(
    ("shape", "are"),
    [((130, 2000, 800), False), ((24, 3072, 768), False), ((600, 2000, 800), True), ((130, 200, 300), True)],
    ids=str,
)
def test_few_rows_meet_each_panel_of_a_packed_b_once(shape, are):
    """Panels then pass by a block of A; a B of a part of L2 waits there all the same."""
    spec = tw.MatmulSpec(*shape, b_packed=True)
    sizes = packed_blocking(spec, CASCADE_LAKE)
    assert strips_of_a.are(sizes, spec.m) == are
    assert sizes.rows_ahead > 0
    assert sizes.mc * sizes.kc * 4 <= L2 / 2 + sizes.mr * sizes.kc * 4


@pytest.mark.parametrize("b_packed", [False, True])
def test_all_rows_meet_a_panel_as_deep_as_k(b_packed):
    """And no more of them than are packed at once."""
    spec = tw.MatmulSpec(700, 500, 900, epilogue=(tw.relu(),), b_packed=b_packed)
    sizes = packed_blocking(spec, CASCADE_LAKE)
    assert (sizes.mc >= spec.m, sizes.kc, sizes.rows_ahead > 0) == (True, spec.k, True)
    many = packed_blocking(replace(spec, m=100_000), CASCADE_LAKE)
    assert many.mc * many.kc * 4 <= L2
    assert many.nc >= sizes.nc


@pytest.mark.parametrize("b_packed", [False, True])
def test_a_dynamic_kernel_packs_no_rows_for_few_columns(b_packed):
    """It packs A for each block of B: those are then as wide as elsewhere, and in the format of static kernels."""
    epilogue = (tw.relu(),)
    spec = tw.MatmulSpec(None, 500, 3000, epilogue=epilogue, b_packed=b_packed)
    *_, last = (each.plan.parameters for each in make.make(spec, CASCADE_LAKE).cases if each.plan.parameters)
    static = packed_blocking(replace(spec, m=100), CASCADE_LAKE)
    assert last.mc * last.kc * 4 <= L2
    assert last.nc == static.nc if b_packed else last.nc > static.nc


@pytest.mark.parametrize(
    ("shape", "are"), [((48, 256, 768), True), ((300, 2304, 1536), True), ((24, 4096, 256), False)], ids=str
)
def test_threads_meet_a_packed_b_in_strips_of_their_own(shape, are):
    """Where each has few panels, or many rows; the format of B stays."""
    spec = tw.MatmulSpec(*shape, b_packed=True)
    one = packed_blocking(spec, CASCADE_LAKE)
    shared = for_threads(one, spec, CASCADE_LAKE, 2)
    assert strips_of_a.are(shared, spec.m) == are
    assert (shared.nr, shared.nc, shared.kc) == (one.nr, one.nc, one.kc)


def test_threads_take_no_strips_by_blocks_that_l2_does_not_hold():
    spec = tw.MatmulSpec(512, 768, 1500, b_packed=True, epilogue=(tw.relu(),))
    for target in (CASCADE_LAKE, get("sapphirerapids")):
        assert not strips_of_a.are(for_threads(packed_blocking(spec, target), spec, target, 2), spec.m)


def test_loops_in_strips_count_as_much_work_as_they_do():
    """A loop over K in strips ends where the next one begins: threads share what is around it."""
    spec = tw.MatmulSpec(24, 512, 768, b_packed=True)
    sizes = {"mr": 6, "nr": 64, "mc": 24, "nc": 512, "kc": 384, "rows_ahead": 8}
    plan = make.make(spec, CASCADE_LAKE, "packed", sizes, threads=2)
    text = stages.build(spec, plan=plan, target=CASCADE_LAKE, until="bufferized").texts["bufferized"]
    assert text.count("omp.parallel") == 1


def test_the_depth_of_a_deterministic_product_depends_on_k_alone():
    depths = {packed_blocking(tw.MatmulSpec(m, 900, 800, deterministic=True), CASCADE_LAKE).kc for m in (40, 130, 2000)}
    assert len(depths) == 1


@pytest.mark.parametrize(
    ("n", "threads", "blocks"), [(1024, 2, 2), (2048, 2, 4), (1024, 4, 4), (300, 2, 1), (4096, 3, 8)]
)
def test_threads_have_blocks_of_their_own(n, threads, blocks):
    """About as many for each, where there are columns for that; the rest of the sizes stay."""
    spec = tw.MatmulSpec(1024, n, 1024)
    one = packed_blocking(spec, CASCADE_LAKE)
    shared = for_threads(one, spec, CASCADE_LAKE, threads)
    assert -(-n // shared.nc) == blocks
    assert replace(shared, nc=one.nc, threads=1) == one
    packed = replace(spec, b_packed=True)
    assert (
        for_threads(packed_blocking(packed, CASCADE_LAKE), packed, CASCADE_LAKE, threads).nc
        == packed_blocking(packed, CASCADE_LAKE).nc
    )


@pytest.mark.parametrize(("n", "regions"), [(1024, 1), (300, 2)])
def test_what_threads_share(n, regions):
    """Blocks of B, from packing them on; or the strips of one that all of them pack."""
    spec = tw.MatmulSpec(512, n, 256)
    plan = make.make(spec, CASCADE_LAKE, "packed", threads=2)
    text = stages.build(spec, plan=plan, target=CASCADE_LAKE, until="bufferized").texts["bufferized"]
    assert text.count("omp.parallel") == regions
    before, *inside = text.split("omp.parallel")
    assert "vector.contract" not in before
    assert "vector.contract" in inside[-1]


@pytest.mark.parametrize("m", [48, 128])
def test_threads_choose_as_one_does(m):
    """Few rows too, also of what may not depend on the threads, and of entries of a batch."""
    spec = tw.MatmulSpec(m, 2048, 2048)
    for each in (spec, replace(spec, deterministic=True), replace(spec, batch=(2,))):
        assert {select.choose(each, CASCADE_LAKE, None, threads).strategy for threads in (1, 2)} == {"packed"}


@pytest.mark.parametrize("shape", [(200, 500, 300), (128, 768, 768), (7, 900, 1100), (61, 700, 999)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "u8,i8,i32"])
def test_blocks_that_come_packed_are_compiled_with_prefetches(shape, dtype):
    """Which panel is next is computed where the prefetches are, whatever K's strips make of it."""
    spec = tw.MatmulSpec.from_dtypes(*shape, dtypes=dtype, b_packed=True)
    built = stages.build(spec, plan=make.make(spec, CASCADE_LAKE), target=CASCADE_LAKE, until="asm")
    assert built.texts["asm"]


SIZES = [
    ((60, 100, 170), {"mr": 4, "nr": 16, "mc": 4, "nc": 48, "kc": 96}),
    ((61, 101, 91), {"mr": 3, "nr": 16, "mc": 3, "nc": 32, "kc": 91}),
    ((33, 40, 300), {"mr": 5, "nr": 16, "mc": 5, "nc": 64, "kc": 128, "rows_ahead": 3}),
]


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "u8,i8,i32"])
@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize(("shape", "sizes"), SIZES, ids=str)
def test_numbers_and_bits_on_any_target(shape, sizes, beta, dtype):
    """With tails everywhere, sums that start from C, and prefetches beyond all operands."""
    spec = tw.MatmulSpec.from_dtypes(*shape, dtypes=dtype, beta=beta)
    operands = uniform(spec)
    expected = check(tw.compile(spec, schedule="packed", parameters=sizes), operands)
    with threadpool_limits(limits=3, user_api="openmp"):
        for threads in (2, 3):
            shared = tw.compile(spec, schedule="packed", parameters=sizes, threads=threads)
            assert (check(shared, operands) == expected).all()


def test_a_packed_b_serves_other_rows_and_threads():
    spec = tw.MatmulSpec(200, 300, 260, b_packed=True)
    a, b, _ = uniform(spec)
    one = tw.compile(spec)
    packed = one.pack_b(b)
    expected = one(a, packed)
    assert np.abs(expected - a @ b).max() <= 260 * np.finfo(np.float32).eps * np.abs(a).max() * np.abs(b).max()
    few = tw.compile(replace(spec, m=9))
    assert (few(a[:9], packed) == expected[:9]).all()
    assert (tw.compile(spec, threads=2)(a, packed) == expected).all()


def test_packing_pays_sooner_where_a_core_waits():
    """From so many reads of an element on: fewer of one that takes more bytes, and of a B that L2 does not hold."""
    cases = {
        (700, 150, 200): "packed",
        (140, 150, 200): "unpacked",
        (64, 100, 1700): "unpacked",
        (64, 100, 2400): "packed",
        (34, 2000, 2000): "unpacked",
    }
    for shape, strategy in cases.items():
        assert select.choose(tw.MatmulSpec(*shape), CASCADE_LAKE).strategy == strategy, shape
    assert select.choose(tw.MatmulSpec(140, 150, 200, a="f64"), CASCADE_LAKE).strategy == "packed"
