# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `tensor_memory`: what the emulator says of kernels that were broken on purpose."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check_that_breaking_is_caught
from tilewright.errors import LoweringError
from tilewright.runtime import gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel
from tilewright.targets import nvidia

EMULATED = nvidia.ROWS[2].emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3}
KINDS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "plain": ({"m": 128, "n": 64, "k": 320, "a": "bf16"}, SMALL),
    # Each block has several tiles, and so more than there are places for sums.
    "tiles": ({"m": 128, "n": 768, "k": 64, "a": "bf16", "c": "bf16"}, SMALL),
    "split": ({"m": 128, "n": 64, "k": 320, "a": "bf16"}, {**SMALL, "split": 2}),
    "streamed": ({"m": 256, "n": 64, "k": 640, "a": "bf16", "c": "bf16"}, {**SMALL, "streamed": 1}),
    "pair": ({"m": 256, "n": 768, "k": 64, "a": "bf16", "layout": "nt"}, {**SMALL, "cluster": 2, "pair": 1}),
    "cluster": ({"m": 256, "n": 64, "k": 320, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2}),
}
_CALL = r"\n[^\n]*call [^\n]*@llvm\.nvvm\."
_TRY = r"(asm sideeffect \"[^\"]*)mbarrier\.try_wait[^\"]*\""
_MMA = r"(call [^\n]*@llvm\.nvvm\.tcgen05\.mma\.shared\([^\n]*, i32 )"
_COMMIT = _CALL + r"tcgen05\.commit\.shared[^\n]*"
_CLUSTER = _CALL + r"barrier\.cluster\.(?:arrive|wait)\b[^\n]*"
_LAST_MEETING = r"(?s)(.*)\n[^\n]*call [^\n]*cluster\.arrive[^\n]*(.*?)\n[^\n]*call [^\n]*cluster\.wait[^\n]*"
_BEFORE, _AFTER = (_CALL + rf"tcgen05\.fence\.{when}\.thread\.sync[^\n]*" for when in ("before", "after"))
BROKEN = {
    "nothing tells that slots are empty, or sums complete": ("plain", _COMMIT, "", "deadlock"),
    "nobody waits for what is copied or multiplied": ("plain", _TRY, r'\1nanosleep;"', "race|unwritten|know"),
    "the next phase is waited for": ("plain", r"(xor i64 [^\n]*), 1\n", r"\1, 0\n", "race|deadlock|unwritten"),
    "sums are read without a fence behind the wait": ("plain", _AFTER, "", "race: .* tcgen05.ld, .* tcgen05.mma of warp 1 writes"),
    "sums are overwritten, no fence before the arrival": ("tiles", _BEFORE, "", "race: .* tcgen05.mma, .* tcgen05.ld of warp .* reads"),
    "tensor memory is kept": ("plain", _CALL + r"tcgen05\.dealloc[^\n]*", "", "allocated: "),
    "other columns are given back": ("plain", r"(tcgen05\.dealloc[^\n]*i32 )128\)", r"\g<1>64)", "not allocated so"),
    "too few columns are allocated": ("plain", r"(tcgen05\.alloc\.[^\n]*i32 )128\)", r"\g<1>32)", "not all allocated|not allocated"),
    "a number of columns that is no power of two": ("plain", r"(tcgen05\.alloc\.[^\n]*i32 )128\)", r"\g<1>96)", "a power of two"),
    "the instruction has fewer columns": ("plain", _MMA + "135333008", rf"\g<1>{135333008 - (4 << 17)}", "unwritten"),
    "the instruction has 64 rows": ("plain", _MMA + "135333008", rf"\g<1>{135333008 - (4 << 24)}", "another number of rows"),
    "the types are others": ("plain", _MMA + "135333008", rf"\g<1>{135333008 + (1 << 8)}", "types that its kind does not have"),
    "the instruction sums f16": ("plain", _MMA + "135333008", rf"\g<1>{135333008 - (1 << 4)}", "sums of f32"),
    "a bit that means nothing is set": ("plain", _MMA + "135333008", rf"\g<1>{135333008 + (1 << 6)}", "bits that are 0"),
    "matrices are described as on Hopper": ("plain", r"46117566620\d+", str((1 << 62) + (64 << 32)), "no 1 at bits 46"),
    "warps read each other's lanes": ("plain", r"(shl [^\n]*i32 %\w+), 16\n", r"\1, 17\n", "the quarter of the lanes"),
    "slots are released to this block alone": ("cluster", r"(tcgen05\.commit\.mc[^\n]*i16 )3\)", r"\g<1>1)", "deadlock|race|more arrivals"),
    "sums are not waited for by the cluster": ("split", _CLUSTER, "", "race|unwritten|unfenced"),
    "tiles are copied to sums that are read": ("split", _CALL + r"fence\.proxy\.async[^\n]*", "", "race"),
    "sums are told to this block alone": ("streamed", r"(store atomic [^\n]*)\"device\"\) release", r'\1"block") release', "scope"),
    "sums are awaited for this block alone": ("streamed", r"(load atomic [^\n]*)\"device\"\) acquire", r'\1"block") acquire', "scope"),
    "nobody tells that sums are there": ("streamed", r"\n[^\n]*store atomic [^\n]* release[^\n]*", "", "deadlock|no end"),
    "products of one block in a pair": ("pair", _MMA + r"(\d+, i1 [^\n]*, i32 \d+, i32 )2,", r"\g<1>\g<2>1,", "in one kernel"),
    "the instruction of a pair has 128 rows": ("pair", _MMA + r"269485200", rf"\g<1>{269485200 - (8 << 24)}", "than the 256"),
    "only one block is told that slots are empty": ("pair", r"(tcgen05\.commit\.mc[^\n]*i16 )3\)", r"\g<1>1)", "deadlock"),
    "copies tell their own block": ("pair", r"(bulk\.tensor\.g2s[^\n]*, i32 )2\)", r"\g<1>0)", "deadlock"),
    "a pair's memory is given back while it is used": ("pair", _LAST_MEETING, r"\1\2", "race|ended|not all allocated"),
}  # fmt: skip


@cache
def _kernel(kind: str) -> gpu.GpuKernel:
    case, parameters = KINDS[kind]
    return gpu.compile(tw.MatmulSpec(**case), EMULATED, "tensor_memory", parameters)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_caught(name: str) -> None:
    kind, pattern, replacement, finding = BROKEN[name]
    kernel = _kernel(kind)
    kernel._made.clear()
    check_that_breaking_is_caught(kernel, kernel.spec, pattern, replacement, finding)


def test_a_load_that_is_not_waited_for_is_refused() -> None:
    text = re.sub(_CALL + r"tcgen05\.wait\.ld[^\n]*", "", _kernel("plain").asm["llvmir"])
    with pytest.raises(LoweringError, match=r"before tcgen05\.wait::ld"):
        EmulatedGpuKernel(text, "matmul")
