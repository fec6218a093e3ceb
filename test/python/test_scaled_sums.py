# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `scaled_sums`, few rows by quantized weights: results at odd sizes, guard pages, choice and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from guard_pages import Guarded, Placing
from products import TARGETS
from test_quantized import check, dequantizing, operands_of
from tilewright import targets
from tilewright.payload.reference import within_bound
from tilewright.schedules import make, select
from tilewright.schedules.models import space
from tilewright.tuning import candidates

CASES = [
    # Stored row by row: pairs of rows, with a last one; words; bytes; a last tile and a last group that are short.
    ("bf16", "i4", "nn", 32, 0, (1, 301, 77)),
    ("bf16", "u4", "nn", 32, "u8", (3, 143, 77)),
    ("f16", "i4", "nn", 0, "i8", (2, 130, 35)),
    ("f32", "u4", "nn", 64, "u8", (2, 300, 131)),
    ("f16", "u8", "nn", 16, 7, (1, 101, 40)),
    # Along K: words of a column, in one group and in several; bytes.
    ("bf16", "u4", "nt", 128, "u8", (2, 34, 300)),
    ("f16", "i4", "nt", 32, 0, (1, 35, 259)),
    ("f32", "i4", "nt", 128, "i8", (5, 6, 131)),
    ("f32", "u4", "nt", 16, "u8", (1, 9, 259)),
    ("f16", "i8", "nt", 16, "i8", (1, 31, 77)),
    # Along K, zero points that are floats: words and bytes, short groups, one group.
    ("bf16", "u4", "nt", 32, "f32", (8, 35, 300)),
    ("f32", "i4", "nt", 64, "f16", (3, 9, 131)),
    ("f16", "u8", "nt", 0, "f32", (2, 7, 150)),
    # Along K, transposed: zero points that are no codes, a last column, group and chunk that are short; all of K in one group; bytes.
    ("bf16", "u4", "nt", 32, "u8", (3, 37, 610)),
    ("f32", "i4", "nt", 0, "i8", (9, 16, 1027)),
    ("f16", "i4", "nt", 512, 0, (4, 18, 1100)),
    ("bf16", "u8", "nt", 16, "u8", (11, 35, 77)),
    ("bf16", "i8", "nt", 32, "u8", (6, 17, 70)),
]


@pytest.mark.parametrize(("a", "b", "layout", "group", "zero_point", "extents"), CASES)
def test_operands_are_read_and_nothing_else(a, b, layout, group, zero_point, extents):
    spec = dequantizing(a, b, layout, group, zero_point, *extents)
    kernel = tw.compile(spec, schedule="scaled_sums")
    operands = operands_of(spec)
    want, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    for placing in (Placing(at_end=False, fenced=False, gap=0), Placing(at_end=True, fenced=True, gap=0)):
        given = [Guarded(each, placing) for each in operands]
        out = Guarded(np.full(spec.c_shape, np.nan, np.float32), placing)
        for each in given:
            each.make_read_only()
        kernel(*[each.matrix for each in given], out=out.matrix)
        assert within_bound(out.matrix, want, bound).all()
        assert not out.is_written_around()


@pytest.mark.parametrize(("b", "zero_point", "in_pairs"), [("i8", "i8", True), ("u8", "u8", True), ("i8", "u8", False)])
def test_bytes_are_multiplied_in_pairs_where_bf16_holds_them(b, zero_point, in_pairs):
    """A code of i8 less a zero point of u8 may take nine bits."""
    kernel = tw.compile(dequantizing("bf16", b, "nt", 64, zero_point, 8, 32, 128), "sapphirerapids")
    assert ("vdpbf16ps" in kernel.asm["asm"]) == in_pairs


@pytest.mark.parametrize("target", [each for each in ("x86-64-v3", "neoverse-n1") if each in TARGETS])
def test_other_targets(target):
    for case in (CASES[0], CASES[8]):
        check(dequantizing(*case[:-1], *case[-1]), target)


@pytest.mark.parametrize(("layout", "m"), [("nn", 1), ("nt", 4)])
@pytest.mark.parametrize(("least", "most"), [(0, 15), (0, 16), (200, 255)])
def test_zero_points_that_are_codes_and_others(least, most, layout, m):
    """Codes less zero points of their own range are looked up; others are computed, or added, without a number that cancels."""
    spec = dequantizing("bf16", "u4", layout, 32, "u8", m, 150, 64)
    a, b, scales, zeros = operands_of(spec)
    zeros = np.random.default_rng(1).integers(least, most, zeros.shape, np.uint8, endpoint=True)
    zeros[-1, -1] = most
    result = check(spec, operands=[a, b, scales, zeros])
    b[:, :] = zeros[0, 0] & 15 | (zeros[0, 0] & 15) << 4
    result = check(spec, operands=[a, b, scales, np.full_like(zeros, zeros[0, 0])])
    assert not result.any() or zeros[0, 0] > 15


@pytest.mark.parametrize(("layout", "m"), [("nn", 1), ("nt", 1), ("nt", 3)])
def test_threads_share_columns(layout, m):
    spec = dequantizing("bf16", "u4", layout, 64, "u8", m, 2050, 1024, epilogue=(tw.bias(),))
    operands = operands_of(spec)
    kernel = tw.compile(spec, threads=2)
    assert (kernel.metadata.schedule, kernel.metadata.threads) == ("scaled_sums", 2)
    alone = tw.compile(spec)(*operands)
    assert np.array_equal(kernel(*operands), alone)
    assert within_bound(alone, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()


@pytest.mark.parametrize(
    ("m", "a", "group", "precision", "regions"),
    [
        (1, "bf16", 128, None, 1),
        (16, "f32", 32, None, 1),
        (16, "f32", 32, "i8", 2),
    ],  # A is rounded in a region of its own
)
def test_threads_share_the_products(m, a, group, precision, regions):
    spec = tw.MatmulSpec(
        m, 2048, 2048, a=a, b="i4", c=a, layout="nt", prologue_b=(tw.dequantize("gn", 0, group),), precision=precision
    )
    kernel = tw.compile(spec, "znver4", threads=2)
    assert kernel.metadata.schedule == "scaled_sums"
    assert kernel.asm["bufferized"].count("omp.parallel") == regions


def test_extreme_numbers():
    for a, b, layout, m in (
        ("f16", "i8", "nn", 1),
        ("f16", "i4", "nt", 3),
        ("bf16", "i4", "nn", 1),
        ("f32", "i4", "nt", 1),
    ):
        spec = dequantizing(a, b, layout, 128, 0, m, 128, 256, beta=1)
        x, codes, scales = operands_of(spec)
        of = scales if layout == "nt" else scales.T
        of[0], of[1, 0], of[2, 1], of[3], of[4] = 0, np.inf, np.nan, 3e38, 1e-38
        former = np.ones(spec.c_shape, np.float32)
        large = np.finfo(x.dtype).max if a == "f16" else 1e38
        for each in (x, (np.sign(x) * large).astype(x.dtype), np.where(np.arange(256) == 3, np.inf, x).astype(x.dtype)):
            with np.errstate(all="ignore"):
                want, bound = (of_(spec, each, codes, scales, c=former) for of_ in (tw.reference, tw.error_bound))
                got = tw.compile(spec)(each, codes, scales, out=former.copy())
            assert within_bound(got, want, bound).all()
        assert np.isnan(got[0, 2])


@pytest.mark.parametrize(
    ("fields", "chosen"),
    [
        ({}, "scaled_sums"),
        ({"m": 8}, "scaled_sums"),
        ({"m": 9}, "packed"),
        ({"b": "i8", "m": 8}, "scaled_sums"),
        ({"layout": "nt", "m": 8}, "scaled_sums"),
        ({"layout": "nt", "m": 64}, "scaled_sums"),
        ({"layout": "nt", "m": 65}, "packed"),
        ({"layout": "nt", "group": 96}, "inner_product"),
        ({"layout": "nt", "m": 32, "zero_point": "f32"}, "scaled_sums"),
        ({"layout": "nt", "m": 33, "zero_point": "f32"}, "packed"),
        ({"layout": "nn", "zero_point": "f32"}, "streamed"),
        ({"zero_point": 2.5}, "streamed"),
        ({"deterministic": True}, "packed"),
    ],
    ids=str,
)
def test_what_is_chosen(fields: dict[str, Any], chosen: str):
    given = {"b": "i4", "layout": "nn", "group": 64, "m": 1, **fields}
    group, b, layout, m = (given.pop(each) for each in ("group", "b", "layout", "m"))
    zero = given.pop("zero_point", 0)

    def shifted(c, scale):
        return (c - zero) * scale

    entries = (shifted, tw.cast("bf16")) if isinstance(zero, float) else (tw.dequantize("gn", zero, group),)
    spec = tw.MatmulSpec(m, 1024, 960, a="bf16", b=b, c="f32", layout=layout, prologue_b=entries, **given)
    assert select.choose(spec, targets.get("x86-64-v4")).strategy == chosen


def test_what_is_refused():
    spec = dequantizing("bf16", "i4", "nn", 64, 0, 1, 300, 128)
    for sizes in ({"nr": 64}, {"kc": 48}, {"nc": 130}):
        with pytest.raises(tw.ScheduleError, match="an nr of 128"):
            tw.compile(spec, "x86-64-v4", schedule="scaled_sums", parameters=sizes)
    with pytest.raises(tw.ScheduleError, match="does not compute"):
        tw.compile(tw.MatmulSpec(1, 8, 8), schedule="scaled_sums")


@pytest.mark.parametrize(
    ("b", "group", "zero_point", "m"), [("i4", 32, 0, 1), ("u4", 128, "u8", 2), ("u4", 64, "f32", 1), ("i4", 16, 0, 9)]
)
def test_registers_of_256_bits(b, group, zero_point, m):
    """Bytes are looked up where 32 codes share a scale, and many rows have a column in each lane."""
    spec = dequantizing("f32", b, "nt", group, zero_point, m, 21, 259)
    kernel = tw.compile(spec, "x86-64-v3")
    assert kernel.metadata.schedule == "scaled_sums"
    assert ("vpshufb\t%ymm" in kernel.asm["asm"]) == (group >= 32 and m < 3)
    check(spec, "x86-64-v3")


@pytest.mark.parametrize(("m", "layout", "varied"), [(3, "nn", "mr kc nc"), (2, "nt", "mr nr"), (12, "nt", "mr nr kc")])
def test_sizes_that_may_vary_give_right_numbers(m: int, layout: str, varied: str):
    """Row by row, along K in columns that are far apart, and transposed, so that vectors have a column in each lane."""
    spec, row = dequantizing("f32", "i4", layout, 128, 0, m, 1152, 1280), select.row("scaled_sums")
    target = targets.get("x86-64-v3")
    sizes = select.sized("scaled_sums", spec, target).parameters
    names = [each for axis in row.axes for each in axis.sizes if len(space.along(axis, each, spec, target, sizes)) > 1]
    assert names == varied.split()
    target = targets.resolve("host")
    sizes = select.sized("scaled_sums", spec, target).parameters
    found = candidates.of(spec, target, make.make(spec, target))
    assert found.start.strategy == "scaled_sums"
    assert {each.blocking for each in found.ordered if each.strategy == "scaled_sums"} >= {
        each for each in space.points(row.axes, spec, target, sizes) if each != sizes
    }
    operands = operands_of(spec)
    want, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    for each in space.around(row.axes, spec, target, sizes):
        kernel = tw.compile(spec, schedule="scaled_sums", parameters=each.by_name)
        assert within_bound(kernel(*operands), want, bound).all(), each
