# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bank conflicts that the emulator counts, beside a count from the addresses alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright import ptx
from tilewright.cli import main
from tilewright.runtime.emulated_gpu import EmulatedGpuKernel, SharedCount
from tilewright.runtime.launches import Launch

BANKS, WORD, WARP = 32, 4, 32
LINES = """.version 8.3
.target sm_90a
.address_size 64
.shared .align 128 .b8 memory[16384];
.entry k() {
  .reg .pred %p;
  .reg .b32 %l, %a, %i, %r<4>;
  mov.u32 %l, %tid.x;
  mov.u32 %a, memory;
  mov.u32 %i, %l;
clear:
  mad.lo.u32 %r0, %i, 4, %a; st.shared.b32 [%r0], 0; add.u32 %i, %i, %ntid.x; setp.lt.u32 %p, %i, 4096; @%p bra clear;
  bar.sync 0;
  ADDRESS
  add.u32 %a, %a, %i;
  ACCESS
  ret;
}
"""
ACCESS_LINE = 16


def expected(bytes_: int, offset: Callable[[int], int], lanes: range = range(WARP)) -> tuple[int, int]:
    """Passes through the banks, and those without conflicts, of threads that access so many bytes each."""
    at_once = WARP * WORD // max(bytes_, WORD)
    passes = least = 0
    for first in range(0, WARP, at_once):
        threads = [lane for lane in lanes if first <= lane < first + at_once]
        words = {(offset(lane) + byte) // WORD for lane in threads for byte in range(0, bytes_, WORD)}
        passes += max((sum(word % BANKS == bank for word in words) for bank in range(BANKS)), default=0)
        least += bool(threads)
    return passes, least


def counted(address: str, access: str, threads: int = WARP) -> SharedCount:
    """What the access does, by all warps."""
    text = LINES.replace("ADDRESS", address).replace("ACCESS", access)
    counts: list[SharedCount] = []
    EmulatedGpuKernel(ptx.translated(text).llvmir, "k")(Launch((1, 1, 1), (threads, 1, 1)), counts=counts)
    (found,) = (each for each in counts if each.line == ACCESS_LINE)
    return found


VECTORS = [("b8", 1), ("b16", 2), ("b32", 4), ("b64", 8), ("v2.b32", 8), ("v4.b32", 16)]
REGISTERS = {"v2.b32": "{%r0, %r1}", "v4.b32": "{%r0, %r1, %r2, %r3}", "b64": "%w", "b16": "%h", "b8": "%h"}


@pytest.mark.parametrize(("kind", "size"), VECTORS)
@pytest.mark.parametrize("stride", [0, 1, 2, 3, 8, 32, 33])
def test_widths_and_strides(kind: str, size: int, stride: int) -> None:
    declared = "{ .reg .b64 %w; .reg .b16 %h; " + f"ld.shared.{kind} {REGISTERS.get(kind, '%r0')}, [%a]; }}"
    found = counted(f"mul.lo.u32 %i, %l, {stride * size};", declared)
    assert (found.passes, found.least) == expected(size, lambda lane: lane * stride * size)
    assert (found.name, found.executions) == ("load", 1)


@pytest.mark.parametrize(
    ("name", "matrices"), [("ldmatrix.sync.aligned.m8n8.x1", 1), ("ldmatrix.sync.aligned.m8n8.x4", 4),
                           ("stmatrix.sync.aligned.m8n8.x2", 2), ("stmatrix.sync.aligned.m8n8.x4", 4)],
)  # fmt: skip
@pytest.mark.parametrize("pitch", [16, 64, 128, 144, 272])
def test_matrices(name: str, matrices: int, pitch: int) -> None:
    registers = "{" + ", ".join(f"%r{each}" for each in range(matrices)) + "}"
    clear = "".join(f"mov.b32 %r{each}, 0; " for each in range(matrices))
    operands = f"[%a], {registers}" if name.startswith("st") else f"{registers}, [%a]"
    found = counted(f"mul.lo.u32 %i, %l, {pitch};", f"{clear}{name}.shared.b16 {operands};")
    assert (found.passes, found.least) == expected(16, lambda lane: lane * pitch, range(8 * matrices))
    assert found.name.startswith(name)


def test_a_swizzle_has_no_conflicts() -> None:
    swizzled = "mul.lo.u32 %i, %l, 128; and.b32 %r0, %l, 7; shl.b32 %r0, %r0, 4; xor.b32 %i, %i, %r0;"
    found = counted(swizzled, "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%a];")
    assert (found.passes, found.least) == (4, 4)


def test_stores_and_atomic_operations() -> None:
    assert counted("mul.lo.u32 %i, %l, 8;", "st.shared.b32 [%a], %l;").passes == 2
    assert counted("mov.u32 %i, 0;", "atom.shared.add.u32 %r0, [%a], 1;").passes == WARP
    assert counted("mul.lo.u32 %i, %l, 4;", "red.shared.add.u32 [%a], 1;").passes == 1


def test_some_threads_and_several_warps() -> None:
    some = counted("mul.lo.u32 %i, %l, 128;", "setp.lt.u32 %p, %l, 5; @%p ld.shared.b32 %r0, [%a];")
    assert (some.executions, some.passes) == (1, 5)
    several = counted("and.b32 %i, %l, 31; mul.lo.u32 %i, %i, 16;", "ld.shared.b32 %r0, [%a];", threads=96)
    assert (several.executions, several.passes, several.least) == (3, 3 * 16 // 4, 3)


def test_the_table_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = LINES.replace("ADDRESS", "mul.lo.u32 %i, %l, 8;").replace("ACCESS", "st.shared.b32 [%a], %l;")
    (tmp_path / "k.ptx").write_text(text)
    assert main(["emulate", str(tmp_path / "k.ptx"), "--banks"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [str(ACCESS_LINE), "1", "2", "1", "store"] in lines
    # Of LLVM IR, lines are those of the file.
    example = Path(__file__).parents[2] / "examples" / "29_emulate_kernel.ll"
    main(["emulate", str(example), "--banks", "--block", "64", "--arg", "f32[64]", "--arg", "out:f32[64]"])
    assert next(line for line in example.read_text().splitlines() if "store float %value" in line)
    number = 1 + example.read_text().splitlines().index("  store float %value, ptr addrspace(3) %place, align 4")
    assert [str(number), "2", "2", "0", "store"] in [line.split() for line in capsys.readouterr().out.splitlines()]
