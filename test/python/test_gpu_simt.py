# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `simt`: numbers under the emulator, and what NVIDIA's assembler says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import check
from tilewright.emit.gpu import tool
from tilewright.errors import OperandError, ScheduleError, SpecError, TargetError
from tilewright.runtime import gpu
from tilewright.targets import nvidia, vulkan

SM_80, SM_90A, _ = nvidia.ROWS
CASES: list[dict[str, Any]] = [
    {"m": 93, "n": 121, "k": 61},
    {"m": 93, "n": 121, "k": 61, "layout": "tn", "beta": 1},
    {"m": 65, "n": 63, "k": 17, "layout": "nt", "epilogue": (tw.bias("n"), tw.gelu())},
    {"m": 64, "n": 130, "k": 33, "a": "bf16", "layout": "tt", "epilogue": (tw.bias("m"), tw.relu(), tw.residual("mn")), "c": "bf16"},
    {"m": 3, "n": 5, "k": 7, "a": "f64", "epilogue": (tw.scale(2.0),)},
    {"m": 1, "n": 1, "k": 1, "a": "f16"},
    {"m": 64, "n": 64, "k": 16, "a": "u8", "b": "i8"},
    {"m": 65, "n": 70, "k": 33, "a": "i8", "epilogue": (tw.dequantize(0.5), tw.scale_by(""))},
    {"m": 20, "n": 30, "k": 40, "a": "f16", "c": "f16", "beta": 1},
    {"m": 20, "n": 30, "k": 17, "batch": (3, 2), "b_batch": (2,), "epilogue": (tw.bias("n"), tw.residual("mn"))},
    {"m": 20, "n": 30, "k": 17, "layout": "tt", "prologue_a": (tw.scale_by("m"), tw.scale_by("k"), tw.scale_by("mk")),
     "prologue_b": (tw.scale_by(""), tw.scale_by("n"))},
    {"m": 20, "n": 30, "k": 17, "a": "f8E5M2", "b": "bf16", "c": "f8E4M3FN"},
    {"m": 20, "n": 31, "k": 50, "a": "bf16", "b": "i4", "layout": "nt", "prologue_b": (tw.dequantize("gn", group=16, zero_point="i8"),)},
    {"m": 20, "n": 31, "k": 17, "a": "i4", "b": "u4", "layout": "nt", "deterministic": True},
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(tw.MatmulSpec(**case)))
def test_numbers(case: dict[str, Any]) -> None:
    spec = tw.MatmulSpec(**case)
    check(gpu.compile(spec, SM_80.emulated(), "simt"), spec)


def test_one_kernel_serves_every_size() -> None:
    kernel = gpu.compile(tw.MatmulSpec(m=None, n=None, k=None, epilogue=(tw.bias("n"),)), SM_80.emulated(), "simt")
    for number, (m, n, k) in enumerate(
        [(1, 1, 1), (64, 64, 16), (65, 1, 33), (7, 100, 15), (3, 4, 0), (0, 4, 5), (3, 0, 5)]
    ):
        check(kernel, tw.MatmulSpec(m=m, n=n, k=k, epilogue=(tw.bias("n"),)), seed=number)


def test_batches_of_any_number_of_entries() -> None:
    spec = tw.MatmulSpec(m=None, n=5, k=6, batch=(None, 2), b_batch=(2,))
    kernel = gpu.compile(spec, SM_80.emulated())
    for entries in (1, 3, 0):
        check(kernel, spec.at(4, 5, 6, entries, 2))
    check(
        gpu.compile(tw.MatmulSpec(m=4, n=5, k=6, batch=(0,)), SM_80.emulated()),
        spec=tw.MatmulSpec(4, 5, 6, batch=(0,)),
    )


def test_what_is_not_done_is_refused() -> None:
    with pytest.raises(SpecError, match="b_packed"):
        gpu.compile(tw.MatmulSpec(m=4, n=5, k=32, b_packed=True), SM_80)


def test_sizes_can_be_chosen() -> None:
    spec = tw.MatmulSpec(m=40, n=50, k=20)
    check(gpu.compile(spec, SM_80.emulated(), "simt", {"bm": 32, "bn": 32, "bk": 6, "rows": 4, "columns": 8}), spec)
    halves = tw.MatmulSpec(m=9, n=40, k=14, a="u4", b="i8")
    check(
        gpu.compile(halves, SM_80.emulated(), "simt", {"bm": 24, "bn": 40, "bk": 7, "rows": 3, "columns": 5}),
        halves,
    )
    with pytest.raises(ScheduleError, match="columns=8 on vulkan"):
        gpu.compile(spec, vulkan.ROWS[0], "simt", {"columns": 8})
    with pytest.raises(ScheduleError, match="multiple of 32"):
        gpu.compile(spec, SM_80, "simt", {"bm": 16, "bn": 16})


@pytest.mark.parametrize("target", [SM_80, SM_90A], ids=lambda target: target.name)
def test_the_assembler_takes_it_without_spills(target: Any) -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    for case in CASES[:4]:
        made = gpu.compile(tw.MatmulSpec(**case), target, "simt").assembled()
        assert made.spill_bytes == 0
        assert 0 < made.registers <= target.registers


def test_errors() -> None:
    spec = tw.MatmulSpec(m=4, n=4, k=4)
    a = np.ones((4, 4), np.float32)
    with pytest.raises(TargetError, match="emulated"):
        gpu.compile(spec, SM_80)(a, a)
    kernel = gpu.compile(spec, SM_80.emulated(), "simt")
    with pytest.raises(OperandError, match="float64"):
        kernel(a.astype(np.float64), a)
    with pytest.raises(OperandError, match="along k"):
        kernel(a, a[:3])
    with pytest.raises(OperandError, match="side by side"):
        kernel(np.ones((4, 8), np.float32)[:, ::2], a)


def test_a_result_that_overlaps_an_operand_is_refused() -> None:
    kernel = tw.compile(
        tw.MatmulSpec(m=None, n=None, k=None), target=tw.targets.gpu("sm_80").emulated(), schedule="simt"
    )
    room = np.ones((8, 16), np.float32)
    with pytest.raises(OperandError, match="operand out: overlaps operand a"):
        kernel(room[:, :8], room[:, 8:], out=room[:, 4:12])
    apart = room.copy()
    kernel(room[:, :8], apart[:, :8], out=room[:, 8:])  # Columns of one array share no element.
    assert (room[:, 8:] == 8).all()
