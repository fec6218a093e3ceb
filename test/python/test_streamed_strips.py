# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of known extents that `streamed` stages for one strip at a time, on cores that wait for L2."""

import re
from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.schedules.models import strip_form

WAITS = replace(targets.resolve("host"), name="waits", rows_ahead=8)


@pytest.mark.parametrize(
    ("rows", "rows_ahead", "threads", "expected"),
    [(17, 8, 1, True), (16, 8, 1, False), (32, 0, 1, False), (32, 8, 2, False)],
)
def test_where_strips_are_taken(rows, rows_ahead, threads, expected):
    target = replace(WAITS, rows_ahead=rows_ahead)
    assert strip_form.takes(tw.MatmulSpec(rows, 100, 100), target, threads) is expected
    assert not strip_form.takes(tw.MatmulSpec(rows, 100, 100, layout="nt"), target, threads)


@pytest.mark.parametrize("types", ["f32", "f64", "bf16,bf16,f32", "u8,i8,i32"])
@pytest.mark.parametrize("shape", [(17, 496, 512), (25, 503, 477), (32, 464, 600)], ids=str)
@pytest.mark.parametrize("fused", [False, True])
def test_numbers(shape, types, fused):
    m, n, k = shape
    spec = tw.MatmulSpec.from_dtypes(m, n, k, types)
    spec = replace(spec, epilogue=(tw.bias("n"), tw.relu())) if fused else replace(spec, beta=1)
    kernel = tw.compile(spec, WAITS, schedule="streamed", parameters={"kc": 16}, cache=False)
    staged = re.findall(r"alloc_tensor\(\) : tensor<\d+x(\d+)x", kernel.asm["scheduled"])
    assert min(map(int, staged)) < min(spec.n, spec.k), "all of A is staged at once"
    rng = np.random.default_rng(3)

    def drawn(extents, kind):
        return rng.integers(0, 4, extents).astype(to_numpy(kind))

    a, b, c = drawn(spec.a_shape, spec.a_type), drawn(spec.b_shape, spec.b_type), drawn(spec.c_shape, spec.c_type)
    beside = [drawn(spec.n, spec.operands[2].type)] if fused else []
    expected = tw.reference(spec, a, b, *(beside or [c]))
    assert (kernel(a, b, *beside, out=c) == expected).all()


@pytest.mark.parametrize("types", ["f32", "c64"])
def test_parts_of_k_are_staged_at_once(types):
    spec = tw.MatmulSpec.from_dtypes(20, 37, 840, types)
    kernel = tw.compile(spec, WAITS, threads=1, schedule="streamed", parameters={"parts": 6}, verify=True, cache=False)
    assert kernel.metadata.parameters["parts"] == 6
