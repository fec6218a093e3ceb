# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `matrix_cores` on AMD's GPUs: numbers under the emulator, and what it says of a kernel that was broken."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array, check
from tilewright.codegen.gpu.matrix_cores import INSTRUCTIONS
from tilewright.errors import ScheduleError
from tilewright.runtime import emulated_amd, gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError
from tilewright.targets import amd

GFX942, GFX1100 = amd.ROWS
SMALL = {"bm": 32, "bn": 64, "wm": 16, "wn": 32}
CASES: list[tuple[Any, dict[str, Any], str]] = [
    (GFX942, {"m": 37, "n": 70, "k": 45, "a": "f16", "epilogue": (tw.bias("n"), tw.relu())}, "mfma_f32_16x16x16_f16"),
    (GFX942, {"m": 33, "n": 17, "k": 64, "a": "i8", "layout": "nt", "beta": 1}, "mfma_i32_16x16x32_i8"),
    (GFX942, {"m": 37, "n": 20, "k": 21, "a": "f64", "layout": "tt"}, "mfma_f64_16x16x4_f64"),
    (GFX942, {"m": 20, "n": 37, "k": 21, "a": "f32", "layout": "tn"}, "mfma_f32_16x16x4_f32"),
    (GFX1100, {"m": 37, "n": 70, "k": 45, "a": "bf16", "layout": "tn", "c": "bf16"}, "wmma_f32_16x16x16_bf16"),
    (GFX1100, {"m": 33, "n": 17, "k": 40, "a": "u8", "b": "i8"}, "wmma_i32_16x16x16_iu8"),
    (GFX1100, {"m": 9, "n": 12, "k": 5, "a": "f8E4M3FN", "batch": (2,)}, "wmma_f32_16x16x16_bf16"),
]


@pytest.mark.parametrize(("target", "case", "instruction"), CASES, ids=[each[2] for each in CASES])
def test_numbers(target: Any, case: dict[str, Any], instruction: str) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, target.emulated(), parameters=SMALL)
    assert kernel.metadata.schedule == "matrix_cores"
    assert instruction in kernel.asm["asm"]
    check(kernel, spec, aligned=case["k"] != 45)


def test_every_size_by_one_kernel() -> None:
    kernel = tw.compile(
        tw.MatmulSpec(m=None, n=None, k=None, a="f16"), tw.targets.gpu("gfx1100").emulated(), parameters=SMALL
    )
    for m, n, k in ((1, 1, 1), (40, 3, 100), (3, 4, 0), (0, 4, 5)):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, a="f16"))  # pyright: ignore[reportArgumentType]


def test_a_barrier_that_is_missing_is_caught() -> None:
    spec = tw.MatmulSpec(m=32, n=64, k=64, a="f16")
    kernel = gpu.compile(spec, GFX942.emulated(), parameters=SMALL)
    operands = [array(each, np.random.default_rng(0)) for each in spec.operands]
    whole = emulated_amd.translated(kernel._stages)
    start = whole.index("define amdgpu_kernel")
    body, count = re.subn(
        r"\n.*call void @llvm\.nvvm\.barrier\.cta\.sync.*", "", whole[start : whole.index("\n}", start)]
    )
    assert count == 1
    broken = whole[:start] + body + whole[whole.index("\n}", start) :]
    kernel._made[True, True] = {kernel.metadata.schedule: EmulatedGpuKernel(broken, "matmul")}
    with pytest.raises(EmulationError, match=r"race|unwritten"):
        kernel(*operands)


def test_what_no_matrix_instruction_multiplies_is_for_another_strategy() -> None:
    for target, kind in ((GFX942, "u8"), (GFX1100, "f32"), (GFX1100, "f64")):
        spec = tw.MatmulSpec(m=8, n=8, k=8, a=kind)
        assert gpu.compile(spec, target).metadata.schedule == "simt"
        with pytest.raises(ScheduleError, match="simt"):
            gpu.compile(spec, target, "matrix_cores")


def test_sizes_that_do_not_fit() -> None:
    spec = tw.MatmulSpec(m=8, n=8, k=8, a="i8")
    for wrong, said in (({"wave": 32}, "64 threads"), ({"bk": 16}, "multiple of 32"), ({"wm": 24}, "multiples of 16")):
        with pytest.raises(ScheduleError, match=said):
            gpu.compile(spec, GFX942, parameters=wrong)
    with pytest.raises(ScheduleError, match="shared memory"):
        gpu.compile(spec, GFX942, parameters={"bm": 256, "bn": 256, "bk": 128})


@pytest.mark.parametrize(
    ("feature", "element", "rows"),
    [
        ("mfma", "f32", {0: [0, 1, 2, 3], 16: [4, 5, 6, 7], 63: [12, 13, 14, 15]}),
        ("mfma", "f64", {0: [0, 4, 8, 12], 16: [1, 5, 9, 13], 63: [3, 7, 11, 15]}),
        ("wmma", "f16", {0: [*range(0, 16, 2)], 16: [*range(1, 16, 2)]}),
    ],
)
def test_which_rows_a_lane_has(feature: str, element: str, rows: dict[int, list[int]]) -> None:
    # "AMD Instinct MI300 Instruction Set Architecture" and "RDNA3 Instruction Set Architecture", layouts of results. The
    # emulator reads the same table as the kernels, so that a wrong row there would be right here.
    row = INSTRUCTIONS[feature][element]
    for lane, expected in rows.items():
        first = row.first(lane)
        assert [first + row.step * each for each in range(row.sums)] == expected
