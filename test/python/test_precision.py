# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of f32 from pieces of bf16: their numbers, their special numbers, and where they are refused."""

import warnings
from dataclasses import replace
from typing import Any

import emulated_amx as amx
import numpy as np
import pytest
import tilewright as tw
from tilewright.emit import hotloop, stages
from tilewright.errors import SlowScheduleWarning
from tilewright.payload import spec_tables
from tilewright.payload.reference import within_bound
from tilewright.precision import PRECISIONS
from tilewright.schedules import make
from tilewright.schedules.models import emulated

HOST = tw.targets.resolve("host")
WITH_BF16 = "avx512bf16" in HOST.features
BY = HOST if WITH_BF16 else tw.targets.resolve("neoverse-v2").emulated()
NAMES = tuple(PRECISIONS)


def compiled(spec, target=BY, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowScheduleWarning)
        return tw.compile(spec, target=target, **options)


def operands(spec, seed=0):
    chance = np.random.default_rng(seed)
    return [chance.standard_normal(shape, "f4") for shape in (spec.a_shape, spec.b_shape)]


def check(spec, arrays, result):
    bound = tw.error_bound(spec, *arrays)
    assert within_bound(result, tw.reference(spec, *arrays), bound).all()
    return bound


@pytest.fixture(scope="module")
def square():
    """A kernel of each precision for the same extents."""
    return {name: compiled(tw.MatmulSpec(24, 40, 37, precision=name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_are_within_their_bound_and_as_good_as_the_name_says(square, name):
    spec = square[name].spec
    a, b = operands(spec)
    result = square[name](a, b)
    bound = check(spec, (a, b), result)
    f32 = tw.error_bound(replace(spec, precision=None), a, b)
    # Two pieces leave 2**-16 of an element; three leave nothing.
    assert (bound > 10 * f32).all() if name == "bf16x3" else (bound < 10 * f32).all()
    worst = (np.abs(result - tw.reference(spec, a, b)) / (np.abs(a) @ np.abs(b))).max()
    assert 2.0**-24 < worst < 2.0**-16 if name == "bf16x3" else worst < 2.0**-22


@pytest.mark.parametrize("name", NAMES)
def test_a_product_by_powers_of_two_is_exact_as_far_as_pieces_hold_an_element(square, name):
    a, b = operands(square[name].spec)
    b[:] = 0
    b[np.arange(37), np.arange(37)] = np.ldexp(np.float32(1), np.arange(37) - 18)
    if name == "bf16x3":
        a = (a.view("u4") & np.uint32(0xFFFFFF00)).view("f4")  # 16 bits, which two pieces hold
    np.testing.assert_array_equal(square[name](a, b), a @ b)
    a, b = operands(square[name].spec)
    a[:] = 0
    a[np.arange(24), np.arange(24)] = np.ldexp(np.float32(1), np.arange(24) - 12)
    if name == "bf16x3":
        b = (b.view("u4") & np.uint32(0xFFFFFF00)).view("f4")
    np.testing.assert_array_equal(square[name](a, b), a @ b)


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_inf_are_as_in_ieee_754(square, name):
    a, b = operands(square[name].spec)
    b[0] = np.where(np.arange(40) % 2, 1, -2)  # whose lower pieces are zero
    b[1, :4] = 0, np.inf, -np.inf, np.nan
    a[0, 0], a[1, 0], a[2, 0] = np.inf, -np.inf, np.nan
    a[3, 1], a[4, 1], a[5, 0], a[5, 2] = np.inf, 0, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = a.astype("f8") @ b.astype("f8")
    found = square[name](a, b)
    special = ~np.isfinite(wanted)
    assert np.isposinf(wanted).any()
    assert np.isnan(wanted[5]).any()
    np.testing.assert_array_equal(found[special], wanted[special])
    assert np.isfinite(found[~special]).all()
    check(square[name].spec, (a, b), found)


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_and_the_smallest_numbers(square, name):
    spec, largest = square[name].spec, 3.4e38  # which bf16 would round to Inf
    a, b = np.zeros(spec.a_shape, "f4"), np.zeros(spec.b_shape, "f4")
    a[:, 0], b[0] = largest, np.ldexp(np.float32(1), -np.arange(40))
    found = square[name](a, b)
    assert (np.abs(found / (a @ b) - 1) < (2.0**-15 if name == "bf16x3" else 2.0**-23)).all()
    b[0] = 4
    assert np.isposinf(square[name](a, b)).all()
    a[:, 0], b[0] = 2.0**-130, 2.0**-120 * np.arange(40)
    check(spec, (a, b), square[name](a, b))
    a[:, 0], b[0] = 2.0**-126 * 1.2345, 1
    check(spec, (a, b), square[name](a, b))


@pytest.mark.parametrize(
    "fields",
    [
        {"m": 1, "n": 1, "k": 1},
        {"m": 7, "n": 65, "k": 64, "layout": "tt", "beta": 1, "alpha": 2},
        {"m": 9, "n": 20, "k": 33, "layout": "nt", "epilogue": (tw.bias("n"), tw.relu()), "c": "bf16"},
        {"m": 9, "n": 20, "k": 33, "prologue_a": (tw.scale_by("m"),), "batch": (2,), "b_batch": ()},
        {"m": 70, "n": 24, "k": 80, "b_packed": True},
    ],
    ids=str,
)
def test_whatever_else_a_product_does(fields):
    spec = tw.MatmulSpec(**fields, precision="bf16x6")
    kernel = compiled(spec)
    assert kernel.metadata.schedule == "packed"
    chance = np.random.default_rng(1)
    arrays = [chance.standard_normal(each.shape, "f4") for each in (*spec.operands, *[spec.result] * bool(spec.beta))]
    given = [kernel.pack_b(each) if spec.b_packed and at == 1 else each for at, each in enumerate(arrays)]
    if spec.beta:
        result = arrays[-1].copy()
        kernel(*given[:-1], out=result)
    else:
        result = kernel(*given)
    bound = tw.error_bound(spec, *arrays)
    assert within_bound(result, tw.reference(spec, *arrays), bound).all()


def test_dynamic_extents():
    kernel = compiled(tw.MatmulSpec(None, 24, tw.Dim(max=256), precision="bf16x3"))
    for m, k in ((1, 1), (13, 37), (70, 128)):
        spec = kernel.spec.at(m, 24, k)
        arrays = operands(spec)
        check(spec, arrays, kernel(*arrays))


@pytest.mark.parametrize("precision", ["bf16x3", "bf16x6"])
@pytest.mark.parametrize("k", [1, 16, 17, 37])
def test_dynamic_extents_read_nothing_that_memory_held_before(precision, k):
    kernel = compiled(tw.MatmulSpec(None, 24, tw.Dim(max=256), precision=precision))
    before = tw.MatmulSpec(256, 256, 512, precision=precision)
    compiled(before)(*(np.full_like(each, np.nan) for each in operands(before)))
    spec = kernel.spec.at(13, 24, k)
    arrays = operands(spec)
    check(spec, arrays, kernel(*arrays))


def test_the_loop_multiplies_pieces_and_splits_none():
    row = tw.targets.get("znver4")
    spec = tw.MatmulSpec(256, 256, 256, precision="bf16x6")
    loop = hotloop.hottest(stages.build(spec, row, make.make(spec, row), until="asm").texts["asm"])
    assert loop is not None
    multiplied = [each for each in loop.instructions if each.fma]
    assert {each.mnemonic for each in multiplied} == {"vdpbf16ps"}
    assert loop.stack_accesses == 0
    assert len(loop.instructions) < len(multiplied) + loop.loads + 8  # what counts and ends it


@pytest.mark.skipif(amx.CLANG is None, reason="clang, which compiles the emulator, is absent")
@pytest.mark.skipif(
    bool(tw.targets.runnable(tw.targets.get("x86-64-v4"))) or "avx512bf16" not in tw.targets.resolve("host").features,
    reason="the code around AMX is AVX512-BF16, which is absent",
)
@pytest.mark.parametrize(("name", "extents"), [("bf16x3", (9, 20, 9)), ("bf16x6", (37, 50, 70))])
def test_amx(tmp_path, name, extents):
    spec, target = tw.MatmulSpec(*extents, precision=name), amx.target("avx512bf16")
    arrays = operands(spec)
    arrays[0][2, 3] = np.inf
    emulator = None if amx.HARDWARE else amx.build_emulator(tmp_path)
    kernel = amx.build_kernel(tmp_path, spec, target)
    c = np.zeros(spec.c_shape, "f4")
    result, counts = amx.run(tmp_path, emulator, kernel, spec, (*arrays, c))
    check(spec, arrays, result)
    assert amx.HARDWARE or counts["tdpbf16ps"]


def test_where_it_is_refused():
    spec = tw.MatmulSpec(32, 32, 32, precision="bf16x3")
    with pytest.raises(tw.TargetError, match=r"x86-64-v3 has no dot product of bf16.*Leave out precision"):
        tw.compile(spec, target="x86-64-v3")
    with pytest.raises(tw.SpecError, match="precision bf16x3 on a GPU"):
        tw.compile(spec, target="sm_90a")
    with pytest.raises(tw.ScheduleError, match=r"strategy unpacked does not fuse all.*expected strategy packed"):
        compiled(spec, schedule="unpacked")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"precision": "bf16x4"}, "precision 'bf16x4'; expected None, or one of bf16x3, bf16x6, bf16x9"),
        ({"precision": "bf16x3", "a": "bf16"}, "precision 'bf16x3' with A of bf16"),
        ({"precision": "bf16x3", "a": "c64"}, "precision 'bf16x3' with A of c64"),
        ({"precision": "bf16x3", "tf32": True}, "precision 'bf16x3' with tf32"),
    ]
    for fields, what in wrong:
        with pytest.raises(tw.SpecError, match=what):
            tw.MatmulSpec(8, 8, 8, **fields)


@pytest.mark.parametrize(
    ("target", "times"),
    [
        ("znver5", {"bf16x3": 2 / 3, "bf16x6": 1 / 3, "bf16x9": 2 / 9}),
        ("sapphirerapids", {"bf16x3": 16 / 3, "bf16x6": 16 / 6, "bf16x9": 16 / 9}),
    ],
)
def test_the_model_says_where_it_pays(target, times):
    row = tw.targets.get(target)
    for name, expected in times.items():
        assert emulated.speed(tw.MatmulSpec(8, 8, 8, precision=name), row) == pytest.approx(expected)


def test_a_slower_product_is_warned_of():
    spec = tw.MatmulSpec(8, 8, 8, precision="bf16x6")
    with pytest.warns(
        SlowScheduleWarning, match="'bf16x6' on znver4 is predicted to run at 0.33 times the rate of f32"
    ):
        tw.compile(spec, target="znver4")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.compile(replace(spec, precision=None), target="znver4")


def test_every_form_of_a_spec_knows_it():
    spec = tw.MatmulSpec(8, 8, 8, precision="bf16x6")
    assert str(spec) == "8x8x8 f32 nn precision=bf16x6"
    table = spec_tables.table(spec)
    assert table is not None
    assert table["precision"] == "bf16x6"
    assert spec_tables.read(table, "a record") == spec
    assert spec_tables.read({"shape": "8x8x8", "precision": "bf16x6"}, "a list") == spec
