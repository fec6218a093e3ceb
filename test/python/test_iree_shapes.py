# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The shapes of IREE's end-to-end tests of matrix products, each by a kernel of its own and all by one of dynamic extents."""

from functools import cache

import pytest
import tilewright as tw
from products import check, uniform

SHAPES = [
    (1, 1, 1),
    (1, 1000, 1000),
    (1000, 1, 1000),
    (1000, 1000, 1),
    (123, 456, 789),
    (457, 330, 514),
    (15, 14, 13),
    (6, 13, 3),
]


@cache
def dynamic(element: str) -> tw.Kernel:
    return tw.compile(tw.MatmulSpec(None, None, None, a=element))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_static(element, shape):
    spec = tw.MatmulSpec(*shape, a=element)
    check(tw.compile(spec), uniform(spec))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("element", ["f32", "bf16", "i8"])
def test_dynamic(element, shape):
    spec = tw.MatmulSpec(*shape, a=element)
    check(dynamic(element), uniform(spec), spec=spec)
