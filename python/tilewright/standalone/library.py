# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loads libraries that tilewright made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn

from . import contents, elf, kernels
from ._native import SharedLibrary
from .errors import TargetError, TilewrightError
from .kernels import Kernel, Loaded

_UNKNOWN_LEVEL = 7
"""What a library returns for a cap that no target is called."""


class Library(Mapping[str, Kernel]):
    """A library in this process: its kernels by name, and as attributes.

    ``library.gemm(a, b)`` calls the kernel that is called gemm; ``library["gemm"]`` is the same kernel, and any that is called as an
    attribute of this class. Iterating gives the names. The library stays loaded while this object or one of its kernels lives.
    """

    def __init__(self, loaded: Loaded) -> None:
        """Takes a library that is in this process."""
        self._loaded, self._made = loaded, dict[str, Kernel]()

    @property
    def name(self) -> str:
        """Its name."""
        return self._loaded.contents.name

    @property
    def path(self) -> str:
        """The file that it came from."""
        return self._loaded.path

    @property
    def version(self) -> str:
        """The version of tilewright that made it."""
        return self._loaded.contents.version

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that it has code for, best first."""
        return self._loaded.contents.targets

    @property
    def signatures(self) -> Mapping[str, str]:
        """What the kernels take and give, by name: "gemm(a: 8x8 f32, b: 8x8 f32) -> 8x8 f32"."""
        return {name: each.signature for name, each in self._loaded.contents.kernels.items()}

    def selected(self) -> str | None:
        """The best of its targets that the processor runs, under the cap that there is now; None where it runs none."""
        return self._loaded.code.call_text(f"{self.name}_selected")

    def isa(self, level: str | None) -> None:
        """Caps the instructions that kernels use from now on at those of a target; None takes the cap away.

        No other thread may call a kernel meanwhile.

        Raises:
            TargetError: No target is called so.
        """
        status = self._loaded.code.call_with_text(f"{self.name}_isa", level)
        if status == _UNKNOWN_LEVEL:
            expected = f"one of {', '.join(self.targets)}, or another target of this architecture that tilewright knows"
            raise TargetError(f"no target is called {level!r}", where=f"{self.name}.isa", expected=expected)

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of a name.

        Raises:
            KeyError: There is none.
            TilewrightError: The package that brings one of its element types is not installed.
        """
        if name not in self._made:
            if name not in self._loaded.contents.kernels:
                raise KeyError(name)
            self._made.setdefault(name, kernels.kernel(self._loaded, name))
        return self._made[name]

    def __getattr__(self, name: str) -> Kernel:
        """The kernel of a name.

        Raises:
            AttributeError: There is none.
            TilewrightError: The package that brings one of its element types is not installed.
        """
        if name.startswith("_") or name not in self._loaded.contents.kernels:
            raise AttributeError(f"{self!r} has no kernel {name!r}; it has {', '.join(self)}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        """The kernels' names."""
        return iter(self._loaded.contents.kernels)

    def __len__(self) -> int:
        """How many kernels there are."""
        return len(self._loaded.contents.kernels)

    def __dir__(self) -> list[str]:
        """Its attributes, the kernels among them."""
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        """Its name, kernels and targets."""
        return f"<tilewright_runtime.Library {self.name}: {len(self)} kernels for {', '.join(self.targets)}>"

    def __reduce__(self) -> NoReturn:
        """Refuses: a library is machine code in this process.

        Raises:
            TilewrightError: Always.
        """
        raise TilewrightError(f"{self!r} cannot be pickled or copied", remedy="Load it in the other process too")


def load(path: str | os.PathLike[str]) -> Library:
    """Loads a shared library that ``tilewright library`` or ``tilewright.library`` made: ``libNAME.so``.

    Its code runs in this process: load none from people whom you do not trust.

    Raises:
        TilewrightError: The file cannot be read, or is no such library for this machine, or needs a library that is not there; or another
            one that came from this path is still loaded.
    """
    where = os.fspath(path)
    try:
        data = Path(where).read_bytes()
    except OSError as error:
        raise TilewrightError(
            f"cannot read it: {error.strerror or error}", where=where, expected="libNAME.so"
        ) from None
    elf.require_library(data, where)
    if contents.START not in data:  # Before code of others runs.
        raise _silent(where)
    try:
        code = SharedLibrary(str(Path(where).resolve()))
    except RuntimeError as error:
        omp = "Install LLVM's OpenMP runtime, or build the library with own_pool" if "libomp" in str(error) else None
        raise TilewrightError(f"cannot load it: {error}", where=where, remedy=omp) from None
    name = code.own_name.removeprefix("lib").removesuffix(".so")
    text = code.text(contents.symbol(name))
    if text is None:
        raise _silent(where)
    if text.encode() not in data:
        raise TilewrightError(
            "another library that came from this file is still loaded",
            where=where,
            expected="the file as it was",
            remedy="Write the new library to another folder, or load it in another process",
        )
    return Library(Loaded(where, contents.read(text, where), code))


def _silent(where: str) -> TilewrightError:
    return TilewrightError(
        "it does not say what it has",
        where=where,
        expected="a library that `tilewright library` made",
        remedy="Build it again, with this release or a later one",
    )
