# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reader of PTX: what instructions compute, kernels that LLVM writes, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from gpu_kernels import check
from tilewright import ptx
from tilewright.cli import main
from tilewright.dtypes import DTYPES, to_numpy
from tilewright.emit.gpu_stages import GpuStages
from tilewright.errors import LoweringError
from tilewright.runtime import fiber_calls, gpu
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, EmulationError, TensorMap
from tilewright.runtime.launches import Launch
from tilewright.targets import nvidia

SM_80, SM_90A, _ = nvidia.ROWS
LANES = 32
ALL = (1 << 32) - 1


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def as_float(bits: int) -> float:
    return float(np.array(bits, np.uint32).view(np.float32))


def from_float(value: Any) -> int:
    return int(np.array(value, np.float32).view(np.uint32))


def halves(bits: int, kind: Any = np.float16) -> np.ndarray:
    return np.array([bits], np.uint32).view(kind)


def permuted(a: int, b: int, selector: int) -> int:
    both, found = (b << 32 | a).to_bytes(8, "little"), 0
    for number in range(4):
        choice = selector >> 4 * number & 15
        byte = both[choice & 7]
        found |= (0xFF * (byte >> 7) if choice & 8 else byte) << 8 * number
    return found


def rounded(value: float, low: int, high: int) -> int:
    return 0 if np.isnan(value) else int(min(max(np.rint(value), low), high))


# Of two registers %a and %b of 32 bits, %x and %y as floats, and the lane %l: what an instruction puts into %d.
ROWS: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("add.u32 %d, %a, %b;", lambda a, b, lane: a + b),
    ("sub.s32 %d, %a, -7;", lambda a, b, lane: a + 7),
    ("mul.lo.s32 %d, %a, %b;", lambda a, b, lane: a * b),
    ("mul.hi.u32 %d, %a, %b;", lambda a, b, lane: a * b >> 32),
    ("mul.hi.s32 %d, %a, %b;", lambda a, b, lane: signed(a) * signed(b) >> 32),
    ("mad.lo.u32 %d, %a, %b, %l;", lambda a, b, lane: a * b + lane),
    ("mul.wide.s32 %w, %a, %b; mov.b64 {_, %d}, %w;", lambda a, b, lane: signed(a) * signed(b) >> 32),
    ("mad.wide.u32 %w, %a, %b, 5; mov.b64 {%d, _}, %w;", lambda a, b, lane: a * b + 5),
    ("add.cc.u32 %d, %a, %b; addc.u32 %d, 0, 0;", lambda a, b, lane: a + b >> 32),
    ("sub.cc.u32 %d, %a, %b; subc.u32 %d, 0, 0;", lambda a, b, lane: -int(a < b)),
    ("div.u32 %d, %a, %l;", lambda a, b, lane: a // lane if lane else ALL),
    ("rem.s32 %d, %a, 7;", lambda a, b, lane: int(np.fmod(signed(a), 7))),
    ("div.s32 %d, 0x80000000, -1;", lambda a, b, lane: 1 << 31),
    ("min.s32 %d, %a, %b;", lambda a, b, lane: min(signed(a), signed(b))),
    ("max.u32 %d, %a, %b;", lambda a, b, lane: max(a, b)),
    ("abs.s32 %d, %a;", lambda a, b, lane: abs(signed(a))),
    ("neg.s32 %d, %a;", lambda a, b, lane: -a),
    ("and.b32 %d, %a, 0xff00;", lambda a, b, lane: a & 0xFF00),
    ("not.b32 %d, %a;", lambda a, b, lane: ~a),
    ("lop3.b32 %d, %a, %b, %l, 0x96;", lambda a, b, lane: a ^ b ^ lane),
    ("lop3.b32 %d, %a, %b, %l, 0xd8;", lambda a, b, lane: a & ~lane | b & lane),
    ("shl.b32 %d, %a, 40;", lambda a, b, lane: 0),
    ("shl.b32 %d, %a, %l;", lambda a, b, lane: a << lane),
    ("shr.s32 %d, %a, 40;", lambda a, b, lane: -1 if a >> 31 else 0),
    ("shr.u32 %d, %a, %l;", lambda a, b, lane: a >> lane),
    ("shf.l.wrap.b32 %d, %a, %b, %l;", lambda a, b, lane: (b << 32 | a) << lane >> 32),
    ("shf.r.wrap.b32 %d, %a, %b, 36;", lambda a, b, lane: (b << 32 | a) >> 4),
    ("shf.r.clamp.b32 %d, %a, %b, 36;", lambda a, b, lane: b),
    ("bfe.u32 %d, %a, 4, %l;", lambda a, b, lane: a >> 4 & (1 << lane) - 1),
    ("bfe.s32 %d, %a, 4, 8;", lambda a, b, lane: signed(a >> 4 & 255, 8)),
    ("bfe.s32 %d, %a, 28, 8;", lambda a, b, lane: signed(a) >> 28),
    ("bfi.b32 %d, %a, %b, 4, 8;", lambda a, b, lane: b & ~0xFF0 | (a & 255) << 4),
    ("prmt.b32 %d, %a, %b, 0x5410;", lambda a, b, lane: permuted(a, b, 0x5410)),
    ("prmt.b32 %d, %a, %b, %l;", permuted),
    ("prmt.b32 %d, %a, %b, 0x9BAC;", lambda a, b, lane: permuted(a, b, 0x9BAC)),
    ("popc.b32 %d, %a;", lambda a, b, lane: a.bit_count()),
    ("clz.b32 %d, %l;", lambda a, b, lane: 32 - lane.bit_length()),
    ("brev.b32 %d, %a;", lambda a, b, lane: int(f"{a:032b}"[::-1], 2)),
    ("bfind.u32 %d, %l;", lambda a, b, lane: lane.bit_length() - 1),
    ("setp.lt.s32 %p|%q, %a, %b; selp.b32 %d, 1, 2, %q;", lambda a, b, lane: 2 if signed(a) < signed(b) else 1),
    ("setp.ge.u32 %p, %a, %b; setp.eq.and.s32 %p, %l, 3, %p; selp.b32 %d, 1, 0, %p;", lambda a, b, lane: int(lane == 3 and a >= b)),
    ("set.gt.u32.s32 %d, %a, %b;", lambda a, b, lane: ALL if signed(a) > signed(b) else 0),
    ("setp.eq.u32 %p, %l, %l; setp.lt.and.u32 %p|%q, %l, 2, %p; selp.b32 %d, 5, 6, %q;", lambda a, b, lane: 6 if lane < 2 else 5),
    ("mov.b32 %d, 9; setp.lo.u32 %p, %a, %b; @!%p mov.b32 %d, 4;", lambda a, b, lane: 9 if a < b else 4),
    ("{ .reg .pred done; mov.b32 %d, 0; again: add.u32 %d, %d, 3; setp.gt.u32 done, %d, %l; @!done bra again; }",
     lambda a, b, lane: 3 * (lane // 3 + 1)),
    ("cvt.s64.s32 %w, %a; mov.b64 {_, %d}, %w;", lambda a, b, lane: -1 if a >> 31 else 0),
    ("cvt.u8.u32 %d, %a;", lambda a, b, lane: a & 255),
    ("cvt.s32.s8 %d, %a;", lambda a, b, lane: signed(a & 255, 8)),
    ("cvt.sat.s8.s32 %d, %a;", lambda a, b, lane: min(max(signed(a), -128), 127)),
    ("cvt.rn.f32.s32 %d, %a;", lambda a, b, lane: from_float(signed(a))),
    ("cvt.rni.s32.f32 %d, %x;", lambda a, b, lane: rounded(as_float(a), -(1 << 31), (1 << 31) - 1)),
    ("cvt.rzi.u32.f32 %d, 0fBF800000;", lambda a, b, lane: 0),
    ("cvt.rn.f16x2.f32 %d, 0f3F800000, 0f40490FDB;", lambda a, b, lane: 0x3C004248),
    ("cvt.rn.bf16x2.f32 %d, 0f40490FDB, 0f3F800000;", lambda a, b, lane: 0x40493F80),
    ("cvt.rz.bf16.f32 %h, %x; cvt.u32.u16 %d, %h;", lambda a, b, lane: a >> 16),
    ("mov.b32 %d, 0xBF800000; cvt.rz.relu.bf16.f32 %h, %d; cvt.u32.u16 %d, %h;", lambda a, b, lane: 0),
    ("mov.b32 %d, 0x7F800001; cvt.rz.bf16.f32 %h, %d; cvt.u32.u16 %d, %h;", lambda a, b, lane: 0x7FFF),
    ("cvt.rna.tf32.f32 %d, 0f3F801000;", lambda a, b, lane: 0x3F802000),
    ("cvt.rn.satfinite.e4m3x2.f32 %h, 0f44000000, 0fBFC80000; cvt.u32.u16 %d, %h;", lambda a, b, lane: 0x7EBC),
    ("mov.b16 %h, 0x3CC1; cvt.rn.f16x2.e5m2x2 %d, %h;", lambda a, b, lane: 0x3C00C100),
    ("mov.b32 %d, 0x7FC00000; cvt.rzi.s32.f32 %d, %d;", lambda a, b, lane: 0),
    ("mov.b64 %w, 0x7FF8000000000000; cvt.rzi.s32.f64 %d, %w;", lambda a, b, lane: 1 << 31),
    ("add.f32 %x, %y, 0f3F800000; mov.b32 %d, %x;", lambda a, b, lane: from_float(np.float32(lane / 8) + np.float32(1))),
    ("fma.rn.f32 %x, %y, %y, %y; mov.b32 %d, %x;", lambda a, b, lane: from_float(lane / 8 * lane / 8 + lane / 8)),
    ("add.f32 %x, %y, -1.5e0; mov.b32 %d, %x;", lambda a, b, lane: from_float(lane / 8 - 1.5)),
    ("add.sat.f32 %x, %y, 0f00000000; mov.b32 %d, %x;", lambda a, b, lane: from_float(min(lane / 8, 1))),
    ("min.f32 %x, %y, 0f7FC00000; mov.b32 %d, %x;", lambda a, b, lane: from_float(lane / 8)),
    ("div.full.f32 %x, %y, 0f40000000; mov.b32 %d, %x;", lambda a, b, lane: from_float(lane / 16)),
    ("sqrt.rn.f32 %x, %y; mov.b32 %d, %x;", lambda a, b, lane: from_float(np.sqrt(np.float32(lane / 8)))),
    ("ex2.approx.ftz.f32 %x, 0f40400000; mov.b32 %d, %x;", lambda a, b, lane: from_float(8)),
    ("rcp.approx.f32 %x, 0f40800000; neg.f32 %x, %x; mov.b32 %d, %x;", lambda a, b, lane: from_float(-0.25)),
    # Subnormal numbers are zeros of their sign under .ftz, before and after.
    ("mov.b32 %d, 0x80000001; add.f32 %d, %d, 0f00000000;", lambda a, b, lane: 0x80000001),
    ("mov.b32 %d, 0x80000001; mul.ftz.f32 %d, %d, 0f3F800000;", lambda a, b, lane: 0x80000000),
    ("mov.b32 %d, 0x00FFFFFE; mul.ftz.f32 %d, %d, 0f3F000000;", lambda a, b, lane: 0),
    ("mov.b32 %d, 0x00000001; rcp.approx.ftz.f32 %d, %d;", lambda a, b, lane: 0x7F800000),
    ("{ .reg .b32 %z; mov.b32 %z, 0; mov.b32 %d, 0x00013C01; add.ftz.f16x2 %d, %d, %z; }", lambda a, b, lane: 0x00003C01),
    ("mov.b32 %d, 0x00000001; setp.gt.ftz.f32 %p, %d, 0f00000000; selp.b32 %d, 1, 2, %p;", lambda a, b, lane: 2),
    ("{ .reg .b32 %u, %v; mov.b32 %u, 0x3C004000; mov.b32 %v, 0x40003C00; setp.lt.f16x2 %p|%q, %u, %v; selp.b32 %d, 1, 0, %p; "
     "selp.b32 %u, 2, 0, %q; or.b32 %d, %d, %u; }", lambda a, b, lane: 2),
    ("setp.gtu.f32 %p, %y, 0f7FC00000; selp.b32 %d, 1, 0, %p;", lambda a, b, lane: 1),
    ("setp.gt.f32 %p, %y, 0f7FC00000; selp.b32 %d, 1, 0, %p;", lambda a, b, lane: 0),
    ("mov.b32 %d, 0x3C004248; fma.rn.f16x2 %d, %d, %d, %d;",
     lambda a, b, lane: int((halves(0x3C004248).astype(np.float64) ** 2 + halves(0x3C004248)).astype(np.float16).view(np.uint32)[0])),
    ("shfl.sync.bfly.b32 %d|%p, %l, 5, 31, -1;", lambda a, b, lane: lane ^ 5),
    ("shfl.sync.up.b32 %d|%p, %l, 4, 0, -1; selp.b32 %d, %d, 99, %p;", lambda a, b, lane: lane - 4 if lane >= 4 else 99),
    ("setp.lt.u32 %p, %l, 5; vote.sync.ballot.b32 %d, %p, 0xffffffff;", lambda a, b, lane: 31),
    ("setp.lt.u32 %p, %l, 5; vote.sync.any.pred %p, %p, -1; selp.b32 %d, 1, 0, %p;", lambda a, b, lane: 1),
    ("setp.lt.u32 %p, %l, 5; vote.sync.all.pred %p, %p, -1; selp.b32 %d, 1, 0, %p;", lambda a, b, lane: 0),
    ("redux.sync.add.s32 %d, %l, -1;", lambda a, b, lane: 496),
    ("sub.s32 %d, %l, 5; redux.sync.min.s32 %d, %d, -1;", lambda a, b, lane: -5 & ALL),
    ("redux.sync.max.u32 %d, %l, -1;", lambda a, b, lane: 31),
    ("elect.sync %d|%p, -1; selp.b32 %d, 7, %d, %p;", lambda a, b, lane: 0 if lane else 7),
    ("mov.u32 %d, %lanemask_le;", lambda a, b, lane: (2 << lane) - 1),
    ("mov.u32 %d, %ntid.x;", lambda a, b, lane: LANES),
    # Four bytes of a table, of the kernel's own memory, and of a place in shared memory by its generic address.
    ("mov.b64 %w, table; add.s64 %w, %w, 4; ld.const.b32 %d, [%w];", lambda a, b, lane: 22),
    ("ld.const.b32 %d, [open+8];", lambda a, b, lane: 9),
    ("st.shared.v4.b32 [pairs+48], {5, 6, 7, 8}; bar.sync 0; ld.shared.b32 %d, [pairs+60];", lambda a, b, lane: 8),
    ("st.local.v2.b32 [depot], {%a, %b}; ld.local.b32 %d, [depot+4];", lambda a, b, lane: b),
    ("mov.u32 %d, space; mad.lo.u32 %d, %l, 4, %d; st.shared.b32 [%d], %a; cvt.u64.u32 %w, %d; cvta.shared.u64 %w, %w; ld.b32 %d, [%w];",
     lambda a, b, lane: a),
    ("{ .reg .b64 %s; mov.u64 %w, space; cvta.shared.u64 %s, %w; cvta.to.shared.u64 %s, %s; sub.u64 %w, %w, %s; cvt.u32.u64 %d, %w; }",
     lambda a, b, lane: 0),
    ("mov.u32 %d, place; { .reg .b32 %s; cvt.u64.u32 %w, %d; cvta.param.u64 %w, %w; ld.param.b32 %d, [place]; }", lambda a, b, lane: 77),
    ("{ .param .b32 given; .param .b32 taken; st.param.b32 [given], %a; call.uni (taken), twice, (given); ld.param.b32 %d, [taken]; }",
     lambda a, b, lane: 2 * a),
    ("bar.sync 0; setp.eq.u32 %p, %l, 0; @%p st.shared.b32 [sum], 0; bar.sync 0; red.shared.add.u32 [sum], %l; bar.sync 0; "
     "ld.shared.b32 %d, [sum];", lambda a, b, lane: 496),
    ("bar.sync 0; atom.shared.exch.b32 %d, [sum], 8; bar.sync 0; atom.shared.cas.b32 %d, [sum], 8, 8;", lambda a, b, lane: 8),
]  # fmt: skip
HEAD = """
.version 8.3
.target sm_90a
.address_size 64
.const .align 4 .b32 table[3] = {11, 22, 33}; // "numbers"
.const .align 4 .u32 open[] = {7, 8, 9};
.shared .v4 .b32 pairs[4];
.shared .align 16 .b8 space[128];
.shared .align 4 .u32 sum;
.func (.param .b32 result) twice(.param .b32 value)
{
  .reg .b32 %r<2>;
  ld.param.b32 %r1, [value];
  add.u32 %r1, %r1, %r1; /* twice
     as much */
  st.param.b32 [result], %r1;
  ret;
}
"""
KERNEL = """
.visible .entry rows(.param .u64 .ptr .global .align 4 left, .param .u64 right, .param .u64 out, .param .u32 place)
.reqntid 32
{
  .reg .pred %p, %q;
  .reg .b16 %h;
  .reg .b32 %a, %b, %d, %l;
  .reg .f32 %x, %y;
  .reg .b64 %w, %from, %to<2>;
  .local .align 8 .b8 depot[8];
  mov.u32 %l, %tid.x;
  ld.param.u64 %from, [left];
  mad.wide.u32 %from, %l, 4, %from;
  ld.global.b32 %a, [%from];
  ld.param.u64 %from, [right];
  mad.wide.u32 %from, %l, 4, %from;
  ld.global.b32 %b, [%from];
  ld.param.u64 %to1, [out];
  mad.wide.u32 %to1, %l, 4, %to1;
"""
TAIL = "  ret;\n}\n"
BEFORE = "  mov.b32 %x, %a; cvt.rn.f32.u32 %y, %l; mul.f32 %y, %y, 0f3E000000; mov.b16 %h, 0;\n"


def run(text: str, name: str, threads: int, *arguments: Any, shared: int = 0) -> None:
    kernel = EmulatedGpuKernel(ptx.translated(text).llvmir, name)
    kernel(Launch((1, 1, 1), (threads, 1, 1), dynamic_shared=shared), *arguments)


def test_what_instructions_compute() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 1 << 32, LANES, np.uint32) for _ in range(2))
    out = np.zeros((len(ROWS), LANES), np.uint32)
    body = "".join(
        f"{BEFORE}  {text}\n  st.global.b32 [%to1+{4 * LANES * row}], %d;\n" for row, (text, _) in enumerate(ROWS)
    )
    run(HEAD + KERNEL + body + TAIL, "rows", LANES, a, b, out, np.uint32(77))
    for row, (text, expected) in enumerate(ROWS):
        wanted = [expected(int(x), int(y), lane) & ALL for lane, (x, y) in enumerate(zip(a, b, strict=True))]
        assert [hex(each) for each in out[row]] == [hex(each) for each in wanted], text


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="there is no ptxas")
def test_the_instructions_are_ptx(tmp_path: Path) -> None:
    """What is read here as PTX is that for NVIDIA's assembler too."""
    file = tmp_path / "k.ptx"
    file.write_text(HEAD + KERNEL + "".join(f"{BEFORE}  {text}\n" for text, _ in ROWS) + TAIL)
    done = subprocess.run(
        ["ptxas", "-arch=sm_90a", file, "-o", tmp_path / "k.cubin"], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr


@pytest.mark.parametrize(
    ("target", "case", "parameters"),
    [
        (SM_80, {"m": 40, "n": 50, "k": 161, "a": "f16"}, {"bm": 64, "bn": 64, "wm": 32, "wn": 32}),
        (SM_90A, {"m": 130, "n": 70, "k": 136, "a": "bf16", "c": "bf16"}, {"bm": 128, "bn": 64, "stages": 3, "cluster": 2}),
    ],
)  # fmt: skip
def test_kernels_by_llvm(target: Any, case: Any, parameters: Any, from_ptx: list[str]) -> None:
    """Our own kernels, as LLVM's back end for NVIDIA writes them."""
    spec = tw.MatmulSpec(**case)
    check(gpu.compile(spec, target.emulated(), parameters=parameters), spec)
    assert from_ptx


@pytest.fixture
def from_ptx(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Has kernels emulated as their PTX says, which goes to the list."""
    read: list[str] = []

    def translated(stages: GpuStages) -> str:
        read.append(stages.texts["ptx"])
        return ptx.translated(read[-1]).llvmir

    monkeypatch.setattr(fiber_calls, "as_nvvm", translated)
    return read


def test_copies_of_patches_by_llvm(from_ptx: list[str]) -> None:
    spec = tw.Conv2dSpec(2, 7, 9, 64, 16, 3, 2, a="bf16", stride=(1, 2))
    kernel = gpu.compile(spec, SM_90A.emulated(), parameters={"bm": 64, "bn": 64, "consumers": 1, "cluster": 2})
    rng = np.random.default_rng(0)
    x, w = (rng.uniform(-1, 1, each.shape).astype(tw.dtypes.to_numpy(each.type)) for each in spec.operands)
    assert (np.abs(kernel(x, w) - tw.reference(spec, x, w)) <= tw.error_bound(spec, x, w)).all()
    assert "im2col" in from_ptx[0]


def kernel_of(body: str) -> str:
    """A kernel of 32 threads, which store what a body leaves in %d."""
    barrier = ".shared .align 8 .b64 mark;\n"
    return HEAD + barrier + KERNEL + BEFORE + body + "  st.global.b32 [%to1], %d;\n" + TAIL


EXCHANGED = "mad.lo.u32 %d, %l, 4, 0; st.shared.b32 [%d], %a; BARRIER xor.b32 %d, %d, 4; ld.shared.b32 %d, [%d];"
# Half of the threads copy; all wait for the barrier object, which counts those that copy.
COPIED = """
  mov.u32 %d, mark; setp.eq.u32 %p, %l, 0; @%p mbarrier.init.shared.b64 [%d], 16; bar.sync 0;
  setp.lt.u32 %p, %l, 16; @!%p bra waiting;
  ld.param.u64 %from, [left]; mad.wide.u32 %from, %l, 8, %from; mov.u32 %d, space; mad.lo.u32 %d, %l, 8, %d;
  cp.async.ca.shared.global [%d], [%from], 8; cp.async.mbarrier.arrive.noinc.shared.b64 [mark];
waiting:
  mbarrier.try_wait.parity.shared.b64 %p, [mark], 0; @!%p bra waiting;
  mov.u32 %d, space; mad.lo.u32 %d, %l, 4, %d; ld.shared.b32 %d, [%d];
"""
BARRIER = "setp.eq.u32 %p, %l, 0; @!%p bra done; mbarrier.init.shared.b64 [mark], 1; LINE done: mov.b32 %d, %l;"
GIVEN = ("--arg", "i32[32]", "--arg", "i32[32]", "--arg", "out:i32[32]", "--arg", "i32=1")


@pytest.mark.parametrize(
    ("body", "finding"),
    [
        (EXCHANGED.replace("BARRIER", "bar.warp.sync -1;"), ""),
        (EXCHANGED.replace("BARRIER", ""), "race: "),
        # Stores of the same value do no harm; those of different ones do.
        ("st.shared.b32 [sum], 7; bar.sync 0; ld.shared.b32 %d, [sum]; mov.b32 %d, %l;", ""),
        ("st.shared.b32 [sum], %l; bar.sync 0; ld.shared.b32 %d, [sum];", "race: "),
        ("atom.shared.add.u32 %d, [sum], 1; ld.shared.b32 %d, [sum];", "race: "),
        ("ld.shared.b32 %d, [sum];", "unwritten: "),
        ("ld.global.b32 %d, [%from+256];", "outside: "),
        ("red.global.add.u32 [%from], 1; mov.b32 %d, 0;", "may write"),
        ("ld.global.v2.b32 {%d, _}, [%from];", "misaligned: a load"),
        ("trap;", "trap: "),
        # Addresses into parameters: the first one has eight bytes, and there are four of them.
        ("mov.u64 %w, left; ld.param.b32 %d, [%w+4]; mov.b32 %d, %l;", ""),
        ("mov.u64 %w, left; ld.param.b32 %d, [%w+5];", "outside: .* accesses a parameter beyond its end"),
        ("mov.u64 %w, left; ld.param.b32 %d, [%w+-4];", "beyond its end"),
        ("mov.u64 %w, left; mad.wide.u32 %w, %l, 8, %w; ld.param.v2.b32 {%d, _}, [%w];", "beyond its end"),
        ("mov.u64 %w, 0x900000; ld.param.b32 %d, [%w];", "beyond its end"),
        ("mov.u64 %w, 0; st.param.b32 [%w], %l;", "beyond its end"),
        ("{ .param .b32 taken; call (taken), twice, (%l); }", "beyond its end"),
        (COPIED, ""),
        (COPIED.replace("[mark], 0;", "[mark], -2;"), ""),  # Of a parity, only the lowest bit counts.
        (COPIED.replace("  mbarrier.try_wait", "  //"), "unwritten: "),
        (
            COPIED.replace("[%from], 8;", "[%from], 8, %p; setp.lt.u32 %p, %l, 16;").replace(
                "%p bra waiting;", "%p bra waiting; not.pred %p, %p;"
            ),
            "",
        ),
        (COPIED.replace(", 16; bar", ", 15; bar"), "unwritten: "),
        (COPIED.replace("cp.async.mbarrier.arrive.noinc.shared.b64 [mark];", ""), "deadlock: "),
        (BARRIER.replace("LINE", "mbarrier.inval.shared.b64 [mark]; mbarrier.init.shared.b64 [mark], 1;"), ""),
        (BARRIER.replace("LINE", "mbarrier.init.shared.b64 [mark], 1;"), "without mbarrier.inval"),
        (
            BARRIER.replace("LINE", "mbarrier.inval.shared.b64 [mark]; mbarrier.arrive.shared.b64 _, [mark];"),
            "behind mbarrier.inval",
        ),
    ],
)
def test_what_a_kernel_does_wrong_is_found(body: str, finding: str) -> None:
    a, out = np.arange(LANES, dtype=np.uint32), np.zeros(LANES, np.uint32)
    a.flags.writeable = False
    if finding:
        with pytest.raises(EmulationError, match=finding):
            run(kernel_of(body), "rows", LANES, a, a, out, np.uint32(0))
    else:
        run(kernel_of(body), "rows", LANES, a, a, out, np.uint32(0))
        assert sorted(out) == sorted(a)


STORED = """
.version 8.3
.target sm_90a
.address_size 64
.shared .align 128 .b8 box[128];
.visible .entry stored(.param .align 64 .b8 map[128], .param .u64 array, .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %l, %d;
  .reg .b64 %m, %at;
  mov.u32 %l, %tid.x;
  mov.u32 %d, box;
  mad.lo.u32 %d, %l, 4, %d;
  st.shared.b32 [%d], %l;
  fence.proxy.async.shared::cta;
  bar.warp.sync -1;
  setp.eq.u32 %p, %l, 0;
  mov.b64 %m, map;
  cvta.param.u64 %m, %m;
  @%p cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%m, {0}], [box];
  @%p cp.async.bulk.commit_group;
  @%p cp.async.bulk.wait_group.read 0;
  bar.warp.sync -1;
  @%p cp.async.bulk.wait_group 0;
  bar.warp.sync -1;
  ld.param.u64 %at, [array];
  mad.wide.u32 %at, %l, 4, %at;
  ld.global.b32 %d, [%at];
  ld.param.u64 %at, [out];
  mad.wide.u32 %at, %l, 4, %at;
  st.global.b32 [%at], %d;
}
"""


def nearest(value: Fraction, kind: str) -> Fraction:
    """The nearest number of a type, to even of two; without overflow."""
    bits, least = {"f16": (11, -24), "bf16": (8, -133)}[kind]
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    exponent += abs(value) >= Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - bits, least)
    return round(value / unit) * unit


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fused_products_of_16_bits_are_rounded_once(kind: str) -> None:
    """Products in the middle of two numbers and small terms, which f32 loses; and numbers of any size."""
    numpy, digits = (np.dtype(np.float16), 10) if kind == "f16" else (to_numpy(DTYPES["bf16"]), 7)
    rng = np.random.default_rng(0)
    factor = 2 * rng.integers(2, 16, 3000) + 1
    other = (1 << digits + 1) // factor + 1 | 1  # The product is odd, of one bit more than the type has.
    small = rng.choice([-1, 1], 3000) * 2.0 ** rng.integers(-24, -16, 3000)
    sizes = [rng.normal(size=3000) * 2.0 ** rng.integers(-12, 3, 3000) for _ in range(3)]
    a, b, c = (np.concatenate(each).astype(numpy) for each in zip((factor, other, small), sizes, strict=True))
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    wanted = np.array([float(nearest(each, kind)) for each in exact])
    twice = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32).astype(numpy)
    assert np.count_nonzero(twice.astype(np.float64) != wanted) > 10
    out = np.zeros((2, 6000), numpy)
    text = f"""
.version 8.3
.target sm_90a
.address_size 64
.entry fused(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out, .param .u64 pairs)
{{
  .reg .b64 %p<5>; .reg .b32 %l, %w<4>; .reg .b16 %h<4>;
  ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [out]; ld.param.u64 %p4, [pairs];
  mov.u32 %l, %tid.x; mov.u32 %w0, %ctaid.x; mad.lo.u32 %l, %w0, 1000, %l;
  {"".join(f"mad.wide.u32 %p{n}, %l, 4, %p{n};" for n in range(5))}
  {"".join(f"ld.global.b32 %w{n}, [%p{n}];" for n in range(3))}
  fma.rn.{kind}x2 %w3, %w0, %w1, %w2; st.global.b32 [%p4], %w3;
  {"".join(f"mov.b32 {{%h{n}, _}}, %w{n};" for n in range(3))}
  fma.rn.{kind} %h3, %h0, %h1, %h2; st.global.b16 [%p3], %h3;
  {"".join(f"mov.b32 {{_, %h{n}}}, %w{n};" for n in range(3))}
  fma.rn.{kind} %h3, %h0, %h1, %h2; st.global.b16 [%p3+2], %h3;
  ret;
}}
"""
    given = [each.view(np.uint16) for each in (a, b, c, out[0], out[1])]
    EmulatedGpuKernel(ptx.translated(text).llvmir, "fused")(Launch((3, 1, 1), (1000, 1, 1)), *given)
    np.testing.assert_array_equal(out.astype(np.float64), np.stack([wanted, wanted]))


@pytest.mark.parametrize(
    ("atomic", "expected"),
    [
        ("mov.b32 %x, 0f3F800000; atom.global.add.v2.f32 {%x, %y}, [%w+128], {%x, %x};", (3, 5, 2, 4)),
        ("mov.b32 %x, 0f3F800000; atom.global.add.v2.f32 {%y, %x}, [%w+128], {%x, %x};", (3, 5, 4, 2)),
    ],
)
def test_results_that_are_operands_of_further_elements(atomic: str, expected: tuple[float, ...]) -> None:
    """What an element leaves behind is written when all operands have been read."""
    body = f"""
      mad.wide.u32 %w, %l, 4, %to1; st.global.v2.f32 [%w+128], {{0f40000000, 0f40800000}}; {atomic}
      ld.global.v2.b32 {{%a, %b}}, [%w+128]; st.global.b32 [%to1+384], %x; st.global.b32 [%to1+512], %y; mov.b32 %d, %l;
    """
    a, out = np.arange(LANES, dtype=np.uint32), np.zeros(5 * LANES, np.uint32)
    run(kernel_of(body), "rows", LANES, a, a, out, np.uint32(0))
    pairs, x, y = np.split(out[LANES:].view(np.float32), [2 * LANES, 3 * LANES])
    assert np.unique(np.stack([pairs[::2], pairs[1::2], x, y]), axis=1).T.tolist() == [list(map(float, expected))]


def test_a_bulk_store_is_complete_behind_a_wait_for_more_than_its_reads() -> None:
    memory, out = np.zeros(LANES + 4, np.uint32), np.zeros(LANES, np.uint32)
    array = memory[-memory.ctypes.data % 16 // 4 :][:LANES]
    map_ = TensorMap(array, (LANES,), writable=True, by_value=True)
    run(STORED, "stored", LANES, map_, array, out)
    assert (out == np.arange(LANES)).all()
    only_read = STORED.replace("  @%p cp.async.bulk.wait_group 0;\n", "")
    # A load finds what was there before; the rest is there at the kernel's end. Both a load and a store are found.
    array[:] = 99
    with pytest.raises(EmulationError, match=r"unwaited: .* nobody has waited for more than its reads"):
        run(only_read, "stored", LANES, map_, array, out)
    assert (out == 99).all()
    assert (array == np.arange(LANES)).all()
    with pytest.raises(EmulationError, match="touches global memory that a bulk store"):
        run(only_read.replace("ld.global.b32 %d, [%at];", "st.global.b32 [%at], 1;"), "stored", LANES, map_, array, out)


def test_padding_of_a_stored_box_is_not_read() -> None:
    """A box wider than its tensor: what lies outside need not have been written."""
    memory, out = np.zeros(LANES + 4, np.uint32), np.zeros(LANES, np.uint32)
    array = memory[-memory.ctypes.data % 16 // 4 :][:LANES]
    text = STORED.replace("box[128]", "box[160]")
    run(text, "stored", LANES, TensorMap(array, (LANES + 8,), writable=True, by_value=True), array, out)
    assert (out == np.arange(LANES)).all()


def test_findings_that_are_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "k.ptx")
    Path(file).write_text(kernel_of(EXCHANGED.replace("BARRIER", "")))
    assert main(["emulate", file, *GIVEN, "--allow", "race"]) == 1
    assert "unwritten: " in capsys.readouterr().out
    assert main(["emulate", file, *GIVEN, "--allow", "race", "--allow", "unwritten"]) == 0


def test_a_block_is_as_the_kernel_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ptx").write_text(kernel_of("mov.u32 %d, 0;"))
    assert main(["emulate", str(tmp_path / "k.ptx"), *GIVEN, "--block", "64"]) == 2
    assert "--block 32,1,1" in capsys.readouterr().err
    (tmp_path / "k.ptx").write_text(kernel_of("mov.u32 %d, 0;").replace(".reqntid 32", ".reqnctapercluster 2, 1, 1"))
    assert main(["emulate", str(tmp_path / "k.ptx"), *GIVEN, "--cluster", "4", "--grid", "4"]) == 2
    assert "--cluster 2,1,1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (".entry f() { }", "no .version"),
        (
            ".version 8.0\n.entry f() {\n frobnicate.u32 %r1;\n}",
            "line 3 of the PTX: the emulator does not read frobnicate.u32",
        ),
        (".version 8.0\n.entry f() {\n mov.u32 %r1, 0;\n}", "no register %r1"),
        (".version 8.0\n.entry f() {\n .reg .b32 %r1;\n mov.u32 %r1, x;\n}", "no register, number or variable x"),
        (".version 8.0\n.entry f() {\n bra L;\n}", "no label L"),
        (".version 8.0\n.entry f() {\n ret;\n", "a function without an end"),
        (".version 8.0\n.entry f() {\n ret\n}", "a statement without an end"),
        (".version 8.0\nhello;", "cannot read 'hello'"),
        (".version 8.0\n.entry f() {\n .reg .b32 %r1;\n ld.u32 %r1, %r1;\n}", "needs an address"),
        (".version 8.0\n.shared .foo x[4];", "x is of type foo"),
        (".version 8.0\n.shared .b32 x;\n.shared .b32 x;", "line 3 of the PTX: x is defined twice"),
        (".version 8.0\n.func f() {\n ret;\n}\n.entry f() {\n ret;\n}", "line 5 of the PTX: f is defined twice"),
        (
            ".version 8.0\n.func g(.param .b32 x) {\n ret;\n}\n.entry f() {\n call g;\n}",
            "with 0 results and arguments, which has 1",
        ),
        (".version 8.0\n.global .f32 x[1] = {1, 2};\n.entry f() { ret; }", "x has 2 first values"),
        (
            ".version 8.0\n.param .b32 x;\n.entry f() { ret; }",
            "line 2 of the PTX: x of the space .param is in no function",
        ),
        (".version 8.0\n.shared .align 12 .b32 x;\n.entry f() { ret; }", "line 2 of the PTX: x is aligned to 12 bytes"),
        (".version 8.0\n.func g() {\n exit;\n}", "does not read exit"),
        *(
            (
                f".version 8.0\n.func (.param .b32 y) g(.param .b8 x[400]) {{\n ret;\n}}\n.entry f(.param .u32 place) {{\n"
                f" .reg .b32 %r<2>;\n .local .b32 own[2];\n .param .b32 given;\n .param .b8 wide[400];\n {each}\n}}",
                f"line 10 of the PTX: {said}",
            )
            for each, said in {
                "ld.param.b32 %r1, [place+400];": "ld.param.b32 accesses 4 bytes at 400 of place, which has 4",
                "ld.param.b32 %r1, [place-100000];": "ld.param.b32 accesses 4 bytes at -100000 of place",
                "ld.param.b16 %r1, [place+3];": "ld.param.b16 accesses 2 bytes at 3 of place",
                "ld.param.v2.b32 {%r1, %r0}, [place];": "ld.param.v2.b32 accesses 8 bytes at 0 of place",
                "st.param.b32 [given+4], %r1;": "st.param.b32 accesses 4 bytes at 4 of given",
                "st.local.v2.b32 [own+4], {%r1, %r1};": "st.local.v2.b32 accesses 8 bytes at 4 of own",
                "atom.add.u32 %r1, [own+8], 1;": "atom.add.u32 accesses 4 bytes at 8 of own",
                "call (given), g, (given);": "it calls g with a result that is an operand too",
                "{ .param .b32 one; call (one), g, (given); }": "call accesses 400 bytes at 0 of given, which has 4",
            }.items()
        ),
        *(
            (
                f".version 8.0\n.entry f() {{\n .reg .b32 %r<3>;\n .reg .b64 %d<2>;\n {each}\n}}",
                f"line 5 of the PTX: {said}",
            )
            for each, said in {
                "add.u32 %r1, %r2;": "add.u32 has operands or suffixes that are not read",
                "bra;": "bra has operands or suffixes that are not read",
                "ld.u32 %r1, [%d1+foo];": "cannot read the address [%d1+foo]",
                "ld.global.v4.b32 {%r1, %r2}, [%d1];": "ld.global.v4.b32 gives 4 elements to 2 registers",
                "st.global.v2.b32 [%d1], {%r1, %r1, %r1, %r1};": "st.global.v2.b32 takes 2 elements, not 4",
                "st.async.b32 [%d1], %r1, [%d1];": "the emulator does not read st.async.b32",
                "add.rp.f32 %r1, %r1, %r2;": "the emulator does not read add.rp.f32",
                "mad.lo.cc.u32 %r1, %r1, %r2, %r2;": "the emulator does not read mad.lo.cc.u32",
                "max.relu.s32 %r1, %r1, %r2;": "the emulator does not read max.relu.s32",
                "cvt.rz.f32.u32 %r1, %r2;": "the emulator does not read cvt.rz.f32.u32",
                "cvt.rn.satfinite.relu.e4m3x2.f32 %r1, %r1, %r2;": "the emulator does not read cvt.rn.satfinite.relu.e4m3x2.f32",
                "lop3.or.b32 %r1, %r1, %r2, %r2, 1;": "the emulator does not read lop3.or.b32, for its suffix .or",
                "redux.sync.max.NaN.f32 %r1, %r2, -1;": "the emulator does not read redux.sync.max.NaN.f32, for its suffix .NaN",
                "setp.lt.u16x2 %r1, %r2, %r2;": "the emulator does not read setp.lt.u16x2",
                "mbarrier.arrive.relaxed.cta.b64 %d1, [%d1];": "the emulator does not read mbarrier.arrive.relaxed",
                "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1};": "the emulator does not read mma.sync",
                "mov.b32 %r1, 0d7FEFFFFFFFFFFFFF;": "no register, number or variable 0d7FEFFFFFFFFFFFFF",
                "mov.b32 %r1, 1e39;": "no register, number or variable 1e39",
                "mov.b32 {}, %r1;": "braces without an operand",
                "add.u32 %r1, !%p1, 1;": "add.u32 cannot take !%p1",
                ".reg .b32 %many<99999999999>;": "more than 1048576 registers",
                "bar.red.popc.u32 %r1, 0, %r2;": "the emulator does not read bar.red.popc.u32, for its suffix .red",
                "call nosuch;": "it calls nosuch, of which the module has no definition",
                "end: bra end; end: ret;": "the label end stands in this scope twice",
            }.items()
        ),
    ],
)
def test_what_is_no_ptx(text: str, words: str) -> None:
    with pytest.raises(LoweringError) as error:
        ptx.translated(text)
    assert words in str(error.value)


def test_a_block_has_no_more_threads_than_a_chip_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(".version 8.0\n.visible .entry k() { ret; }")
    assert main(["emulate", str(file), "--block", "32,32"]) == 0
    assert main(["emulate", str(file), "--block", "33,32"]) == 2
    assert "a block of 1056 threads; expected 1024 at most" in capsys.readouterr().err
