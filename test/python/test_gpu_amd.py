# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AMD's GPUs: what is compiled for them, and strategy `simt` in the emulator."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import check
from tilewright.errors import TargetError
from tilewright.runtime import gpu
from tilewright.targets import amd

GFX942, GFX1100 = amd.ROWS
CASES: list[dict[str, Any]] = [
    {"m": 93, "n": 121, "k": 61},
    {"m": 64, "n": 64, "k": 64, "a": "bf16", "layout": "tn", "epilogue": (tw.bias("n"), tw.gelu())},
    {"m": 64, "n": 64, "k": 64, "a": "u8", "b": "i8", "beta": 1},
]


@pytest.mark.parametrize("target", amd.ROWS, ids=lambda target: target.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(tw.MatmulSpec(**case)))
def test_it_is_assembled_without_spills(case: dict[str, Any], target: Any) -> None:
    kernel = gpu.compile(tw.MatmulSpec(**case), target)
    text = kernel.asm["asm"]
    assert re.findall(r"\.vgpr_spill_count: +(\d+)", text) == ["0"]
    assert text.count("s_barrier") == 1
    assert kernel._stages.object.startswith(b"\x7fELF")


def test_the_multiply_adds() -> None:
    spec = tw.MatmulSpec(m=64, n=64, k=64)
    # A step over K of 16: 4 x 4 sums a thread, two of them in one instruction.
    assert gpu.compile(spec, GFX942, "simt").asm["asm"].count("v_pk_fma_f32") == 128
    assert len(re.findall(r"v_(?:dual_)?fmac_f32", gpu.compile(spec, GFX1100, "simt").asm["asm"])) >= 128


def test_a_linker_makes_a_code_object(tmp_path: Path) -> None:
    linker = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if linker is None:
        pytest.skip("there is no ld.lld")
    (tmp_path / "kernel.o").write_bytes(gpu.compile(tw.MatmulSpec(m=64, n=64, k=64), GFX942)._stages.object)
    subprocess.run([linker, "-shared", tmp_path / "kernel.o", "-o", tmp_path / "kernel.hsaco"], check=True)
    assert b"matmul.kd" in (tmp_path / "kernel.hsaco").read_bytes()


def test_numbers_in_the_emulator() -> None:
    spec = tw.MatmulSpec(m=37, n=45, k=21, layout="nt", epilogue=(tw.bias("n"),))
    check(gpu.compile(spec, GFX1100.emulated(), "simt", {"bm": 32, "bn": 32}), spec)


def test_a_call_says_that_no_card_runs_it() -> None:
    a = np.ones((4, 4), np.float32)
    with pytest.raises(TargetError, match=r"gfx942.*emulated"):
        gpu.compile(tw.MatmulSpec(m=4, n=4, k=4), GFX942)(a, a)
