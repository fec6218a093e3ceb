# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights of few bits that `warpgroup` makes in registers: numbers, sizes, machine code, and kernels that are broken on purpose."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import array, check, check_that_breaking_is_caught
from tilewright.emit.gpu import tool
from tilewright.errors import ScheduleError
from tilewright.runtime import gpu
from tilewright.schedules.gpu.warpgroup_sizes import of_call, predicted, sizes
from tilewright.targets import nvidia

SM_80, SM_90A, _ = nvidia.ROWS
EMULATED = SM_90A.emulated()
FEW = {"bm": 16, "bn": 64, "consumers": 1, "stages": 2}


def weights(b: str, m: int | None = 13, group: int = 32, **further: Any) -> tw.MatmulSpec:
    """A product with weights of `b`."""
    entry = tw.dequantize("gn" if group else "n", group=group, **further.pop("entry", {}))
    given = {"n": 70, "k": 288, "a": "bf16", "layout": "nt", "prologue_b": (entry,), **further}
    return tw.MatmulSpec(m=m, b=b, **given)


@pytest.mark.parametrize(
    ("spec", "parameters"),
    [
        (weights("i4"), FEW),
        (
            weights("u4", entry={"zero_point": "u8", "scale_type": "bf16"}, c="bf16", epilogue=(tw.bias("n"),)),
            {**FEW, "split": 2},
        ),
        (weights("i8", group=0, batch=(2,), b_batch=(), beta=1), {"bm": 16, "bn": 128, "stages": 3}),
        # Groups longer than a step, a transposed A, two groups of 64 rows of each consumer; a number for all.
        (weights("u8", 60, 256, a="f16", layout="tt", entry={"scale_type": "f16"}), {"bm": 64, "bn": 256, "stages": 2}),
        (
            weights("i8", 20, k=130, prologue_b=(tw.dequantize(0.25, type="bf16"),)),
            {"bm": 8, "bn": 64, "pingpong": 1, "stages": 2},
        ),
        (weights("f8E4M3FN", n=16), FEW),
        (weights("f4E2M1FN", entry={"scale_type": "bf16"}), FEW),
    ],
    ids=lambda each: str(each) if isinstance(each, tw.MatmulSpec) else "",
)
def test_numbers(spec: tw.MatmulSpec, parameters: dict[str, int]) -> None:
    kernel = gpu.compile(spec, EMULATED, "warpgroup", parameters)
    check(kernel, spec)
    assert all(aligned for aligned, _ in kernel._made)


def test_every_size_by_one_kernel_and_rows_that_are_not_aligned() -> None:
    kernel = gpu.compile(weights("i8", None, 0, n=None, k=None), EMULATED, parameters=FEW)
    for m, n, k in [(1, 1, 1), (17, 65, 129), (3, 4, 0), (0, 4, 16)]:
        check(kernel, weights("i8", m, 0, n=n, k=k))
    assert {aligned for aligned, _ in kernel._made} == {True}
    check(kernel, weights("i8", 3, 0, n=4, k=40), aligned=False)
    assert (False, True) in kernel._made


@pytest.mark.parametrize(
    ("b", "a", "zero"), [("i4", "bf16", 0), ("u4", "bf16", "u8"), ("u4", "f16", 8), ("i8", "f16", "i8")]
)
def test_weights_are_the_same_numbers_as_in_f32(b: str, a: str, zero: int | str) -> None:
    spec = weights(b, 16, n=16, k=256, a=a, entry={"zero_point": zero, "scale_type": a})
    kernel, rng = gpu.compile(spec, EMULATED, "warpgroup", FEW), np.random.default_rng(0)
    _, codes, scales, *zeros = (array(each, rng) for each in spec.operands)
    kind = scales.dtype
    one = np.zeros((16, 256), kind)
    one[np.arange(16), rng.permutation(256)[:16]] = 1  # C is some of the weights.
    numbers = codes if spec.b_stored.bits == 8 else tw.unpack_nibbles(codes, b, 256)
    centered = numbers.astype(np.float32) - np.repeat(zeros[0] if zeros else [[zero] * 8], 32, 1).astype(np.float32)
    expected = (centered * np.repeat(scales, 32, 1).astype(np.float32)).astype(kind).astype(np.float32)
    assert (kernel(one, codes, scales, *zeros) == expected[:, one.argmax(1)].T).all()
    assert not re.search(r"cvt\.rn\.f32\.[su](8|16|32)\s", kernel.asm["ptx"].split("wgmma.mma_async")[3])


def test_what_cannot_be_made_in_registers_is_for_another_strategy() -> None:
    for spec in (
        weights("i4", layout="nn"),  # Pairs that share a register are neighbors along N.
        weights("i4", group=48),  # Neither a part of a step over K nor some of them.
        weights("i4", a="f32", entry={"type": "f32"}),
        weights("i4", prologue_a=(tw.clamp(0, 1),)),
    ):
        assert "warpgroup" not in gpu.compile(spec, SM_90A).metadata.schedule
    for wrong in ({"swapped": 0, "bm": 128}, {"bk": 64}):
        with pytest.raises(ScheduleError, match=r"bk a multiple of 256|swapped=1"):
            gpu.compile(weights("i4"), SM_90A, "warpgroup", wrong)


def test_sizes_follow_the_shape() -> None:
    def chosen(m: int | None, b: str = "i4") -> Any:
        return sizes(weights(b, m, 128, n=4096, k=4096), SM_90A, {})

    assert chosen(1).swapped
    assert (chosen(1).bm, chosen(1).bk, chosen(1, "i8").bk) == (8, 256, 128)
    assert chosen(2048).bm == 128
    assert chosen(None).bm == 128
    assert of_call(weights("i4", None, 128, n=4096, k=4096), SM_90A, weights("i4", 3, 128, n=4096, k=4096))["bm"] == 16
    # Fewer bytes of memory, and then what it takes to make weights.
    plain = tw.MatmulSpec(m=4, n=4096, k=4096, a="bf16", layout="nt")
    specs = *(weights(b, 4, 128, n=4096, k=4096) for b in ("i4", "i8")), plain
    times = [predicted(spec, sizes(spec, SM_90A, {})) or 0 for spec in specs]
    assert 0 < times[0] < times[1] < times[2]


def test_a_slot_that_is_released_too_early_or_not_waited_for_is_found() -> None:
    spec = weights("i4", n=64, k=1536)
    kernel = gpu.compile(spec, EMULATED, "warpgroup", FEW)
    wait = r"\n[^\n]*call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\)(?=(.|\n)*mbarrier\.arrive)"
    check_that_breaking_is_caught(kernel, spec, wait, "", "race")


@pytest.mark.parametrize(("b", "products"), [("i4", 16), ("i8", 8)])
def test_the_assembler_spills_nothing_and_products_overlap(b: str, products: int, tmp_path: Path) -> None:
    if tool("ptxas") is None:
        pytest.skip("there is no ptxas")
    made = gpu.compile(weights(b, 64, 128, n=512, k=512), SM_90A, "warpgroup", {"bm": 64, "bn": 128}).assembled()
    assert (made.spill_bytes, made.warnings) == (0, ())
    if tool("nvdisasm") is None:
        pytest.skip("there is no nvdisasm to look for HGMMA with")
    (tmp_path / "kernel.cubin").write_bytes(made.cubin)
    command = [str(tool("nvdisasm")), tmp_path / "kernel.cubin"]
    sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"\bHGMMA\b", sass)) == products
    # Codes are copied as they are stored, and what is made of them never comes to shared memory.
    between = sass[sass.index("HGMMA") : sass.rindex("HGMMA")]
    assert "LDS" in between
    assert "STS" not in between
