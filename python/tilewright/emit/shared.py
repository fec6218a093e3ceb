# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Links a kernel's object to a shared library or a program."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import LoweringError, TargetError
from tilewright.targets.registry import FAMILIES

_LINKERS = ("ld.lld-22", "ld.lld")
"""Programs that link ELF for any machine, best first."""
_NATIVE_LINKERS = ("clang-22", "cc", "ld")
"""Those that do for the machine they run on."""


_ELF_MACHINE = 18
"""Where an ELF file says for which machine it is."""


def linker(architecture: str = "") -> str:
    """The path of a linker for machines of `architecture`, by default this one.

    Raises:
        TargetError: There is none.
    """
    foreign = architecture not in ("", os.uname().machine)
    names = (*_LINKERS, f"{architecture}-linux-gnu-ld") if foreign else (*_LINKERS, *_NATIVE_LINKERS)
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    raise TargetError(
        f"no linker for {architecture or 'this machine'}",
        expected=f"one of {', '.join(names)} on the path",
        remedy="Install lld",
    )


def link_program(objects: Sequence[bytes], libraries: Sequence[str] = (), loader: str = "") -> bytes:
    """The executable of objects that define ``_start`` and all that they use, but for what shared `libraries` do.

    With `loader`, the path of what loads these when it runs; otherwise it is static.

    Raises:
        TargetError: There is no linker.
        LoweringError: The linker failed.
    """
    options = ["-dynamic-linker", loader, "--allow-shlib-undefined", *libraries] if loader else ["-static"]
    return _linked(objects, linker(_architecture(objects[0])), options, "program")


def link(object_: bytes, openmp: str = "") -> bytes:
    """The shared library of an object that was compiled for linking.

    With `openmp`, the file of an OpenMP runtime, the library needs that and finds it where it lies now: for kernels of
    several threads.

    Raises:
        TargetError: There is no linker.
        LoweringError: The linker failed.
    """
    program = linker(_architecture(object_))
    needed = [openmp, *_run_path(program, Path(openmp).parent)] if openmp else []
    return _linked([object_], program, ["-shared", *needed], "so")


def link_library(
    objects: Sequence[bytes],
    soname: str,
    exported: Sequence[str],
    openmp: str = "",
    *,
    version: str | None = None,
    wrapped: Sequence[str] = (),
) -> bytes:
    """The shared library of objects, which other programs see nothing of but the symbols `exported`.

    Args:
        objects: The objects, and archives of which it takes what these need.
        soname: What programs that were linked with the library call it.
        exported: The symbols.
        version: Their version, "" for none; by default it is called after the library.
        wrapped: Functions whose calls go to what the objects define as ``__wrap_NAME``.
        openmp: As for `link`.

    Raises:
        TargetError: There is no linker.
        LoweringError: The linker failed.
    """
    program = linker(_architecture(objects[0]))
    version = soname.removeprefix("lib").removesuffix(".so") if version is None else version
    script = f"{version} {{ global: {' '.join(f'{each};' for each in exported)} local: *; }};\n"
    needed = [openmp, *_run_path(program, Path(openmp).parent)] if openmp else []
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        Path(folder, "exported").write_text(script)
        named = _for_linker(program, f"--version-script={Path(folder, 'exported')}", "-soname", soname, "-z", "relro")
        named += _for_linker(program, *(f"--wrap={each}" for each in wrapped)) if wrapped else []
        return _linked(objects, program, ["-shared", *named, *needed], "so")


def code_object(object_: bytes) -> bytes:
    """The code object, which AMD's runtime loads, of an object for a GPU of AMD's.

    Raises:
        TargetError: There is no linker for it.
        LoweringError: The linker failed.
    """
    return _linked([object_], linker("amdgcn"), ["-shared"], "hsaco")


def _architecture(object_: bytes) -> str:
    """For machines of which architecture an object is; empty for one that is not known."""
    number = int.from_bytes(object_[_ELF_MACHINE : _ELF_MACHINE + 2], "little")
    return next((family.architectures[0] for family in FAMILIES if family.linux.elf == number), "")


def _linked(objects: Sequence[bytes], program: str, options: Sequence[str], stage: str) -> bytes:
    """What a linker makes of objects.

    Raises:
        LoweringError: It failed; the error names the stage.
    """
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        result = Path(folder, "result")
        sources = [Path(folder, f"{number}.o") for number in range(len(objects))]
        for source, object_ in zip(sources, objects, strict=True):
            source.write_bytes(object_)
        command = [program, "-o", str(result), *map(str, sources), *options]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise LoweringError(f"{Path(program).name} failed: {run.stderr.strip()}", stage=stage)
        return result.read_bytes()


def _run_path(program: str, folder: Path) -> list[str]:
    """The arguments by which a library looks for others in `folder`, for a linker or for a compiler that calls one."""
    return _for_linker(program, "-rpath", str(folder))


def _for_linker(program: str, *options: str) -> list[str]:
    """Options of a linker, for it or for a compiler that calls one."""
    if Path(program).name.startswith(("ld", "lld")) or Path(program).name.endswith("-ld"):
        return list(options)
    return [f"-Wl,{','.join(options)}"]
