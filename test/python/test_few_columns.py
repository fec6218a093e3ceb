# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of few columns, which are multiplied in vectors along K: what they are chosen for, and their numbers."""

import numpy as np
import pytest
import tilewright as tw
from tilewright import targets
from tilewright.dtypes import to_numpy
from tilewright.schedules import select

ZEN_5 = targets.get("znver5")


@pytest.mark.parametrize(
    ("types", "shape", "layout", "strategy"),
    [
        ("f32", (2048, 8, 1024), "nn", "inner_product"),
        ("f32", (2048, 8, 1024), "nt", "inner_product"),
        ("f32", (2048, 8, 1024), "tn", "unpacked"),
        ("f32", (16, 8, 1024), "nn", "unpacked"),  # the copy of B is not repaid
        ("f32", (2048, 8, 64), "nn", "unpacked"),  # the sums of lanes take too long
        ("f32", (2048, 8, 2048), "nn", "unpacked"),  # B does not stay in L1
        ("f32", (512, 16, 256), "nn", "unpacked"),  # vectors along N are full
        ("f32", (512, 3, 64), "nn", "inner_product"),
        ("bf16,bf16,f32", (32768, 8, 512), "nn", "inner_product"),
        ("u8,i8,i32", (32768, 8, 512), "nn", "inner_product"),
        ("u8,i8,i32", (512, 8, 128), "nt", "packed"),
        ("f64", (256, 12, 300), "nt", "inner_product"),
    ],
)
def test_few_columns_are_multiplied_along_k_where_that_pays(types, shape, layout, strategy):
    m, n, k = shape
    assert select.choose(tw.MatmulSpec.from_dtypes(m, n, k, types, layout=layout), ZEN_5).strategy == strategy


@pytest.mark.parametrize("types", ["f32", "bf16,bf16,f32", "u8,i8,i32", "i8,i8,i32", "f16,f16,f32", "f64"])
@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_their_numbers_are_right(types, layout):
    for (m, n, k), further in (
        ((301, 7, 515), {}),
        ((70, 13, 300), {"beta": 1}),
        ((40, 2, 333), {"batch": (3,)}),
        ((300, 3, 200), {"epilogue": (tw.relu(),)}),
    ):
        spec = tw.MatmulSpec.from_dtypes(m, n, k, types, layout=layout, **further)
        rng = np.random.default_rng(1)
        a, b, c = (
            rng.integers(0, 3, shape).astype(to_numpy(element))
            for shape, element in (
                (spec.a_shape, spec.a_type),
                (spec.b_shape, spec.b_type),
                (spec.c_shape, spec.c_type),
            )
        )
        for threads in (1, 2):
            kernel = tw.compile(spec, schedule="inner_product", threads=threads)
            start = {"out": c.copy()} if spec.beta else {}
            wanted = tw.reference(spec, a, b, **({"c": c} if spec.beta else {}))
            assert (kernel(a, b, **start) == wanted).all(), f"{spec}, {threads} threads"


def test_dynamic_columns_that_would_have_to_be_copied_are_refused():
    with pytest.raises(tw.ScheduleError, match="dynamic extents; expected a static N and K"):
        tw.compile(tw.MatmulSpec(64, None, 128), schedule="inner_product")
