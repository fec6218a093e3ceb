# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright emulate``: kernels that are not ours, right and wrong ones."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tilewright.cli import main
from tilewright.payload.patch_windows import Window
from tilewright.runtime import checked_kernels

EXAMPLE = Path(__file__).parents[2] / "examples" / "29_emulate_kernel.ll"
USUAL = ("--block", "64", "--arg", "f32[64]", "--arg", "out:f32[64]")
# A block's first warp copies a box into shared memory, and all threads add it up; in a gpu.module, as compilers write it.
BOX = """
gpu.module @m {
  llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 128 : i64} : !llvm.array<128 x i8>
  llvm.mlir.global internal @bar() {addr_space = 3 : i32, alignment = 8 : i64} : !llvm.array<8 x i8>
  llvm.func @copy(%map: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>}, %out: !llvm.ptr, %scale: i32) attributes {nvvm.kernel} {
    %thread = nvvm.read.ptx.sreg.tid.x : i32
    %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
    %bar = llvm.mlir.addressof @bar : !llvm.ptr<3>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %one = llvm.mlir.constant(1 : i32) : i32
    %bytes = llvm.mlir.constant(128 : i32) : i32
    %ticks = llvm.mlir.constant(1000 : i32) : i32
    %first = llvm.icmp "eq" %thread, %zero : i32
    llvm.cond_br %first, ^init, ^ready
  ^init:
    nvvm.mbarrier.init %bar, %one : !llvm.ptr<3>, i32
    nvvm.fence.mbarrier.init
    %state = nvvm.mbarrier.arrive.expect_tx %bar, %bytes : !llvm.ptr<3>, i32 -> i64
    %cluster = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>
    nvvm.cp.async.bulk.tensor.shared.cluster.global %cluster, %map, %bar, box[%zero] : !llvm.ptr<7>, !llvm.ptr
    llvm.br ^ready
  ^ready:
    nvvm.barrier0
    WAIT
    %mine = llvm.getelementptr %tile[%thread] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i32
    %value = llvm.load %mine : !llvm.ptr<3> -> i32
    %scaled = llvm.mul %value, %scale : i32
    %at = llvm.getelementptr %out[%thread] : (!llvm.ptr, i32) -> !llvm.ptr, i32
    llvm.store %scaled, %at : i32, !llvm.ptr
    llvm.return
  }
}
"""
WAIT = "nvvm.mbarrier.try_wait.parity %bar, %zero, %ticks : !llvm.ptr<3>, i32, i32"


def without(line: str, tmp_path: Path) -> str:
    """The example without lines that have some words."""
    file = tmp_path / "broken.ll"
    file.write_text("\n".join(each for each in EXAMPLE.read_text().splitlines() if line not in each))
    return str(file)


def test_a_right_kernel_gives_its_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "in.npy", np.arange(64, dtype=np.float32))
    given = ("--block", "64", "--arg", str(tmp_path / "in.npy"), "--arg", "out:f32[64]", "--save", str(tmp_path))
    assert main(["emulate", str(EXAMPLE), *given]) == 0
    assert "neighbor: nothing wrong" in capsys.readouterr().out
    np.testing.assert_array_equal(np.load(tmp_path / "arg1.npy"), np.roll(np.arange(64), -1))


@pytest.mark.parametrize(
    ("lines", "given", "finding"),
    [
        ("call void @llvm.nvvm.barrier0", USUAL, "race: "),
        ("nothing", ("--block", "96", *USUAL[2:]), "outside: "),
        ("nothing", (*USUAL[:4], "--arg", "f32[64]"), "outside of every operand that it may write"),
        ("store float %value", USUAL, "unwritten: "),
    ],
)
def test_what_a_kernel_does_wrong_is_said(
    lines: str, given: tuple[str, ...], finding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emulate", without(lines, tmp_path), *given]) == 1
    assert finding in capsys.readouterr().out


def test_a_kernel_in_mlir_with_a_tensor_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.mlir"
    given = ("--arg", "map:i32[32]/32", "--arg", "out:i32[32]", "--arg", "i32=3", "--save", str(tmp_path))
    file.write_text(BOX.replace("WAIT", WAIT))
    assert main(["emulate", str(file), *given]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "arg1.npy"), 3 * np.random.default_rng(0).integers(0, 100, 32))
    file.write_text(BOX.replace("WAIT", ""))
    assert main(["emulate", str(file), *given]) == 1
    assert "which nobody has written" in capsys.readouterr().out


def test_a_kernel_that_never_ends_is_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = EXAMPLE.read_text().replace("  ret void", "  br label %forever\nforever:\n  br label %forever")
    (tmp_path / "k.ll").write_text(text)
    assert main(["emulate", str(tmp_path / "k.ll"), *USUAL, "--seconds", "5"]) == 1
    assert "took more than 5 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--arg", "f32"), "'f32' is no argument"),
        (("--arg", "f33[4]"), "no element type"),
        (("--arg", "f32[4x0]"), "an extent that is none"),
        (("--arg", "map:f32[4x4]"), "a tensor map has a box"),
        (("--arg", "map:f32[4x4]/4x4/0/0x0/0x0/1x1"), "a map of images has 4 axes"),
        (("--arg", "map:f32[1x4x4x4]/4x4/0/0x0/0x0/0x1"), "steps from 1 to 8"),
        (("--arg", "map:f32[1x4x4x4]/4x4/0/3x0/-2x0/1x1"), "with a pixel between them"),
        (("--arg", "map:f32[1x4x4x4]/4x4/0/0x0/0x0"), "is no argument"),
        (("--grid", "0"), "'0' is no size"),
        (("--kernel", "other"), "no kernel other"),
    ],
)
def test_bad_input_is_one_line(given: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", str(EXAMPLE), *given]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


PTX = ".version 8.0\n.entry k(.param .u64 a, .param .u32 n, .param .align 4 .b8 c[12]) { ret; }"
IR = "define ptx_kernel void @k(ptr %a, i32 %n, ptr byval([12 x i8]) %c) {\n  ret void\n}"
MLIR = """
llvm.func @k(%a: !llvm.ptr, %n: i32, %c: !llvm.ptr {llvm.byval = !llvm.array<12 x i8>}) attributes {nvvm.kernel} {
  llvm.return
}
"""


@pytest.mark.parametrize(("suffix", "text"), [("ptx", PTX), ("ll", IR), ("mlir", MLIR)])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "it is given 0 arguments;"),
        (("f32[4]", "i32=4"), "2 arguments: a pointer to float32[4] of 8 bytes, a number int32 of 4 bytes;"),
        (("f32[4]", "i32=4", "f32[4]", "i32=4"), "it is given 4 arguments"),
        (("f32[4]", "i64=4", "f32[4]"), "a number int64 of 8 bytes"),
        (("f32[4]", "i32=4", "map:f32[4x4]/4x4"), "a tensor map of 128 bytes"),
    ],
)
def test_arguments_that_are_not_the_parameters(
    suffix: str, text: str, given: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"k.{suffix}"
    file.write_text(text)
    assert main(["emulate", str(file), *(part for each in given for part in ("--arg", each))]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "kernel k: " in error
    assert "expected 3 parameters of 8, 4, 12 bytes" in error
    assert "Give an argument (--arg) for each parameter" in error


def test_files_that_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text, words in (
        ("k.ptx", ".version 8.0\n.entry f() {\n  dance;\n}", "line 3 of the PTX: the emulator does not read dance"),
        ("k.cu", "", "does not read .cu"),
        ("k.ll", "define void @f() {", "there are 0 kernels"),
        ("g.ll", "define ptx_kernel void @f() {", "emulation"),
        ("k.mlir", "not MLIR", "reading k.mlir"),
    ):
        (tmp_path / name).write_text(text)
        assert main(["emulate", str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err


CUDA = """
typedef __attribute__((address_space(3))) float Shared;
static Shared tile[2][16][17];
__attribute__((device_kernel)) void product(const float *a, const float *b, float *c, int n) {
  int x = __nvvm_read_ptx_sreg_tid_x(), y = __nvvm_read_ptx_sreg_tid_y();
  int row = __nvvm_read_ptx_sreg_ctaid_y() * 16 + y, column = __nvvm_read_ptx_sreg_ctaid_x() * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile[0][y][x] = row < n && k + x < n ? a[row * n + k + x] : 0;
    tile[1][y][x] = k + y < n && column < n ? b[(k + y) * n + column] : 0;
    __syncthreads();
    for (int i = 0; i < 16; ++i)
      sum += tile[0][y][i] * tile[1][i][x];
    AGAIN
  }
  if (row < n && column < n)
    c[row * n + column] = sum;
}
"""


@pytest.mark.skipif(shutil.which("clang-22") is None, reason="there is no clang-22")
def test_a_kernel_by_clang(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tiled product in C, as anyone has written one; without its second barrier, tiles are overwritten too early."""
    for again in ("__syncthreads();", ""):
        (tmp_path / "k.c").write_text(CUDA.replace("AGAIN", again).replace("__syncthreads()", "__nvvm_bar_sync(0)"))
        words = ["clang-22", "--target=nvptx64-nvidia-cuda", "-march=sm_80", "-O2", "-S", "-emit-llvm", "-nogpulib"]
        subprocess.run([*words, "-o", tmp_path / "k.ll", tmp_path / "k.c"], check=True)
        given = [
            "--grid",
            "2,2",
            "--block",
            "16,16",
            "--arg",
            "f32[20x20]",
            "--arg",
            "f32[20x20]",
            "--arg",
            "out:f32[20x20]",
        ]
        status = main(["emulate", str(tmp_path / "k.ll"), *given, "--arg", "i32=20", "--save", str(tmp_path)])
        said = capsys.readouterr().out
        assert (status, "race" in said) == ((0, False) if again else (1, True)), said
        if again:
            a, b = (np.random.default_rng(number).uniform(-1, 1, (20, 20)).astype(np.float32) for number in (0, 1))
            np.testing.assert_allclose(np.load(tmp_path / "arg2.npy"), a @ b, atol=1e-5)


INLINE_PTX = """
typedef __attribute__((address_space(3))) unsigned short Shared;
static __attribute__((aligned(16))) Shared tiles[2][16][16];
static unsigned place(Shared *at) { return (unsigned)(unsigned long)at; }
__attribute__((device_kernel)) void product(const unsigned short *a, const unsigned short *b, float *c) {
  int lane = __nvvm_read_ptx_sreg_tid_x(), row = lane % 16, half = lane / 16;
  for (int i = 0; i < 2; ++i)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(place(&tiles[i][row][8 * half])), "l"((i ? b : a) + 16 * row + 8 * half));
  asm volatile("cp.async.commit_group;\\n\\tWAIT" ::: "memory");
  __nvvm_bar_warp_sync(-1);
  unsigned x[4], y[4];
  float sums[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place(&tiles[0][row][8 * half])));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(place(&tiles[1][row][8 * half])));
  for (int n = 0; n < 2; ++n) {
    asm volatile("{ .reg .f32 z; mov.f32 z, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
                 " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {z,z,z,z}; }"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * n]), "r"(y[2 * n + 1]));
    for (int i = 0; i < 4; ++i)
      c[(lane / 4 + i / 2 * 8) * 16 + 8 * n + lane % 4 * 2 + i % 2] = sums[i];
  }
}
"""


@pytest.mark.skipif(shutil.which("clang-22") is None, reason="there is no clang-22")
def test_inline_ptx_with_addresses_of_32_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A product on tensor cores, as CUDA C++ is written by hand, through clang to PTX."""
    for wait in ("cp.async.wait_group 0;", ""):
        (tmp_path / "k.c").write_text(INLINE_PTX.replace("WAIT", wait))
        words = ["clang-22", "--target=nvptx64-nvidia-cuda", "-march=sm_80", "-O2", "-S", "-nogpulib"]
        subprocess.run([*words, "-o", tmp_path / "k.ptx", tmp_path / "k.c"], check=True)
        given = [*("--arg", "f16[16x16]") * 2, "--arg", "out:f32[16x16]", "--save", str(tmp_path)]
        status = main(["emulate", str(tmp_path / "k.ptx"), *given])
        said = capsys.readouterr().out
        assert (status, "unwritten" in said) == ((0, False) if wait else (1, True)), said
        if wait:
            a, b = (np.random.default_rng(number).uniform(-1, 1, (16, 16)).astype(np.float16) for number in (0, 1))
            exact = a.astype(np.float64) @ b.astype(np.float64)
            np.testing.assert_allclose(np.load(tmp_path / "arg2.npy"), exact, atol=1e-5)


def test_arguments_in_words() -> None:
    found = checked_kernels.argument("inout:map:bf16[128x64]/64x64/128")
    assert (found.shape, found.box, found.swizzle, found.written, found.drawn) == ((128, 64), (64, 64), 128, True, True)
    found = checked_kernels.argument("map:bf16[2x5x6x64]/32x64/128/-1x-2/0x-1/2x1")
    assert (found.shape, found.box) == ((2, 5, 6, 64), (32, 64))
    assert found.window == Window((5, 6, 64), (1920, 384, 64), (-1, -2), (0, -1), (2, 1))


PATCHES = """
.version 8.3
.target sm_90a
.address_size 64
.shared .align 128 .b8 box[128];
.shared .align 8 .b8 bar[8];
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %l, %d;
  .reg .b64 %m, %at;
  mov.u32 %l, %tid.x;
  setp.eq.u32 %p, %l, 0;
  @%p mbarrier.init.shared.b64 [bar], 1;
  fence.mbarrier_init.release.cluster;
  bar.sync 0;
  mov.b64 %m, map;
  cvta.param.u64 %m, %m;
  @%p mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
  @%p cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [box], [%m, {0, -1, 0, 0}], [bar], {1, 0};
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;
  @!%p bra WAIT;
  mov.u32 %d, box;
  mad.lo.u32 %d, %l, 4, %d;
  ld.shared.b32 %d, [%d];
  ld.param.u64 %at, [out];
  mad.wide.u32 %at, %l, 4, %at;
  st.global.b32 [%at], %d;
  ret;
}
"""


def test_patches_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A copy that a kernel in PTX makes: eight pixels of an image with a column of zeros, from the second element of a filter on."""
    (tmp_path / "k.ptx").write_text(PATCHES)
    given = ["--arg", "map:f32[1x3x4x4]/8x4/0/0x-1/0x-1/1x1", "--arg", "out:f32[8x4]", "--block", "32"]
    assert main(["emulate", str(tmp_path / "k.ptx"), *given, "--save", str(tmp_path)]) == 0, capsys.readouterr().out
    image = np.random.default_rng(0).uniform(-1, 1, (1, 3, 4, 4)).astype(np.float32)
    # The window has columns -1 to 2, which are 0 to 3 one element on.
    np.testing.assert_array_equal(np.load(tmp_path / "arg1.npy"), image[0].reshape(12, 4)[:8])


@pytest.mark.parametrize("offsets", ["", ", {1}", ", {1, 0, 2}", ", %l"])
def test_a_copy_of_patches_has_an_offset_for_each_axis_of_pixels(
    offsets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.ptx").write_text(PATCHES.replace(", {1, 0};", f"{offsets};"))
    given = ["--arg", "map:f32[1x3x4x4]/8x4/0/0x-1/0x-1/1x1", "--arg", "out:f32[8x4]", "--block", "32"]
    assert main(["emulate", str(tmp_path / "k.ptx"), *given]) == 2
    assert "line 20 of the PTX" in capsys.readouterr().err
