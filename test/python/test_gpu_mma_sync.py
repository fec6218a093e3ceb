# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `mma_sync`: numbers under the emulator, instructions, and what the emulator says of kernels that were broken."""

from __future__ import annotations

from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check, check_that_breaking_is_caught
from tilewright.emit.gpu import tool
from tilewright.errors import ScheduleError
from tilewright.runtime import gpu
from tilewright.targets import nvidia

SM_80, SM_90A, _ = nvidia.ROWS
EMULATED = SM_80.emulated()
SMALL = {"bm": 64, "bn": 64, "wm": 32, "wn": 32}
CASES: list[dict[str, Any]] = [
    {"m": 93, "n": 121, "k": 61, "a": "bf16"},
    {"m": 40, "n": 50, "k": 161, "a": "f16"},
    {"m": 65, "n": 33, "k": 64, "a": "bf16", "layout": "nt"},
    {"m": 65, "n": 33, "k": 65, "a": "bf16", "layout": "tn", "beta": 1},
    {"m": 65, "n": 33, "k": 63, "a": "f16", "layout": "tt", "c": "f16"},
    {"m": 70, "n": 70, "k": 70, "a": "i8"},
    {"m": 70, "n": 70, "k": 70, "a": "u8", "b": "i8", "layout": "nt"},
    {"m": 33, "n": 17, "k": 40, "a": "i8", "layout": "tn", "epilogue": (tw.dequantize(0.5), tw.bias("m"))},
    {"m": 65, "n": 33, "k": 40, "tf32": True, "batch": (2,), "b_batch": ()},
    {"m": 65, "n": 33, "k": 40, "a": "f8E4M3FN", "b": "f8E5M2", "layout": "nt"},
    {"m": 65, "n": 33, "k": 41, "b": "bf16", "layout": "tn", "batch": (2, 2), "a_batch": (2, 1),
     "prologue_a": (tw.scale_by("m"), tw.cast("bf16"))},
    {"m": 17, "n": 33, "k": 41, "a": "f16", "b": "i4"},
    {"m": 17, "n": 33, "k": 80, "a": "u4", "b": "bf16", "layout": "tn", "batch": (2,), "prologue_a": (tw.dequantize("mg", group=32),)},
    {"m": 5, "n": 7, "k": 3, "a": "bf16", "c": "bf16", "epilogue": (tw.bias("n"), tw.gelu(), tw.residual("mn"))},
]  # fmt: skip


@pytest.mark.parametrize("aligned", [True, False], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(tw.MatmulSpec(**case)))
def test_numbers(case: dict[str, Any], aligned: bool) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    assert kernel.metadata.schedule == "mma_sync"
    check(kernel, spec, aligned=aligned)


def test_f64_and_other_sizes() -> None:
    spec = tw.MatmulSpec(m=37, n=45, k=50, a="f64", layout="nt")
    check(gpu.compile(spec, EMULATED, parameters={"bm": 32, "bn": 32, "wm": 16, "wn": 16, "stages": 2}), spec)
    spec = tw.MatmulSpec(m=None, n=None, k=None, a="bf16")
    kernel = gpu.compile(spec, EMULATED, parameters={**SMALL, "stages": 4})
    for number, (m, n, k) in enumerate([(1, 1, 1), (64, 64, 32), (10, 70, 129), (3, 4, 0)]):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"), seed=number)


def test_8_bit_floats_are_multiplied_where_the_chip_does() -> None:
    spec = tw.MatmulSpec(m=40, n=24, k=72, a="f8E4M3FN", layout="nt")
    kernel = gpu.compile(spec, SM_90A.emulated(), "mma_sync", SMALL)
    assert "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32" in kernel.asm["ptx"]
    assert "cp.async" in kernel.asm["ptx"]
    check(kernel, spec)
    assert "m16n8k16.row.col.f32.bf16.bf16.f32" in gpu.compile(spec, SM_80, "mma_sync").asm["ptx"]


def test_f32_is_shortened_only_when_asked_for() -> None:
    assert gpu.compile(tw.MatmulSpec(m=8, n=8, k=8), SM_80).metadata.schedule == "simt"
    kernel = gpu.compile(tw.MatmulSpec(m=8, n=8, k=8, tf32=True), SM_80)
    assert "m16n8k8.row.col.f32.tf32.tf32.f32" in kernel.asm["ptx"]


def test_the_usual_sizes_use_the_instructions_without_spills() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=256, n=256, k=256, a="bf16", epilogue=(tw.bias("n"),)), SM_80)
    text = kernel.asm["ptx"]
    # A step over K of 32: 64 x 32 sums a warp are 4 x 4 instructions, twice; 4 + 2 loads of four matrices, twice.
    assert text.count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 32
    assert text.count("ldmatrix.sync.aligned.m8n8.x4") == 12
    assert "cp.async.cg.shared.global" in text
    if tool("ptxas"):
        assert kernel.assembled().spill_bytes == 0


def test_errors() -> None:
    with pytest.raises(ScheduleError, match="mma_sync"):
        gpu.compile(tw.MatmulSpec(m=8, n=8, k=8), SM_80, "mma_sync")
    with pytest.raises(ScheduleError, match="shared memory"):
        gpu.compile(tw.MatmulSpec(m=8, n=8, k=800, a="bf16"), SM_80, parameters={"stages": 12})


BROKEN = {
    "a barrier is removed": (r"\n.*call void @llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all\(i32 0\).*", "", "race"),
    "a group is not waited for": (r"(cp\.async\.wait\.group\(i32) 1\)", r"\1 2)", "race|unwritten"),
    "copies are not waited for at all": (r"\n.*call void @llvm\.nvvm\.cp\.async\.wait\.group.*", "", "race|unwritten"),
    "copies are put into no group": (r"\n.*call void @llvm\.nvvm\.cp\.async\.commit\.group.*", "", "race|unwritten"),
}


def test_a_missing_barrier_is_caught_where_a_prologue_is_computed() -> None:
    spec = tw.MatmulSpec(m=64, n=64, k=80, a="bf16", b="i8", prologue_b=(tw.dequantize("n"),))
    pattern, replacement, finding = BROKEN["a barrier is removed"]
    check_that_breaking_is_caught(gpu.compile(spec, EMULATED, parameters=SMALL), spec, pattern, replacement, finding)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_caught(name: str) -> None:
    pattern, replacement, finding = BROKEN[name]
    spec = tw.MatmulSpec(m=64, n=64, k=200, a="bf16")
    check_that_breaking_is_caught(gpu.compile(spec, EMULATED, parameters=SMALL), spec, pattern, replacement, finding)
