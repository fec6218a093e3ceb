# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configures and builds the C++ part, into build/ and into the Python package, unless an equal checkout has built it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import ready
from common import BUILD, LLVM_MAJOR, PACKAGE, ROOT, VENV_PYTHON, run
from llvm import LLVM

STAMP = BUILD / "configured-with"


def build(llvm: LLVM, sources: Path | None) -> None:
    """Builds everything that is out of date, or takes it from a checkout that built the same.

    Raises:
        SetupError: CMake or the compiler failed; their output has been printed.
    """
    command = _configure_command(llvm, sources)
    wanted = ready.key(command, llvm, sources)
    has_tree = (BUILD / "CMakeCache.txt").exists()
    if has_tree or not (ready.is_here(wanted) or ready.take(wanted)):
        _make(command, fresh=not has_tree)
        # Sources that changed meanwhile, and a tree that was configured by hand, made something else.
        if not ready.is_here(wanted) and _is_as_configured(command) and ready.key(command, llvm, sources) == wanted:
            ready.keep(wanted)
    # Compiled at every start, where a process must not write what it compiled, the sources take longer than a kernel does.
    run([VENV_PYTHON, "-I", "-m", "compileall", "-q", PACKAGE], what="compiling Python's sources")


def _make(command: list[str], *, fresh: bool) -> None:
    """Configures, where that is needed, and builds what is out of date."""
    if fresh:
        ready.clear()
    wanted = "\n".join(command)
    if fresh or not STAMP.exists() or STAMP.read_text(encoding="utf-8") != wanted:
        # CMake keeps what it once found: another compiler or LLVM needs a fresh start. ccache makes that cheap.
        for leftover in (BUILD / "CMakeCache.txt", BUILD / "CMakeFiles"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)
        run(command, what="configuring")
        STAMP.write_text(wanted, encoding="utf-8")
    jobs = len(os.sched_getaffinity(0))
    run(["cmake", "--build", BUILD, "--parallel", str(jobs)], what="building", env={"NINJA_STATUS": "[%f/%t] "})


def _is_as_configured(command: list[str]) -> bool:
    """Whether the build tree has every setting of `command`."""
    text = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    has = dict(re.findall(r"^(\w+):\w+=(.*)$", text, re.MULTILINE))
    wanted = (word[len("-D") :].partition("=") for word in command if word.startswith("-D"))
    return all(has.get(name) == value for name, _, value in wanted)


def _configure_command(llvm: LLVM, sources: Path | None) -> list[str]:
    """The CMake call: the compiler that CC and CXX name, or this LLVM's clang and lld, or the system's."""
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "MLIR_DIR": str(llvm.mlir_dir),
        "Python_EXECUTABLE": str(VENV_PYTHON),
    }
    if sources is not None:
        settings["TILEWRIGHT_MLIR_PYTHON_SOURCES"] = str(sources)
    chosen = {"CMAKE_C_COMPILER": os.environ.get("CC"), "CMAKE_CXX_COMPILER": os.environ.get("CXX")}
    if any(chosen.values()):
        settings.update({name: path for name, path in chosen.items() if path})
    elif clang := _program(llvm, "clang", "clang++"):
        settings["CMAKE_C_COMPILER"], settings["CMAKE_CXX_COMPILER"] = clang
        if _program(llvm, "ld.lld"):
            settings["LLVM_USE_LINKER"] = "lld"
    ninja = shutil.which("ninja") or shutil.which(str(VENV_PYTHON.parent / "ninja"))
    if ninja:
        settings["CMAKE_MAKE_PROGRAM"] = ninja
    return [
        "cmake",
        "--log-level=WARNING",
        *("-S", str(ROOT), "-B", str(BUILD)),
        *("-G", "Ninja" if ninja else "Unix Makefiles"),
        *(f"-D{name}={value}" for name, value in settings.items()),
    ]


def _program(llvm: LLVM, *names: str) -> tuple[str, ...] | None:
    """The programs of these names of this LLVM, all or none: from its prefix, or with the version in the name."""
    found = [shutil.which(str(llvm.prefix / "bin" / n)) or shutil.which(f"{n}-{LLVM_MAJOR}") for n in names]
    return tuple(path for path in found if path) if all(found) else None
