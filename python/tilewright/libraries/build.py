# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds a library of many kernels for many targets: objects, dispatch, and the files around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from tilewright.errors import SpecError
from tilewright.libraries import budget, c_header, levels, packages, pool
from tilewright.libraries.budget import Point
from tilewright.libraries.jobs import Jobs, compile_all
from tilewright.libraries.kernels import Kernel, Source, named, require_distinct
from tilewright.libraries.objects import Compiled
from tilewright.libraries.packages import Contents
from tilewright.libraries.part import Part
from tilewright.payload.abi import require_name
from tilewright.runtime import files
from tilewright.runtime.openmp import openmp_file
from tilewright.schedules.models.threads import check
from tilewright.targets import Target

TARGETS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "sapphirerapids")
"""The targets of a library where none are named."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was built.

    Attributes:
        name: Its name.
        folder: Where its files are.
        files: They, relative to the folder.
        contents: What it has.
    """

    name: str
    folder: Path
    files: tuple[str, ...]
    contents: Contents

    def __repr__(self) -> str:
        """Its name, kernels and targets."""
        found = [each.name for own in self.contents.targets.values() for each in own]
        return f"<tilewright.Library {self.name}: {len(self.contents.kernels)} kernels for {', '.join(found)}>"


def library(
    kernels: Mapping[str, Source] | Sequence[Source],
    targets: Sequence[str | Target] = TARGETS,
    name: str = "kernels",
    out: str | PathLike[str] = ".",
    *,
    max_size: int | str | None = None,
    calls: Mapping[str, int] | None = None,
    threads: int = 1,
    own_pool: bool = False,
    traced: bool = True,
    tvm_ffi: bool = True,
    jobs: Jobs = None,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> Library:
    """Builds a library of kernels for many targets, which takes the best code that the processor runs.

    The folder then has, for a library called NAME: ``libNAME.a`` and ``libNAME.so``, of each architecture in a folder of its own where
    there are several; ``NAME.h``, for C and C++; ``NAMEConfig.cmake``; ``NAME.pc``; and ``NAME.md``, a page of its contents. The library
    needs the C library (with its math functions, where a kernel computes them in f64), of several threads LLVM's OpenMP runtime
    or a pool of the program's, and nothing else. No processor is told by its name: code is chosen by features.

    Args:
        kernels: What to compute, by the name of the C entry: specs of products, convolutions and attention, and paths of .mlir files.
            The functions of a file that has several are called NAME_FUNCTION. Those of a sequence are called after what they compute.
        targets: For which targets, of any architectures: rows' names, "host", or `Target` objects.
        name: The library's name, a C identifier.
        out: The folder for its files, which is made where it is absent.
        max_size: Most bytes of a shared library, or a text such as "256K": products of known extents then share code for any extents,
            those first that lose least time by it for the bytes that they save. Both codes are timed on this machine.
        calls: How often a program calls each kernel, by name, for the time that it loses; without, every kernel counts alike.
        threads: Most threads that a call uses.
        own_pool: Whether the program gives a pool of threads, by ``NAME_set_pool``, in place of OpenMP's runtime.
        traced: Whether programs write a trace of their calls where ``TILEWRIGHT_TRACE`` names a file.
        tvm_ffi: Whether programs of tvm-ffi, and with it those of torch and JAX, can call the kernels, by ``__tvm_ffi_NAME``.
        jobs: How many processes compile; by default as many as this process may use CPUs; or any
            `concurrent.futures.Executor`, whose workers do.
        progress: Told after each kernel for a target how many are done, and how many there are.

    Raises:
        SpecError: There are no kernels, or no targets, or one is of an unknown kind, or a name is no C identifier or there twice, or the
            library cannot be made as small as it is to be.
        TargetError: A target is unknown, or a GPU, or there is no linker, or a feature cannot be detected at run time; or there is a
            largest size, and this machine runs none of the targets.
        LoweringError: A stage or the linker failed.
        TilewrightError: A file cannot be read or written; or, of several threads, there is no OpenMP runtime.
    """
    require_name(name, "library")
    sources, by_architecture = named(kernels), levels.by_architecture(targets)
    openmp = openmp_file() if check(threads, "library") > 1 and not own_pool else ""
    most = None if max_size is None else budget.size(max_size)
    every = [target for own in by_architecture.values() for target in own]

    def compiled_for_all(wanted: Iterable[Source]) -> dict[tuple[Source, Target], Compiled]:
        pairs = [(source, target) for target in every for source in wanted]
        return dict(zip(pairs, compile_all(pairs, threads, jobs=jobs, progress=progress), strict=True))

    compiled = compiled_for_all(sources.values())
    found = [
        Kernel(each, source, own.functions, threads=own.threads, traced=traced, tvm_ffi=tvm_ffi)
        for each, source in sources.items()
        if (own := compiled[source, every[0]])
    ]
    require_distinct(name, found)
    used = max(each.threads for each in compiled.values())
    points: Sequence[Point] = [Point()]
    if most is not None:
        forms = {form for stage in budget.forms(sources) for form in stage.values()}
        compiled |= compiled_for_all(sorted(forms.difference(sources.values()), key=str))
        points = budget.curve(sources, by_architecture, compiled, calls or {})

    shared_by = "" if used == 1 else pool.own(name) if own_pool else pool.openmp(name)

    def parts_of(point: Point) -> dict[str, Part]:
        kernels = [replace(each, shares=point.shares.get(each.name)) for each in found]
        return {
            architecture: Part(name, architecture, own, kernels, compiled, openmp if used > 1 else "", shared_by)
            for architecture, own in by_architecture.items()
        }

    point, parts = _fitting(points, most, parts_of)
    contents = Contents(
        name,
        found,
        by_architecture,
        {key: size for part in parts.values() for key, size in part.sizes.items()},
        {architecture: "." if len(parts) == 1 else architecture for architecture in parts},
        used > 1 and not own_pool,
        point.shares,
        () if most is None else tuple(points),
    )
    folder = Path(out)
    names = [each.name for each in every]
    made = {
        f"{name}.h": c_header.text(name, found, names, threads=used, own_pool=own_pool).encode(),
        f"{name}Config.cmake": packages.cmake(contents).encode(),
        f"{name}.md": packages.page(contents).encode(),
    }
    for architecture, part in parts.items():
        place = "" if contents.folders[architecture] == "." else f"{architecture}/"
        made[f"{place}lib{name}.a"] = part.static
        made[f"{place}lib{name}.so"] = part.shared
        made[f"{place}{name}.pc"] = packages.pkg_config(contents, architecture).encode()
    for each in made:
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
    files.write_together({each: (folder / each, data) for each, data in made.items()})
    return Library(name, folder, tuple(made), contents)


def _fitting(
    points: Sequence[Point], most: int | None, parts_of: Callable[[Point], dict[str, Part]]
) -> tuple[Point, dict[str, Part]]:
    """The first choice whose shared libraries are no larger than they may be, and they.

    Raises:
        SpecError: There is none.
    """
    least = []
    for point in points:
        if most is not None and point.bytes > most:
            continue
        parts = parts_of(point)
        least.append(max(len(part.shared) for part in parts.values()))
        if most is None or least[-1] <= most:
            return point, parts
    smallest = min(least, default=min(each.bytes for each in points))
    raise SpecError(
        f"max_size is {most}",
        where="library",
        expected=f"{smallest} or more, which is what these kernels take with all code shared that can be",
        remedy="Allow more bytes, or leave out kernels or targets",
    )
