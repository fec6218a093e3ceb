# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention by warp groups: numbers under the emulator, what overlaps in machine code, broken kernels, forms, sizes, and errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from test_gpu_attention import is_right, operands_of
from tilewright.emit.gpu import tool
from tilewright.emit.gpu_code import disassembly
from tilewright.errors import LoweringError, ScheduleError
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError
from tilewright.schedules import steps
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.targets import nvidia

SM_80, SM_90A, SM_100A = nvidia.ROWS
TARGET = SM_90A.emulated()
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"bm": 64, "kc": 32}, {"queries": 40, "keys": 100, "head": 64, "q": "bf16"}),
    ({"bm": 128, "kc": 32}, {"queries": 140, "keys": 100, "head": 40, "heads": 4, "kv_heads": 2, "q": "f16", "causal": True}),
    ({"bm": 192, "kc": 48}, {"queries": 150, "keys": 200, "head": 64, "q": "bf16", "causal": "lower_right"}),
    ({"bm": 128, "kc": 64, "stages": 3}, {"queries": 130, "keys": 209, "head": 128, "heads": 2, "kv_heads": 1, "q": "bf16"}),
    ({"bm": 128, "kc": 64, "overlap": False, "pingpong": False},
     {"queries": 100, "keys": 200, "head": 72, "value_head": 136, "heads": 2, "q": "bf16", "causal": True, "batch": (2,)}),
    ({"bm": 128, "kc": 64}, {"queries": 130, "keys": 100, "head": 72, "value_head": 40, "q": "bf16", "out": "f32", "batch": (2, 1),
                             "mask": "f32", "mask_axes": "bhmn"}),
    ({"bm": 128, "kc": 64, "stages": 1}, {"queries": 130, "keys": 20, "head": 64, "q": "bf16", "causal": "lower_right"}),
    ({"bm": 128, "kc": 48, "stages": 1}, {"queries": 70, "keys": 200, "head": 64, "q": "f16", "mask": "u8", "mask_axes": "n"}),
    ({"bm": 64, "kc": 32, "merged": 2},
     {"queries": 70, "keys": 100, "head": 64, "heads": 4, "kv_heads": 2, "q": "f16", "causal": True, "batch": (2,)}),
    ({"bm": 8, "kc": 16, "split": 4, "merged": 8},
     {"queries": 5, "keys": 300, "head": 40, "value_head": 72, "heads": 16, "kv_heads": 2, "q": "bf16", "causal": "lower_right"}),
    ({"bm": 128, "kc": 16, "split": 8}, {"queries": 100, "keys": 90, "head": 64, "q": "f16", "causal": True}),
    ({"bm": 128, "kc": 32},
     {"queries": 140, "keys": 210, "head": 40, "heads": 4, "kv_heads": 2, "q": "f16", "sequences": 4, "causal": "lower_right"}),
    ({"bm": 192, "kc": 32}, {"queries": 150, "keys": 180, "head": 64, "q": "bf16", "batch": (2,), "page": 16}),
    ({"bm": 128, "kc": 48, "overlap": False, "pingpong": False},
     {"queries": 150, "keys": 100, "head": 72, "q": "bf16", "sequences": 3, "page": 24, "causal": True}),
    ({"bm": 16, "kc": 32, "merged": 3, "split": 2},
     {"queries": 3, "keys": 200, "head": 64, "heads": 6, "kv_heads": 2, "q": "bf16", "batch": (2,), "page": 64, "causal": "lower_right"}),
    ({}, {"queries": 1, "keys": 1500, "head": 128, "heads": 8, "kv_heads": 2, "q": "bf16"}),
    ({}, {"queries": 5, "keys": 133, "head": 256, "q": "bf16", "out": "f32", "scale": 1.5}),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "fields"), CASES, ids=[str(tw.AttentionSpec(**each[1])) for each in CASES])
def test_numbers(parameters: dict[str, Any], fields: dict[str, Any]) -> None:
    spec = tw.AttentionSpec(**fields)
    kernel = tw.compile(spec, target=TARGET, parameters=parameters)
    assert kernel.metadata.schedule == "warp_group_softmax"
    operands = operands_of(spec)
    assert is_right(spec, kernel(*operands, seed=1), operands)


def test_rows_that_are_not_aligned_and_any_lengths() -> None:
    spec = tw.AttentionSpec(None, None, 64, q="bf16")
    kernel = tw.compile(spec, target=TARGET, parameters={"bm": 64, "kc": 32})
    for queries, keys, aligned in ((1, 1, True), (70, 33, False), (0, 5, True), (33, 0, True), (65, 97, True)):
        called = tw.AttentionSpec(queries, keys, 64, q="bf16")
        operands = operands_of(called, aligned=aligned)
        assert is_right(called, kernel(*operands), operands)
    # Rows of the result alone: each thread stores what it has.
    out = np.empty((1, 65, 65), operands[0].dtype)[..., :64]
    assert is_right(called, kernel(*operands, out=out), operands)


def test_no_entry_sees_values_of_another_one() -> None:
    spec = tw.AttentionSpec(70, 100, 64, q="bf16", sequences=3)
    kernel = gpu.compile(spec, TARGET, parameters={"bm": 64, "kc": 32})
    starts = [np.array(each, np.int32) for each in ((0, 30, 35, 70), (0, 37, 41, 100))]
    q, k, v = operands_of(tw.AttentionSpec(70, 100, 64, q="bf16"))
    k[:, 37:41], v[:, 37:41] = np.nan, np.inf
    operands = [q, k, v, *starts]
    exact, bound = tw.reference(spec, *operands), tw.error_bound(spec, *operands)
    own = [*range(30), *range(35, 70)]
    assert np.isfinite(bound[:, own]).all()
    assert (np.abs(kernel(*operands).astype(np.float64) - exact)[:, own] <= bound[:, own]).all()
    # Values behind the end are cleared; warp groups multiply them when that has been fenced.
    fence = r"(tail )?call void @llvm\.nvvm\.fence\.proxy\.async\.shared_cta\(\)"
    text, count = re.subn(fence, "", kernel._stages.texts["llvmir"])
    assert count
    kernel._made[True, True]["warp_group_softmax"] = EmulatedGpuKernel(text, "matmul")
    with pytest.raises(EmulationError, match="race"):
        kernel(*operands)


def test_large_scores_and_hidden_rows() -> None:
    spec = tw.AttentionSpec(70, 20, 64, q="bf16", causal="lower_right")
    kernel, operands = tw.compile(spec, target=TARGET), operands_of(spec)
    operands[0] = (operands[0].astype(np.float32) * 300).astype(operands[0].dtype)
    got = kernel(*operands)
    assert is_right(spec, got, operands)
    assert not got[:, :50].any()  # They see no key.


@pytest.mark.parametrize(
    ("head", "causal", "sizes"), [(64, True, (192, 128)), (128, True, (128, 128)), (128, False, (128, 176))]
)
def test_the_usual_sizes_are_those_of_the_machine(head: int, causal: bool, sizes: tuple[int, int]) -> None:
    kernel = gpu.compile(tw.AttentionSpec(8192, 8192, head, heads=8, q="bf16", causal=causal), SM_90A)
    kc = sizes[1]
    assert (kernel.metadata.parameters["bm"], kernel.metadata.parameters["kc"]) == sizes
    text = kernel.asm["ptx"]
    # Scores of the first block and of each other one, `head` deep; values of each but the last one and of that, `kc` deep.
    scores, values = (
        rf"wgmma\.mma_async\.sync\.aligned\.m64n{n}k16\.f32\.bf16\.bf16 \{{[^}}]*\}}, " for n in (kc, head)
    )
    assert len(re.findall(scores + r"%rd", text)) == 2 * head // 16
    assert len(re.findall(values + r"\{", text)) == 2 * kc // 16
    assert "st.shared" not in text  # But for stmatrix.
    if tool("ptxas"):
        made = kernel.assembled()
        # A warning would say that products do not overlap, or that registers are not moved between warps.
        assert (made.spill_bytes, made.warnings) == (0, ())
        code = disassembly(made.cubin)
        assert all(name in code for name in ("HGMMA", "UTMALDG", "UTMASTG", "USETMAXREG"))


def counted(code: str, products: int) -> dict[str, int]:
    """Instructions by name of the shortest loop with so many products in it."""
    lines = code.splitlines()
    labels = {found[1]: number for number, line in enumerate(lines) if (found := re.match(r"\s*\.(L_x_\d+):", line))}
    loops = []
    for number, line in enumerate(lines):
        jump = re.search(r"BRA.*`\(\.(L_x_\d+)\)", line)
        if jump and labels[jump[1]] < number:
            names = re.findall(r"\*/\s+(?:@!?U?P\d+ )?([A-Z0-9]+)", "\n".join(lines[labels[jump[1]] : number]))
            loops.append({name: names.count(name) for name in set(names)})
    whole = [each for each in loops if each.get("HGMMA") == products and "MUFU" in each]
    return min(whole, key=lambda each: sum(each.values()))


ROWS = [
    [cell.strip() for cell in line.strip("| ").split("|")]
    for line in (Path(__file__).parents[2] / "docs/how-to/attention.md").read_text().splitlines()
    if re.search(r"\| (ours|FlashAttention-3) \|", line)
]


@pytest.mark.skipif(not (tool("ptxas") and tool("nvdisasm")), reason="needs NVIDIA's assembler and disassembler")
@pytest.mark.parametrize("row", [each for each in ROWS if each[2] == "ours"], ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_page_has_the_counts_of_the_machine_code(row: list[str]) -> None:
    head, causal, _, tile, *counts, bytes_ = row
    spec = tw.AttentionSpec(8192, 8192, int(head), heads=8, q="bf16", causal=causal == "yes")
    kernel = gpu.compile(spec, SM_90A)
    sizes = kernel.metadata.parameters
    assert tile == f"{sizes['bm']}×{sizes['kc']}"
    found = counted(disassembly(kernel.assembled().cubin), int(counts[0]))
    assert [int(each) for each in counts] == [found[name] for name in ("HGMMA", "MUFU", "FFMA", "FMUL")]
    assert int(bytes_) == 4 * int(head) * 1024 // sizes["bm"]


@pytest.mark.skipif(not (tool("ptxas") and tool("nvdisasm")), reason="needs NVIDIA's assembler and disassembler")
def test_tables_leave_the_loop_as_it_is() -> None:
    spec = tw.AttentionSpec(None, None, 64, heads=8, q="bf16", causal=True, sequences=tw.Dim(), page=64)
    made = gpu.compile(spec, SM_90A).assembled()
    assert (made.spill_bytes, made.warnings) == (0, ())
    code = disassembly(made.cubin)
    row = next(each for each in ROWS if each[:3] == ["64", "yes", "ours"])
    found = counted(code, int(row[4]))
    assert row[4:8] == [str(found[name]) for name in ("HGMMA", "MUFU", "FFMA", "FMUL")]
    assert "UTMALDG.4D" in code


@pytest.mark.parametrize("row", [each for each in ROWS if each[2] != "ours"], ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_page_has_what_follows_from_flash_attention_3(row: list[str]) -> None:
    head, (bm, kc) = int(row[0]), map(int, row[3].split("×"))
    assert [int(each) for each in row[4:]] == [
        head // 16 + kc // 16, kc // 2, kc // 2, head // 2, 4 * head * 1024 // bm,
    ]  # fmt: skip


def test_a_softmax_is_computed_between_the_products_and_their_wait() -> None:
    text = gpu.compile(tw.AttentionSpec(8192, 8192, 128, q="bf16"), SM_90A).asm["ptx"]
    loop = text[text.index("wgmma.wait_group.sync.aligned \t1") :]
    between = loop[: loop.index("wgmma.wait_group.sync.aligned \t0")]
    assert between.count("ex2.approx.ftz.f32") == 176 // 2 + 2


@pytest.mark.parametrize(
    ("pattern", "finding"),
    [
        (r"call void @llvm\.nvvm\.wgmma\.wait_group\.sync\.aligned\(i64 1\)", "before wgmma.wait_group has waited"),
        (r"call void @llvm\.nvvm\.wgmma\.fence\.sync\.aligned\(\)", "unfenced"),
        (r"call void @llvm\.nvvm\.fence\.proxy\.async\.shared_cta\(\)", "race"),
        (r"call void asm sideeffect \"bar\.arrive [^\n]*", "at a barrier"),
    ],
)
def test_a_broken_kernel_is_found(pattern: str, finding: str) -> None:
    spec = tw.AttentionSpec(128, 100, 64, q="bf16")
    kernel = gpu.compile(spec, TARGET, parameters={"bm": 128, "kc": 32})
    operands = operands_of(spec)
    kernel(*operands)
    text, count = re.subn(r"(tail )?" + pattern, "", kernel._stages.texts["llvmir"])
    assert count

    def run() -> None:
        kernel._made[True, True]["warp_group_softmax"] = EmulatedGpuKernel(text, "matmul")
        kernel(*operands)

    with pytest.raises((EmulationError, LoweringError), match=finding):
        run()


@pytest.mark.parametrize(("which", "finding"), [(0, "race"), (1, "has ended")])
def test_blocks_that_do_not_wait_for_each_other_are_found(which: int, finding: str) -> None:
    spec = tw.AttentionSpec(1, 200, 64, q="bf16")
    kernel = gpu.compile(spec, TARGET, parameters={"bm": 64, "kc": 16, "split": 2})
    operands = operands_of(spec)
    kernel(*operands)
    text = kernel._stages.texts["llvmir"]
    meetings = list(re.finditer(r"  (tail )?call void @llvm\.nvvm\.barrier\.cluster\.(arrive|wait)[^\n]*", text))
    # Arrivals and waits of threads that copy, and of those that multiply, twice each. One meeting is left out.
    assert len(meetings) == 8
    for each in (*meetings[4 + 2 * which : 6 + 2 * which][::-1], *meetings[2 * which : 2 * which + 2][::-1]):
        text = text[: each.start()] + text[each.end() :]
    kernel._made[True, True]["warp_group_softmax"] = EmulatedGpuKernel(text, "matmul")
    with pytest.raises(EmulationError, match=finding):
        kernel(*operands)


def test_few_queries_share_a_tile_and_their_keys_are_split() -> None:
    kernel = gpu.compile(tw.AttentionSpec(1, 8192, 128, heads=32, kv_heads=8, q="bf16"), SM_90A)
    assert [kernel.metadata.parameters[name] for name in ("bm", "merged", "split")] == [16, 4, 8]
    given = gpu.compile(tw.AttentionSpec(1, 8192, 128, heads=32, kv_heads=8, q="bf16"), SM_90A, parameters={"bm": 128})
    assert [given.metadata.parameters[name] for name in ("bm", "merged", "split")] == [128, 1, 1]
    # Queries of four heads are one box.
    assert kernel._stages.boxes[0].shape == (4, 16, 64)
    if tool("ptxas"):
        assert (kernel.assembled().spill_bytes, kernel.assembled().warnings) == (0, ())


def schedule(spec: tw.AttentionSpec, target: tw.GpuTarget, sizes: Any) -> Any:
    with steps.script() as script:
        decided = WarpGroupSoftmax(bm=64, kc=16, stages=1, overlap=False, pingpong=False, multiplied="bf16")
        steps.decide(steps.match(script.functions, "linalg.softmax"), decided)
    return script.module


def test_a_schedule_of_ones_own() -> None:
    spec = tw.AttentionSpec(17, 40, 16, q="bf16")
    kernel, operands = tw.compile(spec, target=TARGET, schedule=schedule), operands_of(spec)
    assert kernel.metadata.parameters["kc"] == 16
    assert is_right(spec, kernel(*operands), operands)
    with pytest.raises(ScheduleError, match="and wgmma"):
        tw.compile(spec, target=SM_80, schedule=schedule)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kc": 24}, "kc a multiple of 16"),
        ({"bm": 96}, "of 64, 128 or 192"),
        ({"kc": 0}, "kc a multiple of 16"),
        ({"kc": -16}, "kc a multiple of 16"),
        ({"stages": 0}, "and a stage"),
        ({"bm": -64, "merged": -1}, "and a stage"),
        ({"bm": 32, "merged": 2}, "merged=2"),
        ({"split": 3}, "split=3"),
        ({"rows": 8}, r"bm \(int\), kc \(int\), stages"),
        ({"pingpong": 7}, r"pingpong=7; .*pingpong \(bool\)"),
        ({"bm": 128, "pingpong": 1, "overlap": 0}, "expected overlap"),
        ({"stages": True}, "stages=True"),
        ({"multiplied": "f16"}, "one type of 16 bits"),
        ({"bm": 192, "kc": 128}, "registers of a thread"),
        ({"bm": 128, "kc": 160, "stages": 3}, "shared memory"),
        ({"bm": 128, "pingpong": True, "overlap": False}, "overlap"),
    ],
)
def test_sizes_that_do_not_fit(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        gpu.compile(tw.AttentionSpec(512, 512, 128, q="bf16"), SM_90A, parameters=parameters)


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        (SM_90A, {"q": "f32"}),
        (SM_90A, {"q": "bf16", "k": "f8E4M3FN"}),
        (SM_90A, {"q": "bf16", "batch": (2, 1, 2)}),
        (SM_80, {"q": "bf16"}),
        (SM_100A, {"q": "bf16"}),
    ],
)
def test_all_else_is_computed_by_another_strategy(target: Any, fields: dict[str, Any]) -> None:
    kernel = gpu.compile(tw.AttentionSpec(17, 20, 16, **fields), target)
    assert kernel.metadata.schedule == "shared_softmax"
