# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds a BLAS: kernels of dynamic extents for many targets, those of a trace, and the routines over them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from pathlib import Path

from tilewright.blas import interface, names
from tilewright.blas.interface import LETTERS
from tilewright.emit import shared
from tilewright.errors import SpecError
from tilewright.libraries import detection
from tilewright.libraries.build import library
from tilewright.libraries.packages import Contents
from tilewright.runtime import files
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

NAME = "tilewright_blas"
TARGETS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The targets where none are named."""
BUILT = ("s", "d", "c", "z")
"""The letters that have kernels."""

_SCRATCH = ("aligned_alloc", "malloc", "free")
"""The functions through which kernels take scratch memory, which the library keeps from call to call."""


@dataclass(frozen=True, slots=True)
class Blas:
    """A BLAS that was built.

    Attributes:
        files: The library of each architecture.
        kernels: How many kernels there are for one shape each.
        contents: The kernels and targets.
    """

    files: Mapping[str, Path]
    kernels: int
    contents: Contents


def build(
    out: str | PathLike[str] = ".",
    targets: Sequence[str | Target] = TARGETS,
    *,
    letters: Sequence[str] = BUILT,
    shapes: Sequence[MatmulSpec] = (),
    threads: int = 1,
    jobs: int | None = None,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> Blas:
    """Builds ``libtilewright_blas.so``, whose SONAME is that of every BLAS.

    Its routines of level 3, and gemv, are ours for the letters that are built, under their names in Fortran and C, for integers of 32 and
    of 64 bits, and in scipy-openblas. Everything else goes on to the BLAS that is installed.

    Args:
        out: The folder for the library; of each architecture, where there are several, in a folder called after it.
        targets: For which targets: rows' names, "host", or `Target` objects. The best one that the processor runs serves.
        letters: For which element types: of s, d, c and z.
        shapes: Products that get kernels of their own, such as those of a trace; others of theirs serve all shapes.
        threads: Most threads that a call uses.
        jobs: How many processes compile; by default as many as this process may use CPUs.
        progress: Told after each kernel for a target how many are done, and how many there are.

    Raises:
        SpecError: A letter is unknown, or there are none; or there are no targets.
        TargetError: As for `tilewright.library`; or tilewright was built without clang.
        LoweringError: A stage or the linker failed.
        TilewrightError: A file cannot be written; or, of several threads, there is no OpenMP runtime.
    """
    if not letters or not set(letters) <= set(BUILT):
        raise SpecError(f"letters are {letters!r}", where="blas", expected=f"some of {', '.join(BUILT)}")
    parts = {each: interface.text(each) for each in ("service", *(f"routines_{each}" for each in letters))}
    ours = [name for part in parts.values() for name in interface.exported(part)]
    forwarded = [name for name in names.every() if name not in ours]
    general = _general(letters)
    own = _own(letters, shapes)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        made = library(
            general | own, targets, NAME, folder, threads=threads, traced=False, jobs=jobs, progress=progress
        )
        contents, results = made.contents, dict[str, bytes]()
        for architecture, found in contents.targets.items():
            plain = replace(found[0], features=detection.of(found[0].family).baseline)
            texts = [*parts.values(), interface.forwarding(forwarded, architecture)]
            texts += [interface.shapes(each, own) for each in letters]
            objects = [interface.compiled(each, plain) for each in texts]
            for each in letters:
                objects += interface.substitution(NAME, each, found, plain)
            archive = Path(folder, contents.folders[architecture], f"lib{NAME}.a").read_bytes()
            exported = [*ours, *forwarded, f"{NAME}_selected", f"{NAME}_isa"]
            results[architecture] = shared.link_library(
                [*objects, archive], names.SONAME, exported, version="", wrapped=_SCRATCH
            )
    paths = {each: Path(out, "" if len(results) == 1 else each, f"lib{NAME}.so") for each in results}
    for each in paths.values():
        each.parent.mkdir(parents=True, exist_ok=True)
    files.write_together({str(path): (path, results[each]) for each, path in paths.items()})
    return Blas(paths, len(own), contents)


def _general(letters: Sequence[str]) -> dict[str, MatmulSpec]:
    """The kernels of any extents, by the names that the routines have for them."""
    return {
        f"tilewright_{LETTERS[letter]}_{a}{b}": MatmulSpec(
            None, None, None, a=LETTERS[letter], layout=a + b, alpha="arg", beta="arg"
        )
        for letter in letters
        for a, b in product("nt" if letter in "sd" else "ntc", repeat=2)
    }


def _own(letters: Sequence[str], shapes: Sequence[MatmulSpec]) -> dict[str, MatmulSpec]:
    """The kernels of one shape each, of those products that a routine can call."""
    elements = [LETTERS[each] for each in letters]
    wanted = dict.fromkeys(
        MatmulSpec(each.m, each.n, each.k, a=str(each.a), layout=each.layout, alpha="arg", beta="arg")
        for each in shapes
        if str(each.a) in elements and not each.dynamic and each == _plain(each)
    )
    return {f"tilewright_{each.a}_{each.layout}_{each.m}x{each.n}x{each.k}": each for each in wanted}


def _plain(spec: MatmulSpec) -> MatmulSpec:
    """The product of a spec without anything around it, but with its factors."""
    return MatmulSpec(spec.m, spec.n, spec.k, a=str(spec.a), layout=spec.layout, alpha=spec.alpha, beta=spec.beta)
