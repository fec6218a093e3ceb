# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compute shaders: SPIR-V that is valid, and numbers on whatever Vulkan device is here."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check
from tilewright.errors import SpecError, TargetError
from tilewright.runtime import gpu, vulkan
from tilewright.targets.vulkan import ROWS

(VULKAN,) = ROWS
CASES: list[dict[str, Any]] = [
    {"m": 93, "n": 121, "k": 61},
    {"m": 65, "n": 63, "k": 17, "layout": "tn", "beta": 1},
    {"m": 64, "n": 70, "k": 33, "layout": "tt", "epilogue": (tw.bias("n"), tw.gelu(), tw.residual("mn"))},
    {"m": 33, "n": 31, "k": 17, "a": "f16", "c": "f16", "beta": 1, "batch": (2,), "b_batch": ()},
    {"m": 33, "n": 31, "k": 17, "a": "u8", "b": "i8", "epilogue": (tw.dequantize(0.01), tw.quantize(0.5, 0, "u8"))},
    {"m": 33, "n": 31, "k": 17, "a": "f64"},
    {"m": 33, "n": 31, "k": 17, "a": "f8E4M3FN", "b": "u4", "c": "bf16", "layout": "tt"},
    {"m": 33, "n": 31, "k": 17, "a": "f16", "c": "f16", "layout": "nt", "prologue_a": (tw.gather_rows(9, "i64"),),
     "epilogue": (tw.glu(), tw.softmax(), tw.residual("mn", "f16"))},
    {"m": 33, "n": 31, "k": 17, "a": "i8", "epilogue": (tw.row_max(),)},
    {"m": 1, "n": 1, "k": 1, "layout": "nt", "epilogue": (tw.tanh(), tw.scale_by(""))},
]  # fmt: skip


def _require_device() -> None:
    try:
        vulkan.device_name()
    except TargetError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(tw.MatmulSpec(**case)))
def test_numbers(case: dict[str, Any]) -> None:
    _require_device()
    spec = tw.MatmulSpec(**case)
    check(gpu.compile(spec, VULKAN), spec)


def test_one_shader_serves_every_size() -> None:
    _require_device()
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None), VULKAN)
    for number, (m, n, k) in enumerate([(1, 1, 1), (64, 64, 16), (3, 200, 50), (3, 4, 0), (0, 4, 5)]):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k), seed=number, aligned=False)


def test_the_validator_takes_it(tmp_path: Path) -> None:
    program = shutil.which("spirv-val")
    if program is None:
        pytest.skip("there is no spirv-val")
    for case in CASES:
        file = tmp_path / "shader.spv"
        for each in gpu.compile(tw.MatmulSpec(**case), VULKAN)._stages.passes:
            file.write_bytes(each.object)
            subprocess.run([program, "--target-env", "vulkan1.1", file], check=True)


def test_errors() -> None:
    with pytest.raises(SpecError, match="b_packed"):
        gpu.compile(tw.MatmulSpec(m=4, n=4, k=4, b_packed=True), VULKAN)
    with pytest.raises(TargetError, match="not emulated"):
        gpu.compile(tw.MatmulSpec(m=4, n=4, k=4), VULKAN.emulated())
