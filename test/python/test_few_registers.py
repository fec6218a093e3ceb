# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What targets with 16 registers choose: strategies by where B comes from, steps taken together, groups of prefetched lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.lowering.passes import prefetch_blocks
from tilewright.payload.reference import within_bound
from tilewright.schedules import select

ZEN_3 = targets.get("znver3")
AVX2 = targets.get("x86-64-v3")


def spec_of(m: int, n: int, k: int, a: str = "f32", b: str = "", **more: Any) -> tw.MatmulSpec:
    return tw.MatmulSpec(m=m, n=n, k=k, a=a, b=b or a, **more)


@pytest.mark.parametrize(
    ("spec", "strategy"),
    [
        (spec_of(127, 255, 511), "packed"),
        (spec_of(24, 1000, 1000), "packed"),
        (spec_of(16, 1000, 1000), "unpacked"),
        (spec_of(16, 3000, 2000), "packed"),
        (spec_of(8, 3000, 2000), "streamed"),
        (spec_of(8, 4096, 1024), "packed"),
        (spec_of(64, 256, 256), "unpacked"),
        (spec_of(200, 256, 256), "packed"),
        (spec_of(1, 1024, 1024, "bf16"), "streamed"),
        (spec_of(5, 1000, 1000, "bf16"), "unpacked"),
        (spec_of(5, 3000, 2000, "bf16"), "streamed"),
        (spec_of(8, 3000, 2000, "bf16"), "packed"),
        (spec_of(16, 64, 64, "bf16"), "packed"),
        (spec_of(4, 2048, 2048, "u8", "i8"), "streamed"),
        (spec_of(6, 512, 512, "u8", "i8"), "unpacked"),
        (spec_of(8, 64, 64, "u8", "i8"), "packed"),
    ],
    ids=str,
)
def test_few_rows_take_what_was_fastest(spec, strategy):
    assert select.choose(spec, ZEN_3).strategy == strategy


@pytest.mark.parametrize(
    ("spec", "target", "steps"),
    [
        (spec_of(512, 512, 512), ZEN_3, 4),
        (spec_of(64, 64, 64), ZEN_3, 4),
        (spec_of(64, 64, 5), ZEN_3, 2),
        (spec_of(64, 64, 3), ZEN_3, 0),
        (spec_of(64, 8, 64), ZEN_3, 0),
        (spec_of(512, 512, 512, "u8", "i8"), ZEN_3, 0),
        (spec_of(512, 512, 512), targets.get("x86-64"), 0),
        (spec_of(512, 512, 512), targets.get("x86-64-v4"), 0),
    ],
    ids=str,
)
def test_iterations_take_several_steps_where_registers_are_few(spec, target, steps):
    assert select.choose(spec, target).parameters.unroll == steps


def test_blocks_that_few_rows_meet_stay_in_l2():
    few, many = (select.choose(spec_of(m, 4096, 1024), ZEN_3).parameters for m in (24, 512))
    assert few.kc * few.nc * 4 <= ZEN_3.l2.bytes // 2 < many.kc * many.nc * 4 <= 5 * ZEN_3.l2.bytes


@pytest.mark.parametrize("across", [1, 5, 21, 24, 32])
@pytest.mark.parametrize("trips", [8, 64, 125, 128, 512])
@pytest.mark.parametrize("rows", [1, 3])
def test_groups_cover_the_lines_of_a_tile(across, trips, rows):
    at_once, in_row, groups = prefetch_blocks._in_groups(across * rows, across, trips)
    assert in_row * at_once >= across
    assert groups == rows * in_row
    assert groups * 8 <= trips or at_once >= min(across, 8)


@pytest.mark.parametrize(
    "spec",
    [
        spec_of(13, 1003, 1100),
        spec_of(30, 700, 1801, beta=1),
        spec_of(25, 1501, 901, "bf16"),
        spec_of(12, 1203, 1205, "u8", "i8"),
    ],
    ids=str,
)
def test_numbers_with_prefetched_groups_are_those_of_the_definition(spec):
    kernel = tw.compile(spec, target=AVX2, schedule="packed")
    assert "prefetcht1" in kernel.asm["asm"]
    random = np.random.default_rng(3)
    operands = [random.integers(0, 5, each.shape).astype(to_numpy(each.type)) for each in spec.operands]
    out = random.integers(0, 5, spec.c_shape).astype(to_numpy(spec.c_type))
    before = [out.copy()] if spec.beta else []
    kernel(*operands, out=out)
    assert within_bound(out, tw.reference(spec, *operands, *before), tw.error_bound(spec, *operands, *before)).all()
