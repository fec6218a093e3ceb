# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds a BLAS: kernels of dynamic extents for many targets, those of a trace, and the routines over them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from tilewright.blas import interface, names
from tilewright.blas.letters import LETTERS, OF_EVERY_BLAS, Letter
from tilewright.emit import shared
from tilewright.errors import SpecError
from tilewright.libraries import detection
from tilewright.libraries.build import library
from tilewright.processes.calls import Jobs
from tilewright.runtime import files
from tilewright.runtime.openmp import openmp_file
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

NAME = "tilewright_blas"
_SCRATCH = ("aligned_alloc", "malloc", "free")
"""The functions through which kernels take scratch memory, which the library keeps from call to call."""


@dataclass(frozen=True, slots=True)
class Blas:
    """A BLAS that was built.

    Attributes:
        files: The library of each architecture.
        kernels: How many kernels there are for one shape each.
        targets: The targets that it has code for, of each architecture.
    """

    files: Mapping[str, Path]
    kernels: int
    targets: Mapping[str, Sequence[Target]]


def build(
    out: str | PathLike[str] = ".",
    targets: Sequence[str | Target] | None = None,
    *,
    letters: Sequence[str] = OF_EVERY_BLAS,
    shapes: Sequence[MatmulSpec] = (),
    threads: int = 1,
    deterministic: bool = False,
    jobs: Jobs = None,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> Blas:
    """Builds ``libtilewright_blas.so``, whose SONAME is that of every BLAS.

    Its routines of level 3, and gemv, are ours for the letters that are built, under their names in Fortran and C, for integers of 32 and
    of 64 bits, and in scipy-openblas. Everything else goes on to the BLAS that is installed.

    Args:
        out: The folder for the library; of each architecture, where there are several, in a folder called after it.
        targets: For which targets: rows' names, "host", or `Target` objects. The best one that the processor runs serves. By default the
            levels of x86-64, and for the smaller types processors with instructions for them.
        letters: Which types have kernels, of `LETTERS`.
        shapes: Products that get kernels of their own, such as those of a trace; others of theirs serve all shapes.
        threads: Most threads that a call uses.
        deterministic: Whether an element of a product has the same bits whatever the number of rows and columns. Products of few rows or
            one column, whose vectors are otherwise along K, then take up to nine times as long (Zen 5).
        jobs: How many processes compile; by default as many as this process may use CPUs; or any
            `concurrent.futures.Executor`, whose workers do.
        progress: Told after each kernel for a target how many are done, and how many there are.

    Raises:
        SpecError: A letter is unknown, or there are none; or there are no targets.
        TargetError: As for `tilewright.library`; or tilewright was built without clang.
        LoweringError: A stage or the linker failed.
        TilewrightError: A file cannot be written; or, of several threads, there is no OpenMP runtime.
    """
    if not letters or not set(letters) <= set(LETTERS):
        raise SpecError(f"letters are {letters!r}", where="blas", expected=f"some of {', '.join(LETTERS)}")
    named = {each: replace(LETTERS[each], deterministic=deterministic) for each in letters}
    chosen = named.values()
    parts = [interface.text(each) for each in ("service", *(each.routines for each in chosen))]
    ours = [name for part in parts for name in interface.exported(part)]
    forwarded = [name for name in names.every() if name not in ours]
    own = {each: dict(filter(None, map(each.own, shapes))) for each in chosen}
    sets: dict[tuple[str | Target, ...], list[Letter]] = {}
    for each in chosen:
        sets.setdefault(tuple(each.targets if targets is None else targets), []).append(each)
    objects: dict[str, list[bytes]] = {}
    found: dict[str, list[Target]] = {}
    for number, (wanted, group) in enumerate(sets.items()):
        kernels = {name: spec for each in group for name, spec in (each.general() | own[each]).items()}
        name = f"{NAME}{number or ''}"
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            made = library(
                kernels,
                wanted,
                name,
                folder,
                threads=threads,
                traced=False,
                tvm_ffi=False,
                jobs=jobs,
                progress=progress,
            )
            for architecture, place in made.contents.folders.items():
                objects.setdefault(architecture, []).append(Path(folder, place, f"lib{name}.a").read_bytes())
        for architecture, those in made.contents.targets.items():
            found.setdefault(architecture, []).extend(each for each in those if each not in found[architecture])
            plain = _plain(those[0])
            objects[architecture] += [interface.compiled(interface.shapes(each, own[each]), plain) for each in group]
            for letter, each in named.items():
                if each in group and each.whole:
                    objects[architecture] += interface.blocks(name, letter, those, plain)
    openmp = openmp_file() if threads > 1 else ""
    results: dict[str, bytes] = {}
    for architecture, own_objects in objects.items():
        texts = [*parts, interface.forwarding(forwarded, architecture)]
        linked = [interface.compiled(each, _plain(found[architecture][0])) for each in texts]
        exported = [*ours, *forwarded, f"{NAME}_selected", f"{NAME}_isa"]
        results[architecture] = shared.link_library(
            [*linked, *own_objects], names.SONAME, exported, openmp, version="", wrapped=_SCRATCH
        )
    paths = {each: Path(out, "" if len(results) == 1 else each, f"lib{NAME}.so") for each in results}
    for each in paths.values():
        each.parent.mkdir(parents=True, exist_ok=True)
    files.write_together({str(path): (path, results[each]) for each, path in paths.items()})
    return Blas(paths, sum(map(len, own.values())), found)


def _plain(target: Target) -> Target:
    """A target with the features that every processor of its architecture has."""
    return replace(target, features=detection.of(target.family).baseline)
