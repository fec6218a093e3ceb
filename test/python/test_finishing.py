# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums that wait in scratch, in slices of K, for what is done to them: numbers, sizes, formats and code."""

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright.emit import stages
from tilewright.runtime.trial import Trial
from tilewright.schedules import make, select
from tilewright.schedules.models import finishing, parts, tiled
from tilewright.schedules.models.blocking import packed_blocking
from tilewright.targets.registry import get

TARGET = get("x86-64-v4")
SIZES = {"mc": 24, "nc": 48, "kc": 128}
LONG = tw.MatmulSpec(100, 300, 4096, epilogue=(tw.bias(),))

CASES = {
    "bias": {"epilogue": (tw.bias(), tw.relu())},
    "bias of rows, f64": {"epilogue": (tw.bias("m"),), "a": "f64"},
    "residual and factors": {"epilogue": (tw.residual(),), "alpha": 0.5, "beta": 0.25},
    "rounded": {"a": "bf16", "c": "bf16"},
    "rounded, packed": {"a": "bf16", "c": "bf16", "b_packed": True, "epilogue": (tw.bias(),)},
    "bytes": {"a": "u8", "b": "i8", "epilogue": (tw.bias(),)},
    "transposed": {"epilogue": (tw.bias(),), "layout": "tt"},
    "batch": {"epilogue": (tw.bias(),), "batch": (3,)},
    "two products": {"epilogue": (tw.glu("silu"),)},
    "two products, rounded": {"epilogue": (tw.glu("gelu"), tw.residual()), "a": "bf16", "c": "bf16"},
    "packed": {"epilogue": (tw.gelu(),), "b_packed": True},
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [130, 96], ids=["short", "whole"])
@pytest.mark.parametrize("rows", [61, None], ids=["static", "dynamic"])
@pytest.mark.parametrize("case", CASES)
def test_numbers_of_sums_that_wait(case, rows, n, threads):
    spec = tw.MatmulSpec(rows, n, 200, **CASES[case])
    assert finishing.may(spec)
    kernel = tw.compile(spec, schedule="packed", parameters=SIZES, threads=threads)
    for m in (61,) if rows else (1, 24, 61):
        trial = Trial.random(kernel, replace(spec, m=m), m)
        trial()
        assert trial.difference().right


@pytest.mark.parametrize("b_packed", [False, True])
def test_a_long_k_is_cut_and_a_short_one_stays(b_packed):
    spec = replace(LONG, b_packed=b_packed)
    assert packed_blocking(spec, TARGET).kc == packed_blocking(spec.plain_sums, TARGET).kc < spec.k
    short = packed_blocking(replace(spec, k=700), TARGET)
    assert short.kc == 700


@pytest.mark.parametrize(
    "changes",
    [
        {"epilogue": (tw.softmax(),)},
        {"prologue_b": (tw.multiply("n"),)},
        {"batch": (2,), "b_batch": ()},
        {"k": tw.Dim()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_cannot_wait_has_all_of_k(changes):
    spec = replace(LONG, **changes)
    assert not finishing.may(spec)
    if not spec.dynamic:
        assert packed_blocking(spec, TARGET).kc >= spec.k


@pytest.mark.parametrize(
    ("k", "kc", "fields"),
    [
        (128, 125, {"layout": "nt", "epilogue": (tw.bias(),)}),
        (128, 125, {"layout": "nt", "epilogue": (tw.glu("silu"),)}),
        (33, 31, {"layout": "nt", "epilogue": (tw.relu(),)}),
        (3, 2, {"b_packed": True, "epilogue": (tw.bias(),)}),
    ],
)
def test_a_kc_that_is_all_of_k_in_whole_steps(k, kc, fields):
    spec = tw.MatmulSpec(51, 30, k, **fields)
    trial = Trial.random(tw.compile(spec, schedule="packed", parameters={"mc": 24, "nc": 16, "kc": kc}), spec, k)
    trial()
    assert trial.difference().right


@pytest.mark.parametrize("target", ["x86-64-v4", "sapphirerapids", "neoverse-v2"])
@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_a_packed_b_is_for_any_number_of_rows(target, element):
    row = get(target)
    made = [
        packed_blocking(replace(LONG, m=m, a=element, b=element, c=element, acc="f32", b_packed=True), row)
        for m in (1, 30, 500)
    ]
    assert len({(each.nr, each.nc, each.kc) for each in made}) == 1


def test_kernels_of_other_rows_take_the_same_packed_b():
    spec = tw.MatmulSpec(3, 100, 300, b_packed=True, epilogue=(tw.relu(),))
    specs = (spec, replace(spec, m=90), replace(spec, m=tw.Dim()))
    few, many, open_ = (tw.compile(each, schedule="packed", parameters={"nc": 48, "kc": 128}) for each in specs)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((90, 300), (300, 100)))
    packed = few.pack_b(b)
    bound = tw.error_bound(specs[1], a, b)
    for kernel in (many, open_):
        assert (abs(kernel(a, packed) - tw.reference(specs[1], a, b)) <= bound).all()


def test_loads_of_tiles_are_those_of_a_nest_for_each_product():
    spec, target = replace(LONG, a="bf16", b="bf16", c="bf16", epilogue=(tw.glu("silu"),)), get("graniterapids")
    sizes = packed_blocking(spec, target)
    assert finishing.is_apart(spec, sizes)
    both, one = (tiled.tile_loads(each, target, sizes) for each in (spec, spec.plain_sums))
    assert both == {operand: {at: 2 * each for at, each in counts.items()} for operand, counts in one.items()}


def test_many_rows_wait_in_blocks_and_few_all_at_once():
    sizes = packed_blocking(LONG, TARGET)
    assert finishing.loops_around(LONG, TARGET, sizes) == ("jc",)
    many = replace(LONG, m=1_000_000)
    found = packed_blocking(many, TARGET)
    assert finishing.loops_around(many, TARGET, found) == ("jc", "ic")
    # B is packed once for all blocks of rows: a block of it has all of K.
    assert found.nc * many.k * 4 <= 4 * TARGET.l2.bytes
    plan = make.make(many, TARGET, "packed")
    text = stages.build(many, TARGET, plan, until="bufferized")
    assert text.workspace < 5 * TARGET.l2.bytes + (4 << 20)


def test_what_is_done_is_done_once_to_each_vector_of_sums():
    """Not in the loops over slices of K: it comes after them."""
    spec = tw.MatmulSpec(61, 130, 200, epilogue=(tw.exp(),))
    text = stages.build(spec, TARGET, make.make(spec, TARGET, "packed", SIZES), until="bufferized").texts["bufferized"]
    lines = text.splitlines()
    (at,) = (number for number, line in enumerate(lines) if "math.exp" in line)
    (step,) = (number for number, line in enumerate(lines) if "scf.for" in line and "step %c128" in line)
    depth = len(lines[step]) - len(lines[step].lstrip())
    end = next(number for number in range(step + 1, len(lines)) if lines[number].startswith(" " * depth + "}"))
    assert at > end


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({"n": 1137, "k": 2048, "m": 33}, True),  # K is in slices
        ({"n": 960, "k": 960, "m": 16}, True),  # few rows
        ({"n": 768, "k": 512, "m": 700}, False),
    ],
    ids=["slices", "few rows", "whole"],
)
@pytest.mark.parametrize("epilogue", [(), (tw.bias(),)], ids=["sums", "bias"])
def test_threads_have_blocks_of_c_of_their_own_with_tile_registers(changes, own, epilogue):
    target = get("graniterapids")
    spec = tw.MatmulSpec(**changes, a="bf16", c="f32", epilogue=epilogue)
    sizes = select.sized("packed", spec, target, threads=2).parameters
    assert parts.has_own_blocks(sizes, spec, target) == own
    plan = make.make(spec, target, "packed", threads=2)
    text = stages.build(spec, target, plan, until="bufferized").texts["bufferized"]
    assert not own or text.count("omp.parallel") == 1


def test_blocks_that_are_not_as_many_for_each_thread_are_shared():
    target, spec = get("graniterapids"), tw.MatmulSpec(700, 96, 4096, a="bf16", c="f32", b_packed=True)
    one = packed_blocking(spec, target)
    found = parts.for_threads(one, spec, target, 2)
    assert (found.nr, found.nc, found.kc) == (one.nr, one.nc, one.kc)
    assert found.threads == 2
