# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with AMX: their numbers and their instructions, on the hardware or on an emulator of it."""

from math import prod
from pathlib import Path

import emulated_amx as amx
import pytest
import tilewright as tw
from products import assert_right, uniform

TYPES = {
    "bf16": ("bf16", "bf16", "f32", "tdpbf16ps"),
    "f16": ("f16", "f16", "f32", "tdpfp16ps"),
    "i8": ("i8", "i8", "i32", "tdpbssd"),
    "u8,i8": ("u8", "i8", "i32", "tdpbusd"),
    "i8,u8": ("i8", "u8", "i32", "tdpbsud"),
    "u8": ("u8", "u8", "i32", "tdpbuud"),
}
SIZES = {
    "whole tiles": (64, 64, 128),
    "one tile and a bit": (33, 33, 65),
    "less than a tile": (5, 3, 7),
    "one element": (1, 1, 1),
    "odd": (101, 77, 259),
    "several blocks": (150, 130, 420),
}
# Smaller than the model's, so that every loop of the nest runs more than once.
BLOCKS = {"mc": 64, "nc": 64, "kc": 128}

needs_avx512 = pytest.mark.skipif(
    bool(tw.targets.runnable(tw.targets.get("x86-64-v4"))), reason="the code around AMX is AVX-512, which is absent"
)
needs_clang = pytest.mark.skipif(amx.CLANG is None, reason="clang, which compiles the emulator, is absent")
pytestmark = [needs_avx512, needs_clang]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory) -> Path | None:
    """The emulator; None where the machine has AMX itself."""
    return None if amx.HARDWARE else amx.build_emulator(tmp_path_factory.mktemp("emulator"))


def specify(types: str, size: str, beta: int = 0) -> tw.MatmulSpec:
    a, b, c, _ = TYPES[types]
    m, n, k = SIZES[size]
    return tw.MatmulSpec(m=m, n=n, k=k, a=a, b=b, c=c, beta=beta)


def native(types: str) -> bool:
    """Whether this machine runs the instruction itself."""
    features = tw.targets.resolve("host").features
    return amx.HARDWARE and (types != "f16" or "amx-fp16" in features)


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("types", TYPES)
def test_numbers(tmp_path, emulator, types, size, beta):
    if emulator is None and not native(types):
        pytest.skip("the machine has AMX, but not for f16")
    spec = specify(types, size, beta)
    kernel = amx.build_kernel(tmp_path, spec, amx.target("amx-fp16"), "packed", {"mr": 32, "nr": 32, **BLOCKS})
    operands = uniform(spec)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    if counts:
        steps = [-(-extent // size) for extent, size in ((spec.m, 16), (spec.n, 16), (spec.k, 64 // spec.a_type.bytes))]
        assert counts[TYPES[types][3]] >= prod(steps)
        assert counts["ldtilecfg"] == 1
        assert counts["tilerelease"] == 1
