# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup`: what the emulator says of kernels that were broken on purpose."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import tilewright as tw
from gpu_kernels import check_that_breaking_is_caught
from tilewright.runtime import gpu
from tilewright.targets import nvidia

EMULATED = nvidia.ROWS[1].emulated()
SMALL = {"bm": 128, "bn": 64, "stages": 3}
KINDS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "plain": ({"m": 128, "n": 64, "k": 640, "a": "bf16"}, SMALL),
    # Each block has several tiles, and so several boxes of C, one after the other.
    "tiles": ({"m": 128, "n": 640, "k": 64, "a": "bf16", "c": "bf16"}, SMALL),
    "turns": ({"m": 512, "n": 64, "k": 320, "a": "bf16"}, {"bm": 64, "bn": 64, "stages": 3, "pingpong": 1}),
    "cluster": ({"m": 256, "n": 64, "k": 320, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2}),
    "square": ({"m": 256, "n": 128, "k": 320, "a": "bf16", "c": "bf16"}, {**SMALL, "cluster": 2, "beside": 2}),
    "streamed": ({"m": 256, "n": 64, "k": 640, "a": "bf16", "c": "bf16"}, {**SMALL, "streamed": 1}),
    "gated": ({"m": 128, "n": 64, "k": 640, "a": "bf16", "epilogue": (tw.glu(),)}, SMALL),
    "fetched": (
        {"m": 700, "n": 64, "k": 128, "a": "bf16", "c": "bf16", "epilogue": (tw.residual("mn", "bf16"),)},
        {**SMALL, "fetched": 1},
    ),
    "gathered": ({"m": 700, "n": 64, "k": 320, "a": "bf16", "prologue_a": (tw.gather_rows(90),)}, SMALL),
    "split": ({"m": 128, "n": 128, "k": 256, "a": "bf16", "c": "bf16"}, {**SMALL, "split": 4}),
}
_CALL = r"\n[^\n]*call [^\n]*@llvm\.nvvm\."
_MEET = _CALL + r"barrier\.cluster\.arrive[^\n]*" + _CALL + r"barrier\.cluster\.wait[^\n]*"
_TRY = r"(asm sideeffect \"[^\"]*)mbarrier\.try_wait[^\"]*\""
_END = _CALL + r"cp\.async\.bulk\.wait\.group\.read[^\n]*(?=(?:(?!wait\.group)(?:.|\n))*ret void)"
_FREE = _CALL + r"cp\.async\.bulk\.wait\.group\.read[^\n]*(?=(?:.|\n)*call [^\n]*wait\.group\.read)"
_DRAIN = r"(expect\.tx[^\n]*ptr(?:.|\n)*?elect\.sync)" + 3 * r"((?:.|\n)*?)\n[^\n]*try_wait[^\n]*"
_MAP = r"(call [^\n]*@llvm\.nvvm\.mapa\.[^\n]*, i32) %[\w.]+\)"
_TO_BOTH = r"(cp\.async\.bulk\.tensor\.g2s\.tile\.2d[^\n]*, i16) 3,"
_TO_SOME = r"(cp\.async\.bulk\.tensor\.g2s\.tile\.2d[^\n]*, i16) %\d+,"
_FOLLOW = r"\n  tail (call void @llvm\.nvvm\.griddepcontrol\.wait\(\))((?:.|\n)*)\n  ret void"
_FIRST_READ = _CALL + r"cp\.async\.bulk\.wait\.group\.read[^\n]*(?=(?:(?!stmatrix)(?:.|\n))*expect\.tx)"
_NOINC = r"(cp\.async\.mbarrier\.arrive)\.noinc(\.shared)"
_FENCE = _CALL + r"fence\.proxy\.async[^\n]*"
BROKEN = {
    "the barrier behind the initialization is removed": ("plain", _CALL + r"barrier\.cta\.sync\.aligned\.all[^\n]*", "", "initialized"),
    "barrier objects are not fenced": ("plain", _CALL + r"fence\.mbarrier_init[^\n]*", "", "unfenced: .* without fence.mbarrier_init"),
    "registers are not fenced": ("plain", _CALL + r"wgmma\.fence[^\n]*", "", "unfenced: .* without a wgmma.fence"),
    "kernels before are waited for too late": ("plain", _FOLLOW, r"\2\n  \1\n  ret void", "early: .* before griddepcontrol.wait"),
    "fewer bytes are expected": ("plain", r"(arrive\.expect\.tx[^\n]*i32 )24576\)", r"\g<1>16384)", "race|unwritten|deadlock"),
    "more bytes are expected": ("plain", r"(arrive\.expect\.tx[^\n]*i32 )24576\)", r"\g<1>32768)", "deadlock"),
    "slots are never released": ("plain", _CALL + r"mbarrier\.arrive\.shared[^\n]*", "", "deadlock"),
    "slots are released at once": ("plain", r"(wgmma\.wait_group\.sync\.aligned\(i64) 1\)", r"\1 7)", "race"),
    "nobody waits for what is copied": ("plain", _TRY, r'\1nanosleep;"', "race|unwritten|know"),
    "the next phase is waited for": ("plain", r"(xor i64 [^\n]*), 1\n", r"\1, 0\n", "race|deadlock|unwritten"),
    "boxes of C are copied without a fence": ("tiles", _FENCE, "", "race: .* a bulk copy"),
    "a warp does not meet around its boxes of C": ("tiles", _CALL + r"bar\.warp\.sync[^\n]*", "", "race"),
    "a place for a box is taken before it is free": ("tiles", _FREE, "", "race"),
    "the kernel ends before its boxes are copied": ("tiles", _END, "", "not waited for before the kernel ends"),
    # A barrier object's parity tells one round from the next, not from the one after.
    "a consumer does not wait for its turn": ("turns", _CALL + r"barrier\.cta\.sync\.aligned\.count[^\n]*", "", "race|unwritten"),
    "a consumer never gives its turn away": ("turns", r"\n[^\n]*asm sideeffect \"bar\.arrive[^\n]*", "", "deadlock"),
    "slots are released to this block alone": ("cluster", _MAP, r"\1 0)", "deadlock|race|more arrivals"),
    "a box is copied to this block alone": ("cluster", _TO_BOTH, r"\1 1,", "deadlock|race|unwritten"),
    "a box is copied to all blocks of a square": ("square", _TO_SOME, r"\1 15,", "deadlock|race|unwritten"),
    "blocks of a cluster begin before the other is ready": ("cluster", r"(fence\.mbarrier_init(?:.|\n)*?)" + _MEET, r"\1", "initialized"),
    "a block ends before the other has": ("cluster", _DRAIN, r"\1\2\3\4", "ended: "),
    "barrier objects are not fenced where blocks meet": ("cluster", _CALL + r"fence\.mbarrier_init[^\n]*", "", "race: .* initialized it"),
    "sums are told to this block alone": ("streamed", r"(store atomic [^\n]*)\"device\"\) release", r'\1"block") release', "scope"),
    "sums are awaited for this block alone": ("streamed", r"(load atomic [^\n]*)\"device\"\) acquire", r'\1"block") acquire', "scope"),
    "nobody tells that sums are there": ("streamed", r"\n[^\n]*store atomic [^\n]* release[^\n]*", "", "deadlock|no end"),
    "bytes of one B are expected": ("gated", r"(arrive\.expect\.tx[^\n]*i32 )32768\)", r"\g<1>24576)", "race|unwritten|deadlock"),
    "slots are released while the other B is multiplied": ("gated", r"(wgmma\.wait_group\.sync\.aligned\(i64) 1\)", r"\1 7)", "race"),
    "places are filled that are still read": ("fetched", _FIRST_READ, "", "race"),
    "what is added is not waited for": ("fetched", _TRY, r'\1nanosleep;"', "race|unwritten|know"),
    "what is added is replaced while it is read": ("fetched", _CALL + r"bar\.warp\.sync[^\n]*", "", "race"),
    "rows are multiplied without a fence": ("gathered", _FENCE, "", "race"),
    "threads are not expected at slots that they fill": ("gathered", _NOINC, r"\1\2", "deadlock"),
    "numbers of rows are not waited for": ("gathered", _CALL + r"barrier\.cta\.sync\.aligned\.count[^\n]*", "", "race"),
    "sums are read before all have come": ("split", rf"(?<=, align 4){_MEET}|{_MEET}(?={_MEET})", "", "race|unwritten"),
    "sums are written while tiles are read": ("split", _CALL + r"barrier\.cta\.sync\.aligned\.count[^\n]*", "", "race"),
    "tiles are copied to where sums are, without a fence": ("split", _FENCE, "", "race"),
}  # fmt: skip


@cache
def _kernel(kind: str) -> gpu.GpuKernel:
    case, parameters = KINDS[kind]
    return gpu.compile(tw.MatmulSpec(**case), EMULATED, "warpgroup", parameters)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_is_caught(name: str) -> None:
    kind, pattern, replacement, finding = BROKEN[name]
    kernel = _kernel(kind)
    kernel._made.clear()
    check_that_breaking_is_caught(kernel, kernel.spec, pattern, replacement, finding)
