# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup`: numbers under the emulator, instructions, and what the emulator says of kernels that were broken."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check, check_that_breaking_is_caught
from tilewright.emit.gpu import tool
from tilewright.errors import LoweringError, ScheduleError
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel
from tilewright.targets import nvidia

SM_80, SM_90A, _ = nvidia.ROWS
EMULATED = SM_90A.on("emulated")
SMALL = {"bm": 128, "bn": 64, "stages": 3}
CASES: list[dict[str, Any]] = [
    {"m": 130, "n": 70, "k": 200, "a": "bf16"},
    {"m": 130, "n": 70, "k": 136, "a": "f16", "layout": "nt", "c": "f16"},
    {"m": 130, "n": 70, "k": 136, "a": "bf16", "layout": "tn", "beta": 1},
    {"m": 60, "n": 130, "k": 65, "a": "f16", "layout": "tt"},
    {"m": 3, "n": 5, "k": 7, "a": "bf16", "epilogue": (tw.bias("n"), tw.gelu(), tw.residual("mn")), "c": "bf16"},
    {"m": 100, "n": 90, "k": 300, "a": "i8", "layout": "nt"},
    {"m": 65, "n": 64, "k": 128, "a": "u8", "b": "i8", "layout": "nt", "epilogue": (tw.dequantize(0.25),)},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(tw.MatmulSpec(**case)))
def test_numbers(case: dict[str, Any]) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    assert kernel.metadata.schedule == "warpgroup"
    check(kernel, spec)


def test_the_usual_sizes() -> None:
    spec = tw.MatmulSpec(m=256, n=512, k=256, a="bf16", epilogue=(tw.bias("n"), tw.relu()))
    check(gpu.compile(spec, EMULATED), spec)


def test_every_size_by_one_kernel_and_rows_that_are_not_aligned() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, a="bf16"), EMULATED, parameters=SMALL)
    for number, (m, n, k) in enumerate([(1, 1, 1), (128, 64, 64), (129, 8, 640)]):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"), seed=number)
    check(kernel, tw.MatmulSpec(m=30, n=20, k=70, a="bf16"), aligned=False)
    for m, n, k in [(3, 4, 0), (0, 4, 5), (3, 0, 5)]:
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="bf16"))


def test_bytes_that_do_not_lie_along_k_are_for_another_strategy() -> None:
    spec = tw.MatmulSpec(m=64, n=64, k=64, a="i8")
    assert gpu.compile(spec, SM_90A).metadata.schedule == "mma_sync"
    with pytest.raises(ScheduleError, match="mma_sync"):
        gpu.compile(spec, SM_90A, "warpgroup")
    with pytest.raises(ScheduleError, match="simt, mma_sync"):
        gpu.compile(tw.MatmulSpec(m=64, n=64, k=64, a="bf16"), SM_80, "warpgroup")


def test_the_assembler_moves_registers_and_spills_none(tmp_path: Path) -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    kernel = gpu.compile(tw.MatmulSpec(m=512, n=512, k=512, a="bf16", epilogue=(tw.bias("n"), tw.gelu())), SM_90A)
    made = kernel.assembled()
    assert made.spill_bytes == 0
    assert not any("setmaxnreg" in line for line in made.warnings)
    if tool("nvdisasm") is None:
        pytest.skip("there is no nvdisasm to look for HGMMA, UTMALDG and USETMAXREG with")
    (tmp_path / "kernel.cubin").write_bytes(made.cubin)
    sass = subprocess.run(
        [str(tool("nvdisasm")), tmp_path / "kernel.cubin"], capture_output=True, text=True, check=True
    ).stdout
    for instruction, count in (("HGMMA", 4), ("UTMALDG", 5), ("USETMAXREG", 2)):
        assert len(re.findall(rf"\b{instruction}\b", sass)) == count


_CALL = r"\n[^\n]*call [^\n]*@llvm\.nvvm\."
BROKEN = {
    "the barrier behind the initialisation is removed": (_CALL + r"barrier\.cta\.sync[^\n]*", "", "initialised"),
    "fewer bytes are expected": (r"(arrive\.expect\.tx[^\n]*i32 )24576\)", r"\g<1>16384)", "race|unwritten|deadlock"),
    "more bytes are expected": (r"(arrive\.expect\.tx[^\n]*i32 )24576\)", r"\g<1>32768)", "deadlock"),
    "slots are never released": (_CALL + r"mbarrier\.arrive\.shared[^\n]*", "", "deadlock"),
    "slots are released at once": (r"(wgmma\.wait_group\.sync\.aligned\(i64) 1\)", r"\1 7)", "race"),
    "nobody waits for what is copied": (r"(asm sideeffect \"[^\"]*)mbarrier\.try_wait[^\"]*\"", r'\1nanosleep;"', "race|unwritten|know"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_caught(name: str) -> None:
    pattern, replacement, finding = BROKEN[name]
    spec = tw.MatmulSpec(m=128, n=64, k=640, a="bf16")
    check_that_breaking_is_caught(gpu.compile(spec, EMULATED, parameters=SMALL), spec, pattern, replacement, finding)


def test_a_result_that_is_not_waited_for_is_refused() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=128, n=64, k=640, a="bf16"), EMULATED, parameters=SMALL)
    text = re.sub(_CALL + r"wgmma\.wait_group\.sync\.aligned\(i64 0\)", "", kernel.asm["llvmir"])
    with pytest.raises(LoweringError, match=r"before wgmma\.wait_group"):
        EmulatedGpuKernel(text, "matmul")


@pytest.mark.parametrize("operand", [0, 1, 2])
def test_another_swizzle_gives_wrong_numbers(operand: int) -> None:
    spec = tw.MatmulSpec(m=128, n=64, k=128, a="bf16")
    kernel = gpu.compile(spec, EMULATED, parameters=SMALL)
    check(kernel, spec)
    stages = kernel._stages
    stages.boxes = tuple(replace(box, swizzle=0 if box.operand == operand else 128) for box in stages.boxes)
    with pytest.raises(AssertionError):
        check(kernel, spec)
