# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads that overlap with multiplication: their order in machine code, results at edges of aligned operands, swizzled tiles."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check, check_that_breaking_is_caught
from tilewright.codegen.gpu import staging
from tilewright.emit.gpu import tool
from tilewright.mlir import ir
from tilewright.runtime import fiber_calls, gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError
from tilewright.targets import amd, nvidia

SM_80, *_ = nvidia.ROWS
GFX942, GFX1100 = amd.ROWS
WEIGHTS: dict[str, Any] = {"a": "bf16", "b": "i4", "layout": "nt", "prologue_b": (tw.dequantize("gn", group=32),)}
SMALL = {"bm": 32, "bn": 32, "wm": 16, "wn": 16}
CASES: list[tuple[Any, str, dict[str, Any], dict[str, int]]] = [
    (SM_80, "simt", {"m": 36, "n": 36, "k": 40, "layout": "tt"}, {"bm": 32, "bn": 32}),
    (SM_80, "mma_sync", {"m": 33, "n": 40, "k": 96, **WEIGHTS}, SMALL),
    (SM_80, "mma_sync", {"m": 40, "n": 24, "k": 40, "layout": "tn", "a": "f16", "prologue_a": (tw.scale_by("mk"), tw.cast("f16"))}, SMALL),
    (GFX942, "matrix_cores", {"m": 33, "n": 40, "k": 96, **WEIGHTS}, SMALL),
    (GFX1100, "matrix_cores", {"m": 33, "n": 48, "k": 80, "a": "i8"}, {**SMALL, "bk": 32}),
]  # fmt: skip


@pytest.mark.parametrize(("target", "strategy", "case", "sizes"), CASES, ids=lambda each: getattr(each, "name", ""))
def test_numbers_of_whole_pieces(target: Any, strategy: str, case: dict[str, Any], sizes: dict[str, int]) -> None:
    spec = tw.MatmulSpec(**case)
    kernel = gpu.compile(spec, target.emulated(), strategy, sizes)
    check(kernel, spec)
    assert set(kernel._made) == {(True, True)}, "the form for aligned operands"


def test_rows_that_are_not_whole_pieces_are_for_the_other_form() -> None:
    spec = tw.MatmulSpec(m=5, n=8, k=6)
    kernel = gpu.compile(spec, SM_80.emulated(), "simt", {"bm": 32, "bn": 32})
    assert kernel.row_multiple == 4
    check(kernel, spec)
    assert set(kernel._made) == {(False, True)}


@pytest.mark.parametrize(
    ("target", "case", "product", "store"),
    [
        (GFX942, {"a": "bf16", "layout": "nt"}, "v_mfma", "ds_write_b128"),
        (GFX942, WEIGHTS, "v_mfma", "ds_write_b128"),
        (GFX1100, {"a": "i8", "layout": "nt"}, "v_wmma", "ds_store_b128"),
        (GFX1100, {}, "v_dual_fmac", "ds_store_b128"),
    ],
    ids=["mfma", "weights", "wmma", "simt"],
)
def test_loads_are_awaited_behind_the_products(target: Any, case: dict[str, Any], product: str, store: str) -> None:
    text = gpu.compile(tw.MatmulSpec(m=256, n=256, k=256, **case), target).asm["asm"]
    assert re.findall(r"(?:spill_count|private_segment_fixed_size): +(\d+)", text).count("0") >= 2
    (body,) = (each for each in re.split(r"\n\.LBB\w+:", text) if product in each)
    met, first, last = body.index("s_barrier"), body.index(product), body.rindex(product)
    assert met < first
    assert "vmcnt" not in body[:last]
    assert "vmcnt" in body[last : body.index(store, last)]
    assert "global_load" not in body
    if product == "v_mfma":
        assert body[met:first].count("ds_read_b128") >= 7


def test_the_assembler_keeps_loads_under_way(tmp_path: Path) -> None:
    program = tool("nvdisasm")
    if tool("ptxas") is None or program is None:
        pytest.skip("there is no ptxas or no nvdisasm")
    for case, product, made in (({}, "FFMA", "STS"), (WEIGHTS, "HMMA", "I2F|STS")):
        assembled = gpu.compile(tw.MatmulSpec(m=256, n=256, k=256, **case), SM_80).assembled()
        assert assembled.spill_bytes == 0
        file = tmp_path / "kernel.cubin"
        file.write_bytes(assembled.cubin)
        text = subprocess.run([program, "-c", file], capture_output=True, text=True, check=True).stdout
        before, _, behind = text.rpartition("BAR.SYNC")
        assert "LDG" in before[before.rindex("STS") :]
        products = [each.start() for each in re.finditer(product, behind)]
        first_made = re.search(rf"\b({made})", behind)
        assert first_made is not None
        assert sum(each < first_made.start() for each in products) >= 0.75 * len(products)


BARRIER = r"\n.*call void @llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all\(i32 0\).*"


def test_a_missing_barrier_is_caught() -> None:
    spec = tw.MatmulSpec(m=32, n=32, k=64)
    kernel = gpu.compile(spec, SM_80.emulated(), "simt", {"bm": 32, "bn": 32})
    check_that_breaking_is_caught(kernel, spec, BARRIER, "", "race|unwritten")


ONE_SLOT: list[tuple[Any, str, dict[str, Any], dict[str, int]]] = [
    (SM_80, "simt", {}, {"bm": 32, "bn": 32}),
    (SM_80, "mma_sync", {"a": "f16"}, SMALL),
    (GFX942, "simt", {}, {"bm": 32, "bn": 32}),
    (GFX1100, "matrix_cores", {"a": "f16"}, SMALL),
]


@pytest.mark.parametrize(
    ("target", "strategy", "fields", "sizes"), ONE_SLOT, ids=lambda each: getattr(each, "name", "")
)
def test_tiles_of_one_slot_need_both_barriers(
    target: Any, strategy: str, fields: dict[str, Any], sizes: dict[str, int]
) -> None:
    """One before the products and one behind them: without either, threads store what others have yet to read, or read too soon."""
    spec = tw.MatmulSpec(m=32, n=32, k=96, **fields)
    kernel = gpu.compile(spec, target.emulated(), strategy, {**sizes, "stages": 1})
    check(kernel, spec)
    text = fiber_calls.as_nvvm(kernel._stages)
    barriers = list(re.finditer(BARRIER, text[: text.index("\n}\n")]))
    assert len(barriers) == 2
    for barrier in barriers:
        broken = text[: barrier.start()] + text[barrier.end() :]
        kernel._made[True, True][strategy] = EmulatedGpuKernel(broken, "matmul")
        with pytest.raises(EmulationError, match=r"race|unwritten"):
            check(kernel, spec)


def test_a_slot_that_is_still_read_is_caught() -> None:
    spec = tw.MatmulSpec(m=32, n=32, k=96, **WEIGHTS)
    kernel = gpu.compile(spec, SM_80.emulated(), "mma_sync", {**SMALL, "stages": 2})
    # What is stored goes to the slot that is multiplied.
    pattern = r"(%\w+) = xor i64 (%\w+), 1\b"
    check_that_breaking_is_caught(kernel, spec, pattern, r"\1 = xor i64 \2, 0", "race|unwritten")


@pytest.mark.parametrize(("bits", "columns"), [(16, 32), (16, 64), (8, 32), (16, 128), (32, 16)])
def test_pieces_below_one_another_are_in_different_banks(bits: int, columns: int) -> None:
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        element = ir.IntegerType.get_signless(bits)
        with ir.InsertionPoint(module.body):
            tile = staging.allocate((32, columns), element, 2, swapped=False, swizzled=True)
            per, pitch = 128 // bits, ir.MemRefType(tile.buffer.type).shape[2]
            assert pitch == columns

            def bank(row: int, piece: int) -> int:
                _, outer, inner = (
                    ir.IntegerAttr(each.owner.attributes["value"]).value for each in tile.at(0, row, piece * per)
                )
                return (outer * pitch + inner) // per

            places = {(row, piece): bank(row, piece) for row in range(32) for piece in range(columns // per)}
    assert sorted(places.values()) == list(range(len(places)))
    for piece in range(columns // per):
        for first in range(0, 32, 8):
            assert len({places[row, piece] % 8 for row in range(first, first + 8)}) == 8
