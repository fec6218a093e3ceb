# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Permission to use AMX: asked for once, and when it is refused the next best path serves."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tilewright as tw
from processes import in_new_process
from tilewright.emit import stages
from tilewright.schedules import make
from tilewright.targets import amx, host
from tilewright.targets.x86 import FAMILY

CLANG = shutil.which("clang-22") or shutil.which("clang")
PLAIN = frozenset({"sse2", "avx512f"})
XEON = frozenset(
    flag for flag, features in FAMILY.flags.items() if tw.targets.get("sapphirerapids").features & {*features}
)


def test_without_amx_nobody_is_asked():
    assert amx.usable(PLAIN, granted=lambda: pytest.fail("asked")) == PLAIN


def test_granted_and_refused():
    flags = PLAIN | {"amx_tile", "amx_int8", "amx_bf16"}
    assert amx.usable(flags, granted=lambda: True) == flags
    assert amx.usable(flags, granted=lambda: False) == PLAIN


def test_when_it_is_refused_the_next_best_instructions_serve():
    described = [host.describe("x86_64", amx.usable(XEON, granted=lambda g=g: g), {}) for g in (True, False)]
    assert [each.base for each in described] == ["sapphirerapids", "icelake-server"]
    assert [each.dot("bf16", "bf16").name for each in described] == ["tdpbf16ps", "vdpbf16ps"]
    assert [each.dot("u8", "i8").kind for each in described] == ["amx", "dot"]


@pytest.mark.parametrize("answer", [True, False])
def test_the_kernel_is_asked_once(monkeypatch, answer):
    asked = []
    monkeypatch.setattr(amx, "_ask", lambda: (asked.append(1), answer)[1])
    amx.permitted.cache_clear()
    try:
        assert [amx.permitted() for _ in range(3)] == [answer] * 3
        assert len(asked) == 1
    finally:
        amx.permitted.cache_clear()


def test_code_for_amx_asks_where_it_runs(monkeypatch):
    asked = []
    monkeypatch.setattr(amx, "_ask", lambda: (asked.append(1), True)[1])
    amx.permitted.cache_clear()
    try:
        amx.allow({"avx512f"})
        assert not asked
        amx.allow({"avx512f", "amx-tile"})
        assert asked
    finally:
        amx.permitted.cache_clear()


def test_a_library_asks_in_what_its_loader_runs(tmp_path):
    """Loaders run .init_array, and no .ctors."""
    spec, target = tw.MatmulSpec(64, 64, 64, a="bf16"), tw.targets.get("sapphirerapids")
    made = stages.build(spec, target, make.make(spec, target, "packed", {}), for_linking=True)
    assert b".init_array" in made.object
    assert b".ctors" not in made.object


def test_a_c_library_that_cannot_be_called_refuses(monkeypatch):
    def fail() -> bool:
        raise OSError("no C library")

    monkeypatch.setattr(amx, "_ask", fail)
    amx.permitted.cache_clear()
    assert not amx.permitted()
    amx.permitted.cache_clear()


def test_the_machine_is_read_with_permission(monkeypatch, tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags : sse2 amx_tile amx_int8\n")
    monkeypatch.setattr(host, "_CPUINFO", cpuinfo)
    for answer, expected in ((True, {"sse2", "amx_tile", "amx_int8"}), (False, {"sse2"})):
        monkeypatch.setattr(amx, "_ask", lambda answer=answer: answer)
        amx.permitted.cache_clear()
        assert host.machine.__wrapped__()[1] == expected
    amx.permitted.cache_clear()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="asks Linux on x86-64")
def test_linux_answers_in_a_process_of_its_own():
    program = """
        from tilewright.targets import amx
        print(amx._ask() == amx._ask())
    """
    assert in_new_process(program) == "True\n"


def kernel_object(target: tw.Target, folder: Path) -> Path:
    """The object of a small product of bytes, for linking."""
    spec = tw.MatmulSpec(m=32, n=32, k=64, a="i8", b="i8", c="i32")
    made = stages.build(spec, target, make.make(spec, target, "packed"), for_linking=True)
    file = folder / f"{target.name}.o"
    file.write_bytes(made.object)
    return file


@pytest.mark.skipif(CLANG is None, reason="clang, which links the object, is absent")
@pytest.mark.parametrize(("name", "expected"), [("sapphirerapids", "158 4131 18\n"), ("icelake-server", "")])
def test_an_object_asks_when_it_is_loaded(tmp_path, name, expected):
    main = tmp_path / "main.c"
    main.write_text(
        """
        #include <stdio.h>
        int matmul();
        int (*volatile keep)() = matmul;
        long syscall(long number, long request, long part) { return printf("%ld %ld %ld\\n", number, request, part); }
        int main(void) { return keep == 0; }
        """
    )
    program = tmp_path / "main"
    built = kernel_object(tw.targets.get(name), tmp_path)
    subprocess.run([str(CLANG), "-w", "-o", str(program), str(main), str(built)], check=True)
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == expected


def test_an_object_for_this_process_does_not_ask():
    spec = tw.MatmulSpec(m=32, n=32, k=64, a="i8", b="i8", c="i32")
    target = tw.targets.get("sapphirerapids")
    texts = stages.build(spec, target, make.make(spec, target, "packed"), until="llvmir").texts
    assert "syscall" not in texts["llvmir"]
