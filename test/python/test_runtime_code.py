# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Objects become code in this process: linked quickly, never writable and executable at once, refused when damaged."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import handmade
import pytest
from tilewright._runtime import Code
from tilewright.standalone import _native


def mappings() -> list[tuple[int, int, str]]:
    """Start, end and permissions of everything that is mapped in this process."""
    rows = (line.split() for line in Path("/proc/self/maps").read_text(encoding="ascii", errors="replace").splitlines())
    return [(int(row[0].split("-")[0], 16), int(row[0].split("-")[1], 16), row[1]) for row in rows]


def permissions(address: int) -> str | None:
    return next((how for start, end, how in mappings() if start <= address < end), None)


def writable_and_executable() -> list[tuple[int, int, str]]:
    return [row for row in mappings() if "w" in row[2] and "x" in row[2]]


def test_the_entry_can_be_called():
    code = Code(
        handmade.compiled(handmade.entry("%s = add i64 %m, %lda\n%t = trunc i64 %s to i32\nret i32 %t")), "matmul"
    )
    assert code.entry == "matmul"
    longs = [ctypes.c_int64] * 3 + [ctypes.c_void_p, ctypes.c_int64] * 3
    assert ctypes.CFUNCTYPE(ctypes.c_int32, *longs)(code.address)(40, 0, 0, None, 2, None, 0, None, 0) == 42


def test_code_is_executable_and_not_writable():
    code = Code(handmade.matmul(), "matmul")
    assert permissions(code.address) == "r-xp"


def test_no_page_is_ever_writable_and_executable():
    # Linking releases the GIL, so that this thread looks while another one links.
    done = threading.Event()

    def link() -> None:
        for _ in range(500):
            Code(handmade.packing(64), "matmul")
        done.set()

    others = writable_and_executable()  # such as those of ctypes' callbacks
    linker = threading.Thread(target=link)
    linker.start()
    looks = 0
    while not done.is_set() or looks == 0:
        assert [page for page in writable_and_executable() if page not in others] == []
        looks += 1
    linker.join()


def test_code_goes_with_its_last_user():
    code = Code(handmade.matmul(), "matmul")
    address = code.address
    call = _native.MatmulCall(code, 1, 1, 1, a="float32", b="float32", c="float32")
    del code
    assert permissions(address) == "r-xp"
    del call
    assert permissions(address) != "r-xp"


def test_symbols_come_from_the_runtime_and_the_process():
    declarations = """
declare ptr @_mlir_memref_to_llvm_alloc(i64)
declare void @_mlir_memref_to_llvm_free(ptr)
declare double @fma(double, double, double)
declare ptr @memset(ptr, i32, i64)
"""
    body = """
%w = call ptr @_mlir_memref_to_llvm_alloc(i64 100)
%filled = call ptr @memset(ptr %w, i32 0, i64 100)
%x = load double, ptr %w
%y = call double @fma(double 6.0, double 7.0, double %x)
call void @_mlir_memref_to_llvm_free(ptr %w)
%s = fptosi double %y to i32
ret i32 %s
"""
    code = Code(handmade.compiled(handmade.entry(body, declarations)), "matmul")
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(code.address)() == 42


def test_an_undefined_symbol_is_named():
    ir = handmade.entry("%s = call i32 @no_such_function()\nret i32 %s", "declare i32 @no_such_function()")
    with pytest.raises(OSError, match="undefined symbols: no_such_function"):
        Code(handmade.compiled(ir), "matmul")


def test_a_missing_entry_is_named():
    with pytest.raises(ValueError, match='defines no function "gemm"'):
        Code(handmade.matmul(), "gemm")


def test_data_is_no_entry():
    with pytest.raises(ValueError, match='defines no function "matmul"'):
        Code(handmade.compiled("@matmul = global i32 7"), "matmul")


def test_an_object_for_another_machine_is_refused():
    other = (
        "aarch64-unknown-linux-gnu" if "x86" in handmade.targets.resolve("host").triple else "x86_64-unknown-linux-gnu"
    )
    foreign = handmade.compiled(handmade.matmul_ir(), other)
    with pytest.raises(ValueError, match=f"the object is for {other.split('-')[0]}.*; expected one for this machine"):
        Code(foreign, "matmul")


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\x7fELF",
        b"not an object" * 100,
        handmade.matmul()[:64],
        handmade.matmul()[:-65],
        handmade.compiled(handmade.matmul_ir(), "i386-unknown-linux-gnu"),
        handmade.compiled(handmade.matmul_ir(), "x86_64-apple-macosx"),
    ],
    ids=["empty", "magic", "text", "header", "cut", "32-bit", "Mach-O"],
)
def test_what_is_no_object_is_refused(damaged):
    with pytest.raises(ValueError, match="not an object file, or a damaged one"):
        Code(damaged, "matmul")


def test_damage_anywhere_is_an_error_and_no_crash(tmp_path):
    # In a process of its own. Objects from the cache have a checksum besides.
    (tmp_path / "sound.o").write_bytes(handmade.packing(64))
    program = """
        import random, sys
        from tilewright._runtime import Code
        sound = open(sys.argv[1], "rb").read()
        linked = refused = 0
        for seed in range(3000):
            chance = random.Random(seed)
            damaged = bytearray(sound[: chance.randrange(len(sound))] if seed % 4 == 0 else sound)
            for _ in range(0 if seed % 4 == 0 else chance.choice([1, 1, 2, 8])):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                Code(bytes(damaged), "matmul")
                linked += 1
            except (ValueError, OSError):
                refused += 1
        print(linked, refused)
    """
    run = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(program), str(tmp_path / "sound.o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    linked, refused = map(int, run.stdout.split())
    assert refused > 1000
    assert linked > 0  # where the damage does not show, as in an instruction


def test_linking_is_quick():
    object_ = handmade.packing(64)
    times = []
    for _ in range(20):
        start = time.process_time()
        Code(object_, "matmul")
        times.append(time.process_time() - start)
    assert min(times) < 2e-3


def test_a_warm_start_loads_no_mlir():
    program = "import tilewright._runtime; print('libMLIR' in open('/proc/self/maps').read())"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
