# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention on GPUs: numbers under the emulator and on Vulkan, instructions, broken kernels, schedules of one's own, and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attention_cases
import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array
from tilewright.emit import operators
from tilewright.emit.gpu import compiled, tool
from tilewright.errors import OperandError, ScheduleError, SpecError
from tilewright.payload import attention_entries
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError
from tilewright.schedules import steps
from tilewright.schedules.decisions import OnlineSoftmax, SharedSoftmax
from tilewright.schedules.plan import Plan
from tilewright.targets import amd, nvidia

SM_80, SM_90A, _ = nvidia.ROWS
GFX942, GFX1100 = amd.ROWS
WARPS: dict[str, Any] = {"bm": 32, "kc": 16, "threads": 64, "rows": 16}
WAVES: dict[str, Any] = {"bm": 32, "kc": 16, "threads": 128, "rows": 16}
THREADS: dict[str, Any] = {"bm": 16, "kc": 16, "threads": 64, "rows": 4}
CASES: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (SM_80, WARPS, {"queries": 37, "keys": 53, "head": 40, "heads": 2, "kv_heads": 1, "q": "bf16"}),
    (SM_80, WARPS, {"queries": 40, "keys": 35, "head": 16, "heads": 2, "q": "bf16", "causal": True, "batch": (2, 1)}),
    (SM_80, {**WARPS, "rows": 32, "threads": 32}, {"queries": 5, "keys": 40, "head": 24, "q": "f16", "causal": "lower_right"}),
    (SM_80, WARPS, {"queries": 33, "keys": 17, "head": 24, "value_head": 17, "heads": 2, "q": "bf16", "out": "f32", "batch": (2,),
                    "mask": "f32", "mask_axes": "bhmn"}),
    (SM_80, WARPS, {"queries": 20, "keys": 7, "head": 16, "q": "bf16", "k": "f8E4M3FN", "causal": "lower_right"}),
    (SM_80, THREADS, {"queries": 17, "keys": 33, "head": 20, "heads": 2, "kv_heads": 1, "mask": "u8", "mask_axes": "n"}),
    (SM_80, THREADS, {"queries": 3, "keys": 9, "head": 70, "value_head": 10, "q": "bf16", "k": "f32", "causal": True}),
    (SM_90A, WARPS, {"queries": 33, "keys": 40, "head": 8, "value_head": 24, "heads": 4, "kv_heads": 2, "q": "f16", "scale": 0.3}),
    (SM_80, WARPS, {"queries": 40, "keys": 70, "head": 24, "heads": 2, "kv_heads": 1, "q": "bf16", "sequences": 4, "causal": True}),
    (SM_80, WARPS, {"queries": 20, "keys": 40, "head": 24, "heads": 2, "q": "bf16", "batch": (2, 1), "page": 5, "causal": "lower_right"}),
    (GFX942, WAVES, {"queries": 17, "keys": 21, "head": 24, "heads": 2, "q": "bf16", "causal": True}),
    (GFX1100, {**WAVES, "threads": 64}, {"queries": 17, "keys": 21, "head": 24, "q": "f16", "mask": "f16", "mask_axes": "mn"}),
]  # fmt: skip


def operands_of(spec: tw.AttentionSpec, *, aligned: bool = True) -> list[np.ndarray]:
    if spec.is_ragged:
        return attention_cases.operands(spec, seed=0)
    rng = np.random.default_rng(0)
    operands = [array(each, rng, aligned=aligned) for each in spec.operands]
    if spec.mask == "u8":
        operands[3] %= 2
    return operands


def is_right(spec: tw.AttentionSpec, got: np.ndarray, operands: list[np.ndarray]) -> bool:
    expected, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    return bool((np.abs(got.astype(np.float64) - expected) <= bound).all())


@pytest.mark.parametrize(
    ("target", "parameters", "fields"), CASES, ids=[f"{each[0].name}-{tw.AttentionSpec(**each[2])}" for each in CASES]
)
def test_numbers(target: Any, parameters: dict[str, Any], fields: dict[str, Any]) -> None:
    spec = tw.AttentionSpec(**fields)
    kernel = tw.compile(spec, target=target.emulated(), schedule="shared_softmax", parameters=parameters)
    assert kernel.spec == spec
    operands = operands_of(spec)
    assert is_right(spec, kernel(*operands, seed=1), operands)


def test_rows_that_are_not_aligned_and_any_lengths() -> None:
    kernel = tw.compile(tw.AttentionSpec(None, None, 24, q="bf16"), target=SM_80.emulated(), parameters=WARPS)
    for queries, keys, aligned in ((1, 1, True), (40, 33, False), (0, 5, True), (33, 0, True)):
        spec = tw.AttentionSpec(queries, keys, 24, q="bf16")
        operands = operands_of(spec, aligned=aligned)
        assert is_right(spec, kernel(*operands), operands)
    with pytest.raises(OperandError, match="v: is of shape"):
        kernel(*operands_of(tw.AttentionSpec(2, 3, 24, q="bf16"))[:2], operands_of(spec)[2])


@pytest.mark.parametrize(
    ("target", "parameters"), [(SM_80, WARPS), (SM_90A, {"bm": 64, "kc": 32})], ids=["threads", "boxes"]
)
@pytest.mark.parametrize("page", [None, 16])
def test_tables_that_nobody_has_read_lead_nowhere(
    target: Any, parameters: dict[str, Any], page: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = tw.AttentionSpec(20, 40, 16, q="bf16", sequences=3, page=page, causal="lower_right")
    kernel = tw.compile(spec, target=target.emulated(), parameters=parameters)
    operands = operands_of(spec)
    assert is_right(spec, kernel(*operands), operands)
    # As of a table in a card's memory: the emulator finds what is read or written outside of an operand.
    monkeypatch.setattr(attention_entries, "check", lambda *_: None)
    rng = np.random.default_rng(0)
    wrong = [rng.integers(-(2**31), 2**31, each.shape).astype(np.int32) for each in operands[3:]]
    kernel(*operands[:3], *wrong)
    kernel(*operands[:3], *(np.full_like(each, 1000) for each in wrong))


@pytest.mark.parametrize("element", ["f32", "f16"])
def test_vulkan(element: str) -> None:
    pytest.importorskip("vulkan")
    ragged: dict[str, Any] = {"sequences": 3, "page": 4} if element == "f32" else {}
    spec = tw.AttentionSpec(9, 21, 8, heads=2, kv_heads=1, q=element, causal=True, **ragged)
    operands = [np.ascontiguousarray(each) for each in operands_of(spec)]
    parameters = {"bm": 16, "rows": 2, "threads": 128, "kc": 16}
    assert is_right(spec, tw.compile(spec, target="vulkan", parameters=parameters)(*operands), operands)


def test_the_usual_sizes_use_the_instructions_without_spills() -> None:
    kernel = gpu.compile(tw.AttentionSpec(1024, 1024, 128, heads=8, q="bf16", causal=True), SM_80)
    text = kernel.asm["ptx"]
    # 16 queries of a warp by 64 keys, 128 deep, and 64 deep by 128: 8 x 8 instructions, twice. Weights stay in registers.
    assert text.count("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") == 128
    assert not re.search(r"st\.shared|ld\.global|st\.local", text)
    if tool("ptxas"):
        assert kernel.assembled().spill_bytes == 0


@pytest.mark.parametrize(
    ("pattern", "finding"),
    [
        (r"(tail )?call void @llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all\(i32 0\)", "race"),
        (r"(tail )?call void @llvm\.nvvm\.cp\.async\.wait\.group\(i32 0\)", "wait|unwritten|race"),
    ],
)
def test_a_broken_kernel_is_found(pattern: str, finding: str) -> None:
    spec = tw.AttentionSpec(33, 40, 16, q="bf16")
    kernel = gpu.compile(spec, SM_80.emulated(), parameters=WARPS)
    operands = operands_of(spec)
    kernel(*operands)
    text, count = re.subn(pattern, "", kernel._stages.texts["llvmir"])
    assert count
    kernel._made[True, True]["shared_softmax"] = EmulatedGpuKernel(text, "matmul")
    with pytest.raises(EmulationError, match=finding):
        kernel(*operands)


def test_a_kernel_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_NO_CACHE", raising=False)
    spec = tw.AttentionSpec(17, 20, 16, q="bf16")
    operands = operands_of(spec)
    for cached in (False, True):
        kernel = tw.compile(spec, target=SM_80.emulated(), parameters=WARPS)
        assert kernel.metadata.cached == cached
        assert kernel.metadata.parameters["kc"] == 16
        assert is_right(spec, kernel(*operands), operands)


def schedule(spec: tw.AttentionSpec, target: tw.GpuTarget, sizes: Any) -> Any:
    with steps.script() as script:
        decided = SharedSoftmax(16, 32, 16, 32, "mma_sync", "bf16")
        steps.decide(steps.match(script.functions, "linalg.softmax"), decided)
    return script.module


def of_a_processor(spec: tw.AttentionSpec, target: tw.GpuTarget, sizes: Any) -> Any:
    with steps.script() as script:
        steps.decide(steps.match(script.functions, "linalg.softmax"), OnlineSoftmax(16))
    return script.module


def test_a_schedule_of_ones_own() -> None:
    spec = tw.AttentionSpec(17, 40, 16, q="bf16")
    kernel, operands = tw.compile(spec, target=SM_80.emulated(), schedule=schedule), operands_of(spec)
    assert kernel.metadata.parameters["kc"] == 32
    assert is_right(spec, kernel(*operands), operands)


def test_decisions_are_for_one_kind_of_target() -> None:
    spec = tw.AttentionSpec(17, 40, 16, q="bf16")
    with pytest.raises(ScheduleError, match="neither a #tilewright"):
        compiled(spec, SM_80, Plan("mine", WARPS, of_a_processor, trusted=False), aligned=True, boxed=True)
    with pytest.raises(ScheduleError, match="is for GPUs"):
        operators.compiled(spec, tw.targets.get("x86-64-v4"), Plan("mine", object(), schedule))


@pytest.mark.parametrize(
    ("target", "parameters", "words"),
    [
        (SM_80, {"rows": 8}, "a warp for each"),
        (SM_80, {"keys": 8}, "bm, kc, rows"),
        (SM_80, {"instructions": "matrix_cores"}, "expected mma_sync"),
        (SM_80, {"multiplied": "f16"}, "f32 or bf16"),
        (GFX942, {"bm": 32, "kc": 512}, "shared memory"),
    ],
)
def test_sizes_that_do_not_fit(target: Any, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        gpu.compile(tw.AttentionSpec(8, 8, 16, q="bf16"), target, parameters=parameters)


def test_what_is_refused() -> None:
    with pytest.raises(SpecError, match="a GPU has its own"):
        tw.compile(tw.AttentionSpec(8, 8, 16), target=SM_80, threads=2)
