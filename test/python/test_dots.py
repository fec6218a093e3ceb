# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which instruction multiplies which element types, by a target's features."""

from dataclasses import replace

import pytest
import tilewright as tw
from tilewright.emit import stages
from tilewright.schedules import make
from tilewright.targets import get

V3, V4 = get("x86-64-v3"), get("x86-64-v4")


@pytest.mark.parametrize(
    ("row", "features", "a", "b", "names"),
    [
        (get("x86-64"), (), "i8", "u8", ["vpmaddwd"]),
        (V3, (), "bf16", "bf16", ["multiply-add"]),
        (V3, ("avxvnni",), "u8", "i8", ["vpdpbusd"]),
        (V3, ("avxvnni",), "i8", "i8", ["vpdpbusd"]),
        (V3, ("avxvnni", "avxvnniint8"), "i8", "i8", ["vpdpbssd"]),
        (V4, (), "u8", "u8", ["vpmaddwd"]),
        (V4, ("avx512vnni",), "u8", "u8", ["vpdpbusd"]),
        (V4, ("avx512bf16",), "bf16", "bf16", ["vdpbf16ps"]),
        (V4, ("avx512bf16",), "f16", "f16", ["multiply-add"]),
        (get("sapphirerapids"), (), "bf16", "bf16", ["tdpbf16ps", "vdpbf16ps"]),
        (get("graniterapids"), (), "f16", "f16", ["tdpfp16ps", "multiply-add"]),
        (V4, (), "f32", "f32", ["multiply-add"]),
    ],
)
def test_the_best_that_the_features_allow(row, features, a, b, names):
    target = replace(row, name="made-up", features=row.features | set(features))
    assert [dot.name for dot in target.dots(a, b)] == names
    assert target.dot(a, b).name == names[0]


@pytest.mark.parametrize(
    ("features", "a", "b", "instruction"),
    [(("avxvnni",), "u8", "i8", "vpdpbusd"), (("avxvnni", "avxvnniint8"), "i8", "i8", "vpdpbssd")],
)
def test_a_core_that_no_row_describes_gets_its_instruction(features, a, b, instruction):
    target = replace(V3, name="made-up", features=V3.features | set(features))
    spec = tw.MatmulSpec(64, 64, 64, a=a, b=b)
    text = stages.build(spec, target, make.make(spec, target, "packed"), until="asm").texts["asm"]
    assert f"{instruction}\t" in text
    assert "vpmaddwd" not in text


def test_turning_signs_is_for_operands_of_one_sign():
    for a, b, flip in (("u8", "i8", False), ("i8", "u8", False), ("i8", "i8", True), ("u8", "u8", True)):
        assert get("cascadelake").dot(a, b).flip == flip


@pytest.mark.parametrize("bits", [256, 512])
def test_an_instruction_multiplies_registers_of_the_targets_size(bits):
    target = replace(V4, name="made-up", features=V4.features | {"avx512vnni"}, vector_bits=bits)
    for types in (("u8", "i8"), ("u8", "u8"), ("i8", "u8")):
        assert [dot.bits for dot in target.dots(*types)] == [bits], types
