# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes: how they are spelled, and which ones the suites hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright.bench import SUITES, Shape, parse_shape, suite
from tilewright.errors import SpecError


@given(st.tuples(*[st.integers(1, 2**31 - 1)] * 3))
def test_a_shape_is_read_as_it_is_written(extents):
    shape = Shape(*extents)
    assert parse_shape(str(shape)) == shape


@pytest.mark.parametrize("text", ["384X1024x1024", "384×1024×1024", " 384x1024x1024\n"])
def test_other_spellings(text):
    assert parse_shape(text) == Shape(384, 1024, 1024)


@pytest.mark.parametrize(
    "text",
    ["", "x", "1x2", "1x2x3x4", "axbxc", "-1x2x3", "1.5x2x3", "1 x2x3", "1x2x", "٣x٣x٣", "1_0x2x3", "0x2x3", "1x2x0"],
)
def test_bad_shapes_are_refused_in_one_line(text):
    with pytest.raises(SpecError, match="shape") as caught:
        parse_shape(text)
    assert "\n" not in str(caught.value)
    assert caught.value.expected


def test_the_suites_are_those_that_are_published():
    assert list(SUITES) == ["square", "bert", "llm", "resnet50", "odd", "skinny", "small"]
    assert [shape.m for shape in suite("square").shapes] == [64, 128, 256, 512, 1024, 2048, 4096]
    assert {name: len(each.shapes) for name, each in SUITES.items()} == {
        "square": 7,
        "bert": 7,
        "llm": 30,
        "resnet50": 9,
        "odd": 10,
        "skinny": 5,
        "small": 9,
    }
    assert str(suite("bert").shapes[3]) == "384x1024x1024"
    assert Shape(128, 28672, 4096) in suite("llm").shapes


def test_attention_is_batched():
    assert [str(shape) for shape in suite("bert").shapes if shape.batch] == ["16x[512x512x64]", "16x[512x64x512]"]


def test_an_unknown_suite_is_refused_with_the_known_ones():
    with pytest.raises(SpecError, match="unknown suite 'brt'; expected one of square, bert"):
        suite("brt")


def test_work_and_size():
    assert Shape(2, 3, 5).flops == 60
    assert Shape(2, 3, 5, batch=(4, 2)).flops == 480
    assert Shape(64, 64, 64).size == pytest.approx(64)
