# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as files: several in one program, for any target, from Python and from the shell."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import tilewright as tw
from tilewright.cli import main
from tilewright.errors import SpecError, TargetError, TilewrightError

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang-22")
LINKER = shutil.which("ld.lld-22") or shutil.which("ld.lld")
PROGRAM = """
#include "small.h"
#include "Small.h"
#include "packs.h"
#include "mine_too.h"
#include "conv.h"
#include "small.h"
#include <stdio.h>
int main(int argc, char **argv) {
  float a[12], b[20], c[15], packed[1024];
  for (int i = 0; i < 12; ++i) a[i] = i;
  for (int i = 0; i < 20; ++i) b[i] = 1;
  int status = small(3, 5, 4, a, 4, b, 5, c, 5);
  printf("%d %g\\n", status, c[14]);
  status = Small(3, 5, 2, a, 4, b, 5, c, 5);
  printf("%d %g\\n", status, c[14]);
  status = packs_packed_b_bytes(4, 5) <= (int64_t)sizeof packed ? packs_pack_b(4, 5, b, 5, packed) : 9;
  status += packs(3, 5, 4, a, 4, packed, 0, c, 5);
  printf("%d %g\\n", status, c[14]);
  status = mine_too(3, 5, 4, a, 4, b, 5, c, 5);
  printf("%d %g\\n", status, c[14]);
  return argc > 1 ? conv(0, 0, 0) : 0;
}
"""
MODULE = """
func.func @mine(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %c: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = linalg.matmul ins(%a, %b : tensor<3x4xf32>, tensor<4x5xf32>) outs(%c : tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
"""
TWO = MODULE + MODULE.replace("@mine", "@other")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def compiler(*arguments):
    return subprocess.run([str(CC), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_kernels_of_several_names_are_one_program(place):
    assert main(["compile", "--shape", "3x5x4", "--name", "small", "-o", "small.o", "--header", "small.h"]) == 0
    assert main(["compile", "--shape", "3x5x2", "--name", "Small", "-o", "Small2.o", "--header", "Small.h"]) == 0
    (place / "m.mlir").write_text(MODULE)
    assert main(["compile", "m.mlir", "--name", "mine_too", "-o", "mine_too.o", "--header", "mine_too.h"]) == 0
    packs = tw.compile(tw.MatmulSpec(m=3, n=5, k=4, b_packed=True))
    conv = tw.compile(tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3))
    for kernel, name in ((packs, "packs"), (conv, "conv")):
        for suffix in ("o", "h"):
            kernel.write(f"{name}.{suffix}", name=name)
    (place / "main.c").write_text(PROGRAM)
    objects = ["small.o", "Small2.o", "packs.o", "mine_too.o", "conv.o"]
    done = compiler("-Wall", "-Werror", "main.c", *objects, "-lm", "-o", "main")
    assert done.returncode == 0, done.stderr
    run = subprocess.run([str(place / "main")], capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert run.stdout.splitlines() == ["0 38", "0 17", "0 38", "0 76"]


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_headers_of_two_kernels_of_one_name_do_not_compile(place):
    assert main(["compile", "--shape", "3x5x4", "-o", "a.h"]) == 0
    assert main(["compile", "--shape", "3x5x2", "-o", "b.h"]) == 0
    (place / "use.c").write_text('#include "a.h"\n#include "b.h"\n')
    done = compiler("-fsyntax-only", "use.c")
    assert done.returncode != 0
    assert "two kernels are called matmul" in done.stderr
    (place / "use.c").write_text('#include "a.h"\n#include "a.h"\n')
    assert compiler("-fsyntax-only", "use.c").returncode == 0


@pytest.mark.parametrize("name", ["", "a-b", "1st", "int", "class", "main", "_x", "é", "a\n", "a b"])
def test_a_name_has_to_be_one_in_c(capsys, place, name):
    assert main(["compile", "--shape", "3x5x4", "--name", name, "-o", "k.o"]) == 2
    assert "is no name of an entry; expected a C identifier" in capsys.readouterr().err
    assert list(place.glob("k.*")) == []


def test_one_name_is_for_one_function(capsys, place):
    (place / "two.mlir").write_text(TWO)
    assert main(["compile", "two.mlir", "--name", "one", "-o", "two.o"]) == 2
    assert "one name, one, for 2 functions" in capsys.readouterr().err
    with pytest.raises(SpecError, match="one name, one, for 2 functions"):
        tw.compile_module(TWO).write("two.h", name="one")
    tw.compile_module(TWO).write("two.h")
    assert "mine(" in (place / "two.h").read_text()


def test_a_kernel_of_a_gpu_keeps_its_name(capsys, place):
    assert main(["compile", "--shape", "16x16x16", "--target", "sm_80", "--name", "mine", "-o", "k.ptx"]) == 2
    assert "a GPU's code is loaded, not linked" in capsys.readouterr().err
    kernel = tw.compile(tw.MatmulSpec(m=16, n=16, k=16), target="sm_80", device="emulated")
    with pytest.raises(SpecError, match="loaded, not linked"):
        kernel.write("k.ptx", name="mine")
    kernel.write("k.ptx")
    assert ".visible .entry matmul" in (place / "k.ptx").read_text()


@pytest.mark.parametrize(
    ("suffix", "holds"),
    [(".mlir", b"func.func"), (".ll", b"define"), (".s", b"mine:"), (".h", b"int32_t mine("), (".o", b"\x7fELF")],
)
def test_python_writes_what_the_shell_writes(place, suffix, holds):
    tw.compile(tw.MatmulSpec(m=3, n=5, k=4)).write(place / f"python{suffix}", name="mine")
    assert main(["compile", "--shape", "3x5x4", "--name", "mine", "-o", f"shell{suffix}"]) == 0
    written = (place / f"python{suffix}").read_bytes()
    assert holds in written
    assert written == (place / f"shell{suffix}").read_bytes()


@pytest.mark.skipif(LINKER is None, reason="no lld")
def test_a_shared_library_is_written_and_computes(place):
    tw.compile(tw.MatmulSpec(m=3, n=5, k=4)).write("k.so", name="mine")
    function = ctypes.CDLL(str(place / "k.so")).mine
    a, b, c = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.zeros((3, 5), np.float32)
    place_of = [(ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(x.shape[1])) for x in (a, b, c)]
    assert function(*map(ctypes.c_int64, (3, 5, 4)), *(each for pair in place_of for each in pair)) == 0
    assert (c == 4).all()


def test_what_cannot_be_written_is_said_and_nothing_is_left(place, monkeypatch):
    kernel = tw.compile(tw.MatmulSpec(m=3, n=5, k=4))
    with pytest.raises(SpecError, match=r"write: the suffix of 'k\.txt' says no format; expected one of \.mlir"):
        kernel.write("k.txt")
    with pytest.raises(TilewrightError, match=r"absent does not exist"):
        kernel.write("absent/k.o")
    with pytest.raises(SpecError, match="ptx of a kernel for host"):
        kernel.write("k.ptx")
    with pytest.raises(SpecError, match="is no name of an entry"):
        kernel.write("k.o", name="a-b")
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(TargetError, match=r"no linker.*Install lld"):
        kernel.write("k.so")
    assert [path.name for path in place.iterdir() if path.name != "cache"] == []
