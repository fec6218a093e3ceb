# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What set-up tells while it works, and how one checkout takes what another one built."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "setup"))

import common
import llvm
import native
import ready
from progress import Progress

COMMAND = ["cmake", "-S", str(common.ROOT), "-DCMAKE_BUILD_TYPE=Release"]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def told(stream: io.StringIO, lines: list[tuple[float, str]], *, passed: bool = True) -> str:
    """What a step tells that prints each line at its second, and ends a second after the last."""
    clock = Clock()
    step = Progress("building", stream, clock)
    for clock.seconds, line in lines:
        step.heard(line)
        step.tell()
    clock.seconds += 1
    if not passed:
        step.fail()
    step._ticker.start()
    step.__exit__(None)
    return stream.getvalue()


def test_a_line_now_and_then_where_there_is_no_terminal():
    printed = told(io.StringIO(), [(s, f"[{s}/50] Building CXX object x.o\n") for s in range(50)])
    assert printed.splitlines() == [
        "setup: building, 1 of 50, 1 s",
        "setup: building, 21 of 50, 21 s",
        "setup: building, 41 of 50, 41 s",
        "setup: building: done in 50 s",
    ]


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    printed = told(Terminal(), [(0, "[1/4] a"), (2, "[ 50%] b"), (3, "[3/4] c")])
    assert printed.split("\r\033[K") == [
        "",
        "setup: building, [############............] 50 of 100, 2 s",
        "setup: building, [##################......] 3 of 4, 3 s",
        "setup: building: done in 4 s\n",
    ]


def test_a_line_is_no_wider_than_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    printed = told(Terminal(), [(2, "Collecting a-package-with-a-long-name>=1.2.3")])
    assert max(map(len, printed.replace("\033[K", "").split("\r"))) == 29


def test_what_counts_nothing_tells_what_it_printed_last():
    printed = told(io.StringIO(), [(1, "Collecting numpy\n"), (2, "\n"), (30, "")], passed=False)
    assert printed.splitlines() == [
        "setup: building, 1 s: Collecting numpy",
        "setup: building, 30 s: Collecting numpy",
        "setup: building: failed after 31 s",
    ]


def test_a_quick_step_says_nothing():
    assert told(io.StringIO(), [(-0.5, "[1/1] x")]) == ""


def test_a_silent_step_is_told_of_too(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(common, "LOG", tmp_path / "build" / "setup.log")
    common.run([sys.executable, "-I", "-c", "import time; time.sleep(1.5)"], what="waiting")
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[0][:16] for line in lines] == ["setup: waiting, ", "setup: waiting: "]


def test_output_of_a_command_is_in_the_log_and_shown_when_it_fails(capsys, monkeypatch, tmp_path):
    log = tmp_path / "build" / "setup.log"
    monkeypatch.setattr(common, "LOG", log)
    program = "import sys; print('WARNING: noise'); sys.exit(int(sys.argv[1]))"
    common.run([sys.executable, "-I", "-c", program, "0"], what="installing")
    assert capsys.readouterr() == ("", "")
    with pytest.raises(common.SetupError, match=r"installing failed with exit status 3, see .*setup.log: .* 3$"):
        common.run([sys.executable, "-I", "-c", program, "3"], what="installing")
    assert capsys.readouterr().err == "WARNING: noise\n"
    assert log.read_text().count("WARNING: noise\n") == 2


def test_a_program_that_is_not_there_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(common, "LOG", tmp_path / "setup.log")
    with pytest.raises(common.SetupError, match="drawing: there is no program 'nosuch-program'"):
        common.run(["nosuch-program"], what="drawing")


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """Makes the set-up work in a checkout of a few files, with a cache that all share; called once for each checkout."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ready, "output", lambda command: "version 1")

    def make(name: str) -> Path:
        root = tmp_path / name
        for file in (
            "CMakeLists.txt",
            "dialect/lib/a.cpp",
            "native/runtime/b.cpp",
            "cmake/b.cmake",
            "tools/tilewright-opt/c.cpp",
        ):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(file)
        for module in (ready, native):
            monkeypatch.setattr(module, "ROOT", root)
            monkeypatch.setattr(module, "BUILD", root / "build")
            monkeypatch.setattr(module, "PACKAGE", root / "python" / "tilewright")
        monkeypatch.setattr(ready, "STAMP", root / "build" / "made-of")
        monkeypatch.setattr(ready, "_TOOLCHAIN", root / "build" / "toolchain.json")
        monkeypatch.setattr(native, "STAMP", root / "build" / "configured-with")
        (root / "python" / "tilewright").mkdir(parents=True)
        return root

    return make


def key(root: Path) -> str:
    return ready.key(["cmake", "-S", str(root), "-DX=1"], llvm.LLVM(root / "llvm", chosen=True), None)


def built(root: Path) -> Path:
    """Puts into a checkout what a build makes; the package."""
    package = root / "python" / "tilewright"
    (root / "build").mkdir()
    (root / "build" / "toolchain.json").write_text("{}")
    (root / "build" / "ir.py").write_text("x = 1")
    (package / "mlir").mkdir()
    (package / "mlir" / "ir.py").symlink_to(root / "build" / "ir.py")
    (package / "bin").mkdir()
    (package / "bin" / "tilewright-opt").write_text("program")
    (package / "bin" / "tilewright-opt").chmod(0o755)
    (package / "_codegen.so").write_text("library")
    return package


def test_another_checkout_takes_what_one_has_built(checkout):
    first = checkout("first")
    package = built(first)
    made = key(first)
    ready.keep(made)
    assert ready.is_here(made)
    second = checkout("second")
    assert key(second) == made
    assert not ready.is_here(made)
    assert ready.take(made)
    assert ready.is_here(made)
    taken = second / "python" / "tilewright"
    assert {path.relative_to(taken) for path in taken.rglob("*")} == {
        path.relative_to(package) for path in package.rglob("*")
    }
    assert not (taken / "mlir" / "ir.py").is_symlink()
    assert (taken / "mlir" / "ir.py").read_text() == "x = 1"
    assert os.access(taken / "bin" / "tilewright-opt", os.X_OK)
    assert (second / "build" / "toolchain.json").exists()


@pytest.mark.parametrize(
    "file",
    ["CMakeLists.txt", "dialect/lib/a.cpp", "native/runtime/b.cpp", "cmake/new.cmake", "tools/tilewright-opt/c.cpp"],
)
def test_other_sources_have_another_key(checkout, file):
    root = checkout("one")
    before = key(root)
    (root / file).write_text("other")
    assert key(root) != before


def test_everything_else_that_decides_is_in_the_key(checkout, monkeypatch, tmp_path):
    root = checkout("one")
    (root / "llvm" / "lib").mkdir(parents=True)
    one = llvm.LLVM(root / "llvm", chosen=True)

    def now(flag: str = "1", upstream: Path | None = None) -> str:
        return ready.key(["cmake", f"-DX={flag}"], one, upstream)

    keys = [now(), now(flag="2")]
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "x.py").write_text("")
    keys.append(now(upstream=tmp_path))
    (root / "llvm" / "lib" / "libLLVM.so").write_text("1")
    keys.append(now())
    monkeypatch.setenv("CXXFLAGS", "-g")
    keys.append(now())
    monkeypatch.setattr(ready, "output", lambda command: "version 2")
    keys.append(now())
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_archive_is_removed_and_not_taken(checkout, capsys, damage):
    first = checkout("first")
    built(first)
    made = key(first)
    ready.keep(made)
    archive = ready._archive(made)
    archive.write_bytes(archive.read_bytes()[:-20] if damage is None else damage)
    second = checkout("second")
    assert not ready.take(made)
    assert not archive.exists()
    assert "is damaged" in capsys.readouterr().out
    assert list((second / "python" / "tilewright").iterdir()) == []


def test_archives_do_not_become_more_and_more(checkout, monkeypatch):
    root = checkout("one")
    built(root)
    for number in range(7):
        ready.keep(str(number))
        os.utime(ready._archive(str(number)), (number, number))
    assert sorted(path.name for path in ready._archive("").parent.iterdir()) == [f"{n}.tar.gz" for n in (3, 4, 5, 6)]


def test_a_cache_that_cannot_be_written_is_done_without(checkout, monkeypatch, tmp_path, capsys):
    root = checkout("one")
    built(root)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    ready.keep("k")
    assert "not kept for other checkouts" in capsys.readouterr().out
    assert ready.is_here("k")


@pytest.fixture
def cmake(monkeypatch):
    """Stands in for CMake and the build, which put something into the package; the names of the steps that ran."""
    ran: list[str] = []

    def run(command, *, what, **_):
        ran.append(what)
        if what == "configuring":
            native.BUILD.mkdir(exist_ok=True)
            settings = [word[2:].replace("=", ":STRING=", 1) for word in command if word.startswith("-D")]
            (native.BUILD / "CMakeCache.txt").write_text("\n".join(settings))
        if what == "building":
            (native.PACKAGE / "mlir").mkdir(exist_ok=True)
            (native.BUILD / "toolchain.json").write_text("{}")

    monkeypatch.setattr(native, "run", run)
    return ran


def test_only_what_changed_is_built(checkout, cmake, tmp_path):
    chosen = llvm.LLVM(tmp_path / "llvm", chosen=True)
    first = checkout("first")
    native.build(chosen, None)
    assert cmake[:2] == ["configuring", "building"]
    cmake.clear()
    native.build(chosen, None)
    assert "configuring" not in cmake
    second = checkout("second")
    cmake.clear()
    native.build(chosen, None)
    native.build(chosen, None)
    assert set(cmake) == {"compiling Python's sources"}
    (second / "dialect" / "lib" / "a.cpp").write_text("other")
    cmake.clear()
    native.build(chosen, None)
    assert cmake[:2] == ["configuring", "building"]
    assert first.exists()


def test_sources_that_change_during_the_build_are_not_kept(checkout, cmake, monkeypatch, tmp_path):
    root = checkout("first")
    before = native.run

    def run(command, *, what, **_):
        before(command, what=what)
        (root / "dialect" / "lib" / "a.cpp").write_text(f"changed {time.monotonic()}")

    monkeypatch.setattr(native, "run", run)
    native.build(llvm.LLVM(tmp_path / "llvm", chosen=True), None)
    assert not ready._archive("").parent.exists()


def test_a_tree_that_was_configured_by_hand_is_not_kept(checkout, cmake, tmp_path):
    root = checkout("first")
    chosen = llvm.LLVM(tmp_path / "llvm", chosen=True)
    native.build(chosen, None)
    cached = root / "build" / "CMakeCache.txt"
    cached.write_text(cached.read_text().replace("=Release", "=RelWithDebInfo"))
    (root / "dialect" / "lib" / "a.cpp").write_text("other")
    native.build(chosen, None)
    assert len(list(ready._archive("").parent.iterdir())) == 1
