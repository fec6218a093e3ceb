# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as files for linkers, compilers and people: objects, shared libraries, C headers, and the text of any stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.emit import pipeline
from tilewright.errors import SpecError
from tilewright.payload.abi import require_name
from tilewright.payload.signature import renamed
from tilewright.runtime import files
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.emit.built import Built
    from tilewright.emit.gpu_stages import GpuStages

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        ".mlir": "scheduled",
        ".ll": "llvmir",
        ".s": "asm",
        ".o": "obj",
        ".so": "so",
        ".h": "header",
        ".ptx": "ptx",
        ".cubin": "cubin",
        ".spv": "spv",
        ".hsaco": "hsaco",
    }
)
"""What each suffix asks for: a stage, or a format made of the last one."""
_KNOWN = (*pipeline.FAMILIES["cpu"], "so", "header")
"""Those of processors."""


@dataclass(frozen=True, slots=True)
class Linkable:
    """How a kernel for a processor is made as a file.

    Attributes:
        target: For which target; this machine need not be able to run it.
        threads: Most threads that a call uses.
        name: What its C entry is called where no other name is asked for; empty where a module names several.
        build: Compiles up to a stage, for linking, with the entry called so.
        header: The text of the C header that declares the entry of that name.
    """

    target: Target
    threads: int
    name: str
    build: Callable[[str, str], pipeline.Record]
    header: Callable[[str], str]

    def made(self, wanted: str, name: str = "") -> bytes:
        """A stage or a format.

        Args:
            wanted: One of `pipeline.FAMILIES["cpu"]`, "so" or "header".
            name: What the C entry is called; empty for `self.name`.

        Raises:
            SpecError: Kernels for processors have no such format.
            TargetError: There is no linker for the target.
            ScheduleError: The schedule does not fit.
            LoweringError: A stage or the linker failed.
            TilewrightError: Several threads, and there is no OpenMP runtime.
        """
        symbol = require_name(name, "name") if name else self.name
        if wanted not in _KNOWN:
            expected = f"one of {', '.join(_KNOWN)}"
            raise SpecError(f"{wanted} of a kernel for {self.target.name}", where="compile", expected=expected)
        if wanted == "header":
            return self.header(symbol).encode()
        if wanted == "so":
            from tilewright.emit import shared
            from tilewright.runtime.openmp import openmp_file

            shared.linker(self.target.architecture)  # its absence is better said before the work than after
            openmp = openmp_file() if self.threads > 1 else ""
            return shared.link(self.build("obj", symbol).object, openmp)
        built = self.build(wanted, symbol)
        if wanted == "obj":
            return built.object
        # A product without arithmetic has no schedule.
        return built.texts.get(wanted, "// Nothing to schedule.\n").encode()

    def write(self, path: str | PathLike[str], name: str | None) -> None:
        """Writes a file, whole or not at all; the suffix says the format, one of `FORMATS`.

        Raises:
            TilewrightError: As for `made`; or the suffix is unknown, or the file cannot be written.
        """
        wanted, file = destination(path)
        files.write(file, self.made(wanted, name or ""), "write")


def of_functions(target: Target, threads: int, make: Callable[..., Built]) -> Linkable:
    """How functions are made as a file, which `make` compiles up to the stage `until`, `for_linking`, called `symbol`."""

    def built(until: str, symbol: str) -> Built:
        return make(until=until, for_linking=True, symbol=symbol)

    def declared(symbol: str) -> str:
        from tilewright.emit.header import module_header

        functions = make(until="bufferized", for_linking=True).functions
        return module_header(renamed(functions, symbol), target, threads=threads)

    return Linkable(target, threads, "", built, declared)


def write_gpu(stages: Callable[[], GpuStages], path: str | PathLike[str], name: str | None) -> None:
    """Writes a file of a GPU's kernel, as `Linkable.write` does.

    Raises:
        TilewrightError: As there; or a name is given: its entry is loaded by itself, and called "matmul".
    """
    from tilewright.emit import gpu_code

    wanted, file = destination(path)
    refuse_gpu_name(name)
    files.write(file, gpu_code.made(stages(), wanted), "write")


def refuse_gpu_name(name: str | None) -> None:
    """Refuses another name for the entry of a GPU's kernel.

    Raises:
        SpecError: There is one.
    """
    if name:
        expected = "none: a GPU's code is loaded, not linked, and its entry is called matmul"
        raise SpecError(f"the name {name}", where="name", expected=expected)


def destination(path: str | PathLike[str]) -> tuple[str, Path]:
    """The format that a file's suffix asks for, and the file, which can be written.

    Raises:
        SpecError: The suffix is unknown.
        TilewrightError: It cannot be written.
    """
    file = Path(fspath(path))
    wanted = FORMATS.get(file.suffix.lower())
    if wanted is None:
        raise SpecError(
            f"the suffix of {str(file)!r} says no format", where="write", expected=f"one of {' '.join(FORMATS)}"
        )
    files.require_writable(file, "write")
    return wanted, file
