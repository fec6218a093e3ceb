# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configures and builds the C++ part, into build/ and into the Python package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from common import BUILD, LLVM_MAJOR, ROOT, VENV_PYTHON, SetupError, run, say
from llvm import LLVM

STAMP = BUILD / "configured-with"


def build(llvm: LLVM, sources: Path | None) -> None:
    """Builds everything that is out of date.

    Raises:
        SetupError: CMake or the compiler failed; their output has been printed.
    """
    command = _configure_command(llvm, sources)
    wanted = "\n".join(command)
    if not STAMP.exists() or STAMP.read_text(encoding="utf-8") != wanted:
        # CMake keeps what it once found: another compiler or LLVM needs a fresh start. ccache makes that cheap.
        for leftover in (BUILD / "CMakeCache.txt", BUILD / "CMakeFiles"):
            if leftover.is_dir():
                shutil.rmtree(leftover)
            else:
                leftover.unlink(missing_ok=True)
        say("configuring")
        run(command, what="CMake")
        STAMP.write_text(wanted, encoding="utf-8")
    say("building")
    jobs = len(os.sched_getaffinity(0))
    run(["cmake", "--build", BUILD, "--parallel", str(jobs), *_quiet()], what="the build")
    # The generated bindings are large: compiled to bytecode at every start they take longer than a kernel does.
    run(
        [VENV_PYTHON, "-I", "-m", "compileall", "-q", ROOT / "python" / "tilewright" / "mlir"],
        what="compiling the bindings",
    )


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


def _quiet() -> list[str]:
    """Makes Ninja print one line instead of one a file."""
    uses_ninja = (BUILD / "build.ninja").exists()
    if not uses_ninja and not (BUILD / "Makefile").exists():
        raise SetupError(f"{BUILD} is not configured")
    return ["--", "--quiet"] if uses_ninja else []
