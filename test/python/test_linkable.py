# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as files: several in one program, for any target, from Python and from the shell."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from processes import in_new_process
from test_kernel_epilogues import dltensor
from tilewright.cli import main
from tilewright.errors import SpecError, TargetError, TilewrightError, UnverifiedWarning
from tilewright.payload.abi import OUT_OF_MEMORY
from tilewright.targets import host

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


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_functions_of_two_modules_are_called_after_their_names(place):
    module = tw.compile_module(TWO)
    for name in ("one", "another"):
        module.write(f"{name}.o", name=name)
        module.write(f"{name}.h", name=name)
    module.write("plain.h")
    assert "int32_t mine(" in (place / "plain.h").read_text()
    (place / "use.c").write_text("""
        #include "one.h"
        #include "another.h"
        int main(void) { return one_mine == another_mine || one_other == another_other; }
    """)
    done = compiler("-Wall", "-Werror", "use.c", "one.o", "another.o", "-o", "use")
    assert done.returncode == 0, done.stderr


def test_a_kernel_of_a_gpu_keeps_its_name(capsys, place):
    assert main(["compile", "--shape", "16x16x16", "--target", "sm_80", "--name", "mine", "-o", "k.ptx"]) == 2
    assert "a GPU's code is loaded, not linked" in capsys.readouterr().err
    kernel = tw.compile(tw.MatmulSpec(m=16, n=16, k=16), target=tw.targets.gpu("sm_80").emulated())
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


def of_another_machine(monkeypatch):
    """Makes this machine one of few features."""
    monkeypatch.setattr(host, "machine", lambda: ("x86_64", frozenset({"fpu", "sse2"})))


@pytest.mark.parametrize("packed", [False, True])
def test_a_kernel_for_another_machine_is_all_but_called(place, monkeypatch, packed):
    of_another_machine(monkeypatch)
    a = np.ones((4, 4), np.float32)
    for _ in range(2):  # The second one comes from the cache.
        kernel = tw.compile(tw.MatmulSpec(m=4, n=4, k=4, b_packed=packed), target="sapphirerapids")
        for call in ("__call__", "pack_b"):
            with pytest.raises(TargetError, match="this machine cannot run code for sapphirerapids: it lacks amx-bf16"):
                getattr(kernel, call)(a)
        with pytest.raises(TargetError, match="cannot run code for sapphirerapids"):
            _ = kernel.c_function
        assert "matmul:" in kernel.asm["asm"]
        assert kernel.metadata.emulator == ""
        assert (kernel.packed_format is not None) == packed
        assert repr(kernel).startswith("<tilewright.Kernel 4x4x4 f32 nn")
        kernel.write("k.o", name="mine")
        kernel.write("k.h", name="mine")
    assert (place / "k.o").read_bytes().startswith(b"\x7fELF")


def test_an_operator_for_another_machine_is_all_but_called(place, monkeypatch):
    of_another_machine(monkeypatch)
    kernel = tw.compile(tw.Conv2dSpec(1, 6, 6, 3, oc=4, kh=3, kw=3), target="x86-64-v4")
    a = np.ones((4, 4), np.float32)
    for call in (lambda: kernel(a, a), lambda: kernel.pack("w", a), lambda: kernel.c_function):
        with pytest.raises(TargetError, match="this machine cannot run code for x86-64-v4: it lacks"):
            call()
    kernel.write("k.o", name="mine")
    assert (place / "k.o").read_bytes().startswith(b"\x7fELF")


def test_what_cannot_run_here_is_not_verified_but_said(monkeypatch):
    of_another_machine(monkeypatch)
    with pytest.warns(UnverifiedWarning, match="cannot run code for x86-64-v4"):
        tw.compile(tw.MatmulSpec(m=4, n=4, k=4), target="x86-64-v4", verify=True)


def test_run_says_that_this_machine_cannot(capsys, monkeypatch):
    of_another_machine(monkeypatch)
    assert main(["run", "--shape", "4x4x4", "--target", "x86-64-v4"]) == 2
    assert "this machine cannot run code for x86-64-v4" in capsys.readouterr().err


@pytest.mark.skipif(LINKER is None, reason="no lld")
def test_a_shared_library_for_another_architecture(place):
    tw.compile(tw.MatmulSpec(m=4, n=4, k=4), target="neoverse-n1").write("k.so", name="mine")
    aarch64 = 183
    assert int.from_bytes((place / "k.so").read_bytes()[18:20], "little") == aarch64


DYNAMIC = {
    "scratch_of_rows": tw.MatmulSpec(m=None, n=16, k=tw.Dim(max=64), epilogue=(tw.bias("n"), tw.softmax())),
    "scratch_of_sums": tw.MatmulSpec(m=None, n=16, k=tw.Dim(max=64), epilogue=(tw.bias("n"), tw.gelu())),
    "any_sum": tw.MatmulSpec(m=8, n=16, k=None, epilogue=(tw.bias("n"), tw.relu())),
}


@pytest.mark.skipif(CC is None or LINKER is None, reason="no C compiler, or no lld")
def test_kernels_of_dynamic_extents_need_the_c_library_alone(place):
    a, b, bias = np.ones((8, 24), np.float32), np.ones((24, 16), np.float32), np.arange(16, dtype=np.float32)
    for name, spec in DYNAMIC.items():
        kernel = tw.compile(spec)
        kernel.write(f"{name}.o", name=name)
        kernel.write(f"{name}.so", name=name)
        c = np.zeros((8, 16), np.float32)
        entry = ctypes.CDLL(str(place / f"{name}.so"), mode=os.RTLD_NOW)[name]
        assert entry(*(ctypes.byref(dltensor(each)) for each in (a, b, bias, c))) == 0
        np.testing.assert_allclose(c, tw.reference(spec, a, b, bias), rtol=1e-5, atol=1e-7)
    done = compiler("-shared", "-Wl,--no-undefined", *(f"{name}.o" for name in DYNAMIC), "-lm", "-o", "all.so")
    assert done.returncode == 0, done.stderr


def test_scratch_memory_of_any_size_is_refused_where_there_is_none(place):
    """Where K is 0, all rows of the sums are made before the softmax."""
    name = "scratch_of_rows"
    tw.compile(DYNAMIC[name]).write(f"{name}.so", name=name)
    status = in_new_process(f"""
        import ctypes, resource, sys
        sys.path.append({str(Path(__file__).parent)!r})
        import numpy as np
        from test_kernel_epilogues import dltensor
        entry = ctypes.CDLL({str(place / name)!r} + ".so")[{name!r}]
        resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
        rows, small = 2**31 - 1, np.ones((1, 16), np.float32)
        shapes = ((rows, 0), (0, 16), (16,), (rows, 16))
        print(entry(*(ctypes.byref(dltensor(small, shape=each, ndim=len(each), strides=None)) for each in shapes)))
    """)
    assert int(status) == OUT_OF_MEMORY
