# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized weights by A rounded to 8-bit integers, `precision="i8"`: the numbers of the formula, their bound, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from guard_pages import Guarded, Placing
from products import TARGETS
from test_quantized import dequantizing, operands_of
from tilewright import targets
from tilewright.dtypes import dtype
from tilewright.payload.reference import within_bound
from tilewright.schedules import select
from tilewright.targets.code_dots import code_dot

CASES = [
    # Vectors along K: one group in a register, several, and groups of several registers; short last ones; zero points.
    ("f32", "i4", 32, 0, (1, 20, 300)),
    ("bf16", "i4", 64, 0, (1, 7, 130)),
    ("f16", "u4", 128, "u8", (2, 9, 300)),
    ("f32", "u4", 32, "f32", (1, 9, 140)),
    ("f32", "i8", 32, 0, (1, 20, 300)),
    ("f32", "u8", 64, "u8", (2, 6, 200)),
    ("f16", "i8", 0, 0, (1, 5, 300)),
    ("f32", "i4", 256, 0, (1, 6, 520)),
    # Vectors of columns, with some that are beyond the last.
    ("f32", "i4", 32, 0, (3, 20, 300)),
    ("bf16", "i4", 128, "i8", (5, 18, 300)),
    ("f16", "u4", 64, "u8", (8, 35, 200)),
    ("f32", "u4", 32, "f16", (9, 16, 96)),
    ("f32", "i8", 32, 0, (6, 20, 300)),
    ("bf16", "u8", 128, "u8", (7, 17, 140)),
    ("f32", "i8", 0, 0, (5, 17, 300)),
    ("f32", "i4", 32, 0, (70, 17, 64)),
]


def rounded(a, group):
    """A as the formula has it, and of its groups the largest magnitudes."""
    m, k = a.shape
    size = min(group or 128, 128)
    groups = np.zeros((m, -(-k // size) * size), np.float32)
    groups[:, :k] = a.astype(np.float32)
    groups = groups.reshape(m, -1, size)
    most = np.abs(groups).max(-1, keepdims=True)
    with np.errstate(all="ignore"):
        inverse = np.where(most < 2.0**-110, np.float32(0), np.float32(127) / most)
    numbers = np.rint(groups.astype(np.float64) * inverse)
    return (numbers * (most * np.float32(1 / 127)).astype(np.float64)).reshape(m, -1)[:, :k]


def exact(case, operands):
    """The product of A rounded by weights that are not, in float64."""
    _, b, group, zero_point, (_, n, k) = case
    made = dequantizing("f32", b, "nt", group, zero_point, k, n, k)
    given = [
        each
        if each.dtype in (np.uint8, np.int8)
        else each.astype(np.float32 if zero_point != "f16" or at < 2 else each.dtype)
        for at, each in enumerate(operands[1:])
    ]
    return rounded(operands[0], group) @ tw.reference(made, np.eye(k, dtype=np.float32), *given)


def rounding(a, b, group, zero_point, extents):
    return replace(dequantizing(a, b, "nt", group, zero_point, *extents), precision="i8")


def check(case, target="host"):
    spec = rounding(*case)
    kernel = tw.compile(spec, target=target)
    operands = operands_of(spec)
    c = kernel(*operands)
    want = exact(case, operands)
    sizes = np.abs(want).max()
    assert np.abs(c - want).max() <= 2e-6 * sizes
    assert within_bound(c, tw.reference(spec, *operands), tw.error_bound(spec, *operands)).all()
    plain = tw.reference(spec, *operands)
    assert np.abs(want - plain).max() > 1e-4 * sizes, "rounding is nothing that cannot be seen"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_numbers_are_those_of_the_formula(case):
    host = targets.resolve("host")
    if code_dot(host, host.lanes(dtype("f32")), 8) is None:
        pytest.skip("this machine has no instruction for bytes")
    check(case)


@pytest.mark.parametrize("target", [each for each in ("x86-64-v3", "neoverse-n1") if each in TARGETS])
@pytest.mark.parametrize("case", [CASES[0], CASES[5], CASES[9], CASES[12]], ids=str)
def test_other_targets(target, case):
    check(case, target)


@pytest.mark.parametrize(
    ("target", "b", "instruction"),
    [
        ("znver4", "i4", "vpdpbusd"),
        ("znver4", "u8", "vpdpbusd"),
        ("x86-64-v4", "i4", "vpmaddubsw"),
        ("x86-64-v3", "i4", "vpmaddubsw"),
        ("x86-64-v3", "i8", "vpsignb"),
        ("neoverse-n1", "i4", "sdot"),
    ],
)
@pytest.mark.parametrize("m", [1, 8])
def test_bytes_are_multiplied(target, b, instruction, m):
    spec = rounding("f32", b, 32, 8 if b == "u8" else 0, (m, 32, 256))
    assert select.choose(spec, targets.resolve(target)).strategy == "scaled_sums"
    assert instruction in tw.compile(spec, target).asm["asm"]


def test_operands_are_read_and_nothing_else():
    for case in (CASES[0], CASES[9]):
        spec = rounding(*case)
        kernel, operands = tw.compile(spec), operands_of(spec)
        want, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
        for placing in (Placing(at_end=False, fenced=False, gap=0), Placing(at_end=True, fenced=True, gap=0)):
            given = [Guarded(each, placing) for each in operands]
            out = Guarded(np.full(spec.c_shape, np.nan, np.float32), placing)
            kernel(*[each.matrix for each in given], out=out.matrix)
            assert within_bound(out.matrix, want, bound).all()
            assert not out.is_written_around()


@pytest.mark.parametrize("m", [1, 4])
def test_special_numbers(m):
    """Groups of zeros, of tiny and of huge numbers are within the bound; an Inf or a NaN makes its row NaN or Inf."""
    spec = rounding("f32", "i4", 32, 0, (m, 16, 160))
    a, *others = operands_of(spec)
    a[0, :32], a[0, 32:64], a[0, 64:96] = 0, 1e-38, 1e37
    c = tw.compile(spec)(a, *others)
    assert within_bound(c, tw.reference(spec, a, *others), tw.error_bound(spec, a, *others)).all()
    for special in (np.nan, np.inf):
        a[0, 100] = special
        c = tw.compile(spec)(a, *others)
        assert not np.isfinite(c[0]).any()
        assert np.isfinite(c[1:]).all()
        assert within_bound(c, tw.reference(spec, a, *others), tw.error_bound(spec, a, *others)).all()


def test_threads_compute_the_same():
    for case in (CASES[0], CASES[8]):
        spec = rounding(*case)
        operands = operands_of(spec)
        assert (tw.compile(spec, threads=2)(*operands) == tw.compile(spec)(*operands)).all()


def test_elsewhere_a_is_as_it_is():
    """More rows, layout n, targets without bytes, and deterministic products: right without rounding, as the bound allows."""
    plain = dequantizing("f32", "i4", "nn", 32, 0, 2, 40, 64)
    operands = operands_of(plain)
    spec = replace(plain, precision="i8")
    assert (tw.compile(spec)(*operands) == tw.compile(plain)(*operands)).all()
    for each in (rounding("f32", "i4", 32, 0, (600, 40, 64)), replace(rounding(*CASES[8]), deterministic=True)):
        assert select.choose(each, targets.resolve("x86-64-v3")).strategy != "scaled_sums"
    no_bytes = targets.resolve("x86-64-v2")
    assert select.choose(rounding(*CASES[8]), no_bytes).strategy != "scaled_sums" or not no_bytes.features & {"avx2"}


@pytest.mark.parametrize(
    "fields", [{"b": "f32", "prologue_b": ()}, {"b": "f8E4M3FN"}, {"a": "i8", "b": "i8", "prologue_b": ()}]
)
def test_refusals(fields):
    spec = dequantizing("f32", "i4", "nt", 32, 0, 1, 8, 64)
    with pytest.raises(tw.SpecError, match="precision 'i8'"):
        replace(spec, c=None, acc=None, precision="i8", **fields)
