# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shared libraries: a kernel's object, linked by a linker of the machine."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tilewright.errors import LoweringError, TargetError

_LINKERS = ("ld.lld-22", "ld.lld", "clang-22", "cc", "ld")
"""Programs that link ELF for the machine they run on, best first."""


def linker() -> str:
    """The path of the linker that `link` uses.

    Raises:
        TargetError: There is none.
    """
    for name in _LINKERS:
        path = shutil.which(name)
        if path:
            return path
    raise TargetError(
        "no linker for a shared library", expected=f"one of {', '.join(_LINKERS)} on the path", remedy="Install lld"
    )


def link(object_: bytes, openmp: str = "") -> bytes:
    """The shared library of an object that was compiled with `driver.LIBC_ALLOCATOR`.

    With `openmp`, the file of an OpenMP runtime, the library needs that and finds it where it lies now: for kernels of
    several threads.

    Raises:
        TargetError: There is no linker.
        LoweringError: The linker failed.
    """
    program = linker()
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        source, result = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(object_)
        needed = [openmp, *_run_path(program, Path(openmp).parent)] if openmp else []
        command = [program, "-shared", "-o", str(result), str(source), *needed]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise LoweringError(f"{Path(program).name} failed: {run.stderr.strip()}", stage="so")
        return result.read_bytes()


def _run_path(program: str, folder: Path) -> list[str]:
    """The arguments by which a library looks for others in `folder`, for a linker or for a compiler that calls one."""
    if Path(program).name.startswith(("ld", "lld")):
        return ["-rpath", str(folder)]
    return [f"-Wl,-rpath,{folder}"]
