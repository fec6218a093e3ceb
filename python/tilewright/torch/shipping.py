# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a library of the kernels that ops have called, for processes without Python, or without the compiler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from os import PathLike

from tilewright.errors import SpecError
from tilewright.libraries.build import TARGETS, Library
from tilewright.libraries.build import library as build
from tilewright.targets import Target
from tilewright.torch import registry

_BASIS, _PRIME, _MASK = 14695981039346656037, 1099511628211, 2**64 - 1


def library(
    out: str | PathLike[str],
    name: str = "torch_kernels",
    *,
    targets: Sequence[str | Target] = TARGETS,
    threads: int = 1,
    kernels: Sequence[str] | None = None,
) -> Library:
    """Makes a library of the kernels that this process's ops have called so far, as `tilewright.library` makes it.

    A process finds them where the variable TILEWRIGHT_TORCH_LIBRARIES names the file (``out/libNAME.so``), or where `load` loaded it:
    also one without Python, such as a program that runs a package of AOTInductor.

    Args:
        out: The folder for the library's files.
        name: Its name, a C identifier.
        targets: For which processors.
        threads: Most threads that a call uses.
        kernels: The names in the registry of those that it has; None: all.

    Raises:
        SpecError: There are none, or one has no spec, or as `tilewright.library` says.
    """
    wanted = registry.names() if kernels is None else kernels
    sources = {library_name(each): registry.registered(each).kernel.spec for each in wanted}
    missing = [each for each in wanted if registry.registered(each).kernel.spec is None]
    if missing or not sources:
        what = f"kernel {missing[0]!r} has no spec" if missing else "no op has called a kernel"
        expected = "kernels of specs, which ops have called"
        raise SpecError(what, where="tilewright.torch.library", expected=expected, remedy="Run the model once before")
    return build(sources, targets, name, out, threads=threads)


def library_name(name: str) -> str:
    """The name in a library of the kernel of a name: a C identifier, for any number of threads. The ops compute the same.

    Source: FNV-1a of 64 bits (draft-eastlake-fnv).
    """
    hashed = _BASIS
    for each in re.sub(r" threads=\d+$", "", name).encode():
        hashed = (hashed ^ each) * _PRIME & _MASK
    return f"tw_{hashed:016x}"
