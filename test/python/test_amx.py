# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels with AMX: their numbers and their instructions, on the hardware or on an emulator of it."""

import subprocess
import sys
from math import prod
from pathlib import Path

import emulated_amx as amx
import numpy as np
import pytest
import tilewright as tw
from products import assert_right, uniform
from tilewright.dtypes import to_numpy
from tilewright.schedules import make
from tilewright.schedules.models import blocking

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


@pytest.mark.parametrize(("size", "beta"), [*((size, 0) for size in SIZES), ("whole tiles", 1), ("odd", 1)])
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


@pytest.mark.parametrize("types", ["bf16", "u8,i8,i32"])
def test_one_kernel_for_every_size(tmp_path, emulator, types):
    spec = tw.MatmulSpec.from_dtypes(None, None, None, types)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed")
    for sizes in ((1, 1, 1), (17, 33, 65), (40, 20, 130)):
        static = spec.at(*sizes)
        operands = uniform(static)
        result, counts = amx.run(tmp_path, emulator, kernel, static, operands)
        assert_right(static, operands, result)
        assert not counts or counts["tdpbf16ps"] + counts["tdpbusd"] > 0


@pytest.mark.parametrize("types", TYPES)
def test_every_instruction_is_counted(tmp_path, emulator, types):
    if emulator is None:
        pytest.skip("the machine has AMX, and does not count")
    spec = specify(types, "whole tiles")
    kernel = amx.build_kernel(tmp_path, spec, amx.target("amx-fp16"), "packed", {"mr": 32, "nr": 32})
    _, counts = amx.run(tmp_path, emulator, kernel, spec, uniform(spec))
    steps = spec.k * spec.a_type.bytes // 64
    # Four blocks of 2 x 2 tiles; each step loads two tiles of A and two of B for four products.
    assert {kind: count for kind, count in counts.items() if count} == {
        "ldtilecfg": 1,
        "tilezero": 4 * 4,
        "tileloadd": 4 * 4 * steps,
        TYPES[types][3]: 4 * 4 * steps,
        "tilestored": 4 * 4,
        "tilerelease": 1,
    }


@pytest.mark.parametrize("types", ["bf16", "u8,i8"])
@pytest.mark.parametrize("fields", [{}, {"layout": "tt"}, {"c": "bf16"}])
def test_rows_of_a_packed_tile_are_in_sets_of_their_own(tmp_path, emulator, types, fields):
    if emulator is None:
        pytest.skip("the machine has AMX, and does not count")
    if types != "bf16" and "c" in fields:
        fields = {"epilogue": (tw.relu(),)}
    a, b, c, product = TYPES[types]
    spec = tw.MatmulSpec(m=70, n=50, k=1030, a=a, b=b, **{"c": c, **fields})
    # Rows of a block of A's are 1024 bytes: in a panel row after row, sixteen of them would be in four sets.
    sizes = {"mr": 32, "nr": 32, "mc": 64, "nc": 64, "kc": 1024 // spec.a_type.bytes}
    operands = uniform(spec)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed", sizes)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert counts[product] > 0
    assert counts["crowded"] == 0


@pytest.mark.parametrize("types", ["bf16", "i8"])
@pytest.mark.parametrize("shape", [(40, 40, 70), (9, 200, 33), (33, 200, 33), (200, 17, 64), (130, 131, 132)])
def test_sizes_of_the_model(tmp_path, emulator, types, shape):
    a, b, c, _ = TYPES[types]
    m, n, k = shape
    spec = tw.MatmulSpec(m=m, n=n, k=k, a=a, b=b, c=c)
    operands = uniform(spec)
    # Vectors compute rows that are too few for packing; how few they are depends on the host's.
    packed = m > 32 or make.make(spec, amx.target()).name == "packed"
    result, counts = amx.run(tmp_path, emulator, amx.build_kernel(tmp_path, spec, amx.target()), spec, operands)
    assert_right(spec, operands, result)
    assert not counts or (counts[TYPES[types][3]] > 0) == packed


@pytest.mark.parametrize(
    ("types", "k", "epilogue"),
    [
        ("bf16", 32, (tw.relu(),)),
        ("bf16", 17, (tw.softmax(),)),
        ("u8,i8", 64, (tw.dequantize(0.25), tw.gelu())),
        ("u8,i8", 40, (tw.dequantize(0.25), tw.softmax())),
    ],
)
def test_a_k_of_one_step_is_multiplied_once(tmp_path, emulator, types, k, epilogue):
    a, b, _, product = TYPES[types]
    spec = tw.MatmulSpec(m=64, n=64, k=k, a=a, b=b, c="f32", epilogue=epilogue)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed", {"mr": 32, "nr": 32})
    operands = uniform(spec)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert not counts or counts[product] == 16


@pytest.mark.parametrize("shape", [(70, 50, 90), (32, 32, 64)])
def test_a_result_of_bf16_is_rounded_from_tiles(tmp_path, emulator, shape):
    m, n, k = shape
    spec = tw.MatmulSpec(m=m, n=n, k=k, a="bf16", b="bf16", c="bf16", beta=1)
    operands = uniform(spec)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed", BLOCKS)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert not counts or counts["tdpbf16ps"] > 0


@pytest.mark.parametrize("types", ["bf16", "i8", "u8,i8"])
@pytest.mark.parametrize("strategy", ["unpacked", "inner_product"])
def test_other_strategies_multiply_without_tiles(tmp_path, emulator, types, strategy):
    a, b, c, _ = TYPES[types]
    spec = tw.MatmulSpec(m=21, n=1 if strategy == "inner_product" else 37, k=70, a=a, b=b, c=c)
    operands = uniform(spec)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), strategy)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert not any(counts.values())


@pytest.mark.parametrize("types", ["bf16", "u8,i8"])
def test_two_threads_have_tiles_of_their_own(tmp_path, emulator, types):
    # Partial tiles at both ends, so that each thread needs a buffer of its own.
    a, b, c, _ = TYPES[types]
    spec = tw.MatmulSpec(m=301, n=403, k=700, a=a, b=b, c=c, beta=1)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed", {"mr": 32, "nr": 32}, threads=2)
    operands = uniform(spec)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert not counts or counts["ldtilecfg"] > 1


@pytest.mark.parametrize("types", ["i8", "u8,i8", "i8,u8", "u8"])
def test_extreme_bytes(tmp_path, emulator, types):
    a, b, c, _ = TYPES[types]
    spec = tw.MatmulSpec(m=33, n=35, k=515, a=a, b=b, c=c, beta=1)
    random = np.random.default_rng(0)
    ends = [np.iinfo(to_numpy(each)) for each in (spec.a_type, spec.b_type)]
    shapes = (spec.a_shape, spec.b_shape)
    left, right = (
        random.choice([end.min, end.max], shape).astype(end.dtype) for end, shape in zip(ends, shapes, strict=True)
    )
    # Past the end of 32 bits sums wrap around.
    former = random.choice([-(2**31), 2**31 - 1], spec.c_shape).astype(np.int32)
    kernel = amx.build_kernel(tmp_path, spec, amx.target())
    result, _ = amx.run(tmp_path, emulator, kernel, spec, (left, right, former))
    exact = former.astype(np.int64) + left.astype(np.int64) @ right.astype(np.int64)
    assert (result == exact.astype(np.int32)).all()


@pytest.mark.parametrize("types", ["bf16", "f16"])
def test_floats_that_are_no_numbers(tmp_path, emulator, types):
    if emulator is None and not native(types):
        pytest.skip("the machine has AMX, but not for f16")
    spec = tw.MatmulSpec(m=20, n=20, k=40, a=types, b=types, c="f32")
    ones = [np.ones(shape, dtype=to_numpy(spec.a_type)) for shape in (spec.a_shape, spec.b_shape)]
    ones[0][3, 5] = np.nan
    ones[0][4, 6] = np.inf
    ones[0][5, 7] = -np.inf
    ones[0][5, 8] = np.inf
    kernel = amx.build_kernel(tmp_path, spec, amx.target("amx-fp16"), "packed")
    result, _ = amx.run(tmp_path, emulator, kernel, spec, (*ones, np.zeros(spec.c_shape, np.float32)))
    assert np.isnan(result[[3, 5]]).all()
    assert (result[4] == np.inf).all()
    assert (np.delete(result, [3, 4, 5], axis=0) == spec.k).all()


@pytest.mark.parametrize("types", ["bf16", "f16"])
def test_subnormal_elements(tmp_path, emulator, types):
    if emulator is None and not native(types):
        pytest.skip("the machine has AMX, but not for f16")
    spec = tw.MatmulSpec(m=20, n=20, k=40, a=types, b=types, c="f32")
    tiny = np.full(spec.a_shape, 3, np.uint16).view(to_numpy(spec.a_type))
    ones = np.ones(spec.b_shape, dtype=to_numpy(spec.b_type))
    kernel = amx.build_kernel(tmp_path, spec, amx.target("amx-fp16"), "packed")
    result, _ = amx.run(tmp_path, emulator, kernel, spec, (tiny, ones, np.zeros(spec.c_shape, np.float32)))
    # Those of bf16 are subnormal in f32 too, and zeros to TDPBF16PS; those of f16 are not.
    assert (result == (0 if types == "bf16" else spec.k * float(tiny[0, 0]))).all()


@pytest.mark.parametrize(
    ("types", "fields", "threads"),
    [("bf16", {}, 1), ("u8,i8", {"beta": 1}, 1), ("bf16", {"beta": 1}, 2)],
)
def test_sums_wait_where_their_rows_are_in_sets_of_their_own(tmp_path, emulator, types, fields, threads):
    a, b, c, _ = TYPES[types]
    # Rows of C, 4096 bytes apart, would be in one set of L1.
    spec = tw.MatmulSpec(m=70, n=1024, k=130, a=a, b=b, c=c, **fields)
    sizes = {"mr": 32, "nr": 32, "mc": 64, "nc": 512, "kc": 64 // spec.a_type.bytes * 2}
    target = amx.target()
    assert blocking.stages_c(spec, target, blocking.Blocking(**sizes))
    operands = uniform(spec)
    kernel = amx.build_kernel(tmp_path, spec, target, "packed", sizes, threads=threads)
    result, counts = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)
    assert not counts or counts["crowded"] == 0


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "sizes", [{}, {"mr": 16, "mc": 16, "nr": 48}, {"kc": 128, "mc": 64}], ids=["", "wide", "sliced"]
)
@pytest.mark.parametrize("shape", [(33, 96, 256), (5, 64, 192), (64, 160, 320)])
@pytest.mark.parametrize(
    ("types", "c"), [("bf16", None), ("bf16", "bf16"), ("u8,i8", None), ("i8,u8", None), ("i8", None)]
)
def test_operands_exchanged(tmp_path, emulator, types, c, shape, sizes, threads):
    a, b, full, _ = TYPES[types]
    m, n, k = shape
    spec = tw.MatmulSpec(m, n, k, a=a, b=b, c=c or full, layout="nt")
    operands = uniform(spec)
    kernel = amx.build_kernel(tmp_path, spec, amx.target(), "packed", {"exchanged": 1, **sizes}, threads=threads)
    result, _ = amx.run(tmp_path, emulator, kernel, spec, operands)
    assert_right(spec, operands, result)


_OPERATORS = (
    amx.AS_HOST
    + """
import os
import numpy as np
import tilewright as tw
from tilewright.payload.reference import within_bound
from tilewright.payload.samples import values

half = {"a": "bf16", "c": "bf16", "epilogue": (tw.bias(), tw.relu())}
of_bytes = {"a": "u8", "b": "i8", "stride": 2, "padding": 1}
CONVOLUTIONS = (
    tw.Conv2dSpec(1, 14, 14, 64, 40, 3, 3, a="bf16", padding="same"),
    tw.Conv2dSpec(1, 9, 9, 64, 40, 3, 3, **half, padding="same"),
    tw.Conv2dSpec(2, 9, 28, 64, 80, 3, 3, a="bf16", groups=2, stride=(1, 2), padding=1),  # Two tiles of 14 pixels.
    tw.Conv2dSpec(2, 7, 7, 64, 48, 3, 3, a="bf16", w_packed=True),
    tw.Conv2dSpec(1, 14, 14, 32, 48, 3, 3, a="bf16", layout="nchw", padding=1),
    tw.Conv2dSpec(2, 9, 9, 33, 17, 1, 1, a="u8", b="i8"),
    tw.Conv2dSpec(1, 15, 15, 64, 33, 3, 3, **of_bytes),
)
bf16 = {"q": "bf16"}
ATTENTION = (
    tw.AttentionSpec(70, 90, 64, heads=2, causal=True, **bf16),
    tw.AttentionSpec(33, 33, 40, heads=2, kv_heads=1, mask="u8", mask_axes="mn", **bf16),
    tw.AttentionSpec(65, 150, 300, value_head=41, k="f8E4M3FN", mask="bf16", scale=-1.0, **bf16),
    tw.AttentionSpec(2, 300, 96, heads=8, kv_heads=2, causal="lower_right", **bf16),
)
for spec in (*CONVOLUTIONS, *ATTENTION):
    random = np.random.default_rng(0)
    given = [values(random, each.shape, each.type) for each in spec.operands]
    kernel, before = tw.compile(spec, cache=False), products()
    stored = [given[0], kernel.pack("w", given[1])] if getattr(spec, "w_packed", False) else given
    right = within_bound(kernel(*stored), tw.reference(spec, *given), tw.error_bound(spec, *given)).all()
    assert right, spec
    assert products() > before, spec
print("right", flush=True)
os._exit(0)
"""
)


@pytest.mark.skipif(amx.HARDWARE, reason="the machine has AMX, so nothing is emulated")
def test_convolutions_and_attention_multiply_tiles(emulator):
    command = [sys.executable, "-I", "-c", _OPERATORS, str(emulator)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


CONFIG = """
    .byte 1, 0, 0,0,0,0,0,0,0,0,0,0,0,0,0,0
    .short 64, 64, 64, 0,0,0,0,0, 0,0,0,0,0,0,0,0
    .byte 16, 16, {rows}, 0,0,0,0,0, 0,0,0,0,0,0,0,{last}
"""


@pytest.mark.skipif(amx.HARDWARE, reason="the machine has AMX, so nothing is emulated")
@pytest.mark.parametrize(
    ("code", "config", "message"),
    [
        ("tilezero %tmm0", {}, "no tiles are configured"),
        ("ldtilecfg c(%rip)\n tdpbssd %tmm2, %tmm1, %tmm0", {}, ""),
        ("ldtilecfg c(%rip)\n tilezero %tmm3", {}, "the tile is not configured"),
        ("ldtilecfg c(%rip)\n .byte 0xc4, 0xe2, 0x73, 0x5e, 0xc1", {}, "three different tiles"),
        ("ldtilecfg c(%rip)\n tdpbf16ps %tmm2, %tmm1, %tmm0", {"rows": 8}, "A and B differ in k"),
        ("ldtilecfg c(%rip)\n tdpbf16ps %tmm1, %tmm0, %tmm2", {"rows": 8}, "A and the sums differ in rows"),
        ("ldtilecfg c(%rip)", {"rows": 17}, "tile too large"),
        ("ldtilecfg c(%rip)", {"rows": 0}, "rows or columns only"),
        ("ldtilecfg c(%rip)", {"last": 1}, "ninth tile"),
        ("ldtilecfg c(%rip)\n tilerelease\n tilezero %tmm0", {}, "no tiles are configured"),
        ("ud2", {}, "not AMX"),
        (".byte 0xc4, 0xe2, 0x78, 0x4f, 0xc0", {}, "not AMX"),
    ],
)
def test_the_emulator_stops_where_hardware_would(tmp_path, emulator, code, config, message):
    source = tmp_path / "main.s"
    filled = CONFIG.format(**{"rows": 16, "last": 0, **config})
    source.write_text(
        f"main:\n subq $8, %rsp\n call amx_emulate@PLT\n {code}\n xorl %eax, %eax\n addq $8, %rsp\n ret\n"
        f" .globl main\n .data\nc: {filled}\n .section .note.GNU-stack\n"
    )
    program = tmp_path / "main"
    subprocess.run([str(amx.CLANG), "-o", str(program), str(source), str(emulator)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (amx.FAULT if message else 0, True)
