# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Columns of a transposed B that are read far apart: how many, and that the results are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.payload.reference import within_bound
from tilewright.schedules.models import far_columns


def spec_of(m: int, n: int, k: int, a: str, b: str, layout: str = "nt", **more: Any) -> tw.MatmulSpec:
    return tw.MatmulSpec(m=m, n=n, k=k, a=a, b=b, layout=layout, **more)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (spec_of(1, 4096, 4096, "f32", "f32"), 4),
        (spec_of(1, 4095, 4096, "f8E4M3FN", "f8E4M3FN"), 3),
        (spec_of(1, 4099, 4096, "f32", "f32"), 1),
        (spec_of(4, 4096, 4096, "u8", "i8"), 4),
        (spec_of(8, 4096, 4096, "f8E4M3FN", "f8E4M3FN"), 4),
        (spec_of(8, 4096, 4096, "u8", "i8"), 1),
        (spec_of(8, 4096, 4096, "f32", "f32"), 1),
        (spec_of(1, 64, 64, "f32", "f32"), 1),
        (spec_of(1, 4096, 4096, "f32", "f32", "nn"), 1),
    ],
    ids=str,
)
def test_few_rows_by_a_large_transposed_b_have_them(spec, count):
    assert far_columns.count(spec, targets.get("x86-64-v4")) == count


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "spec",
    [
        spec_of(1, 68, 2100, "f8E4M3FN", "f8E4M3FN"),
        spec_of(2, 1023, 517, "f32", "f32", beta=1),
        spec_of(4, 250, 1031, "u8", "i8"),
        spec_of(2, 260, 515, "bf16", "bf16", epilogue=(tw.bias(), tw.relu())),
        spec_of(3, 260, 515, "i8", "i8", batch=(2,)),
    ],
    ids=str,
)
def test_their_numbers_are_those_of_the_definition(spec, threads):
    kernel = tw.compile(spec, schedule="inner_product", threads=threads)
    assert kernel.metadata.parameters["nr"] > 1
    random = np.random.default_rng(7)
    operands = [random.integers(0, 5, each.shape).astype(to_numpy(each.type)) for each in spec.operands]
    out = random.integers(0, 5, spec.c_shape).astype(to_numpy(spec.c_type))
    before = [out.copy()] if spec.beta else []
    kernel(*operands, out=out)
    assert within_bound(out, tw.reference(spec, *operands, *before), tw.error_bound(spec, *operands, *before)).all()
