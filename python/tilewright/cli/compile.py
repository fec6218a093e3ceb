# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright compile``: one kernel to a file; the suffix says the format."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from tilewright.cli import options
from tilewright.cli.output import require_writable, write_together
from tilewright.emit import pipeline
from tilewright.errors import SpecError, TilewrightError

if TYPE_CHECKING:
    from tilewright.cli.gpu_problem import GpuProblem
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import Problem
    from tilewright.entries import Epilogue

_FORMATS: Mapping[str, str] = MappingProxyType(
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
_BINARY = ("obj", "so", "cubin", "spv", "hsaco")
_GPU_ONLY = (*(stage for stage in pipeline.WHAT if stage not in pipeline.FAMILIES["cpu"]), "cubin", "spv", "hsaco")


@options.verb("compile", short_help="Compile a product to a file, or print any stage.")
@click.argument("file", metavar="[FILE.mlir]", required=False)
@options.shape(required=False)
@options.dtype
@options.layout
@options.batch
@options.beta
@options.b_packed
@options.epilogue
@options.prologue_a
@options.prologue_b
@options.deterministic
@options.tf32
@options.target
@options.schedule
@options.dumps
@click.option(
    "--emit",
    type=click.Choice(list(pipeline.WHAT)),
    help="The stage to write, whatever the suffix; - prints it.",
)
@click.option("-o", "output", metavar="FILE", help=f"Where to write: {' '.join(_FORMATS)}, or - to print.")
@click.option("--header", metavar="FILE.h", help="Write the C header of the kernel as well.")
def compile_(
    file: str | None,
    shapes: tuple[options.Extents, ...],
    dtype: str,
    layout: str,
    batch: tuple[int, ...],
    beta: int,
    b_packed: bool,
    epilogue: tuple[Epilogue, ...],
    prologue_a: tuple[Epilogue, ...],
    prologue_b: tuple[Epilogue, ...],
    deterministic: bool,
    tf32: bool,
    target: str,
    threads: int,
    schedule: str | None,
    parameters: dict[str, int],
    emit: str | None,
    output: str | None,
    header: str | None,
) -> None:
    """Compile a product, or the functions of FILE.mlir, and write it to a file.

    The machine need not be able to run the target. The suffix of -o says the format: .mlir (after the schedule), .ll, .s,
    .o, .so, .h; for GPUs .mlir, .ll, .ptx, .cubin, .spv, .s, .o, .hsaco. --emit names any other stage.
    """
    from tilewright.cli.problem import given

    wanted = _wanted(emit, output)
    path = Path(output or "-")
    files = {"-o": path, **({"--header": Path(header)} if header else {})}
    _require_distinct(files, file)
    for option, each in files.items():
        require_writable(each, option)
    problem = given(
        file,
        shapes,
        dtype=dtype,
        layout=layout,
        batch=batch,
        beta=beta,
        b_packed=b_packed,
        epilogue=epilogue,
        prologue_a=prologue_a,
        prologue_b=prologue_b,
        deterministic=deterministic,
        tf32=tf32,
        target=target,
        threads=threads,
        schedule=schedule,
        parameters=parameters,
    )
    made = {"-o": (path, _make(problem, wanted))}
    if header:
        made["--header"] = (Path(header), _make(problem, "header"))
    write_together(made)
    if str(path) != "-":
        click.echo(f"{path}: {problem}")


def _wanted(emit: str | None, output: str | None) -> str:
    """The stage or format to write.

    Raises:
        click.UsageError: Nothing says it, or the option and the suffix disagree.
    """
    suffix = Path(output).suffix.lower() if output else ""
    by_suffix = _FORMATS.get(suffix)
    if emit is None:
        if output is None:
            raise click.UsageError("nowhere to write; expected -o FILE, or --emit STAGE to print one")
        if by_suffix is None:
            what = f"the suffix of {output!r} says no format" if output != "-" else "-o - says no format"
            raise click.UsageError(f"{what}; expected one of {' '.join(_FORMATS)}, or --emit STAGE")
        return by_suffix
    if by_suffix in (*_BINARY, "header") and emit != by_suffix:
        raise click.UsageError(f"--emit {emit} does not go into a {suffix} file; expected another suffix, or no --emit")
    if emit in _BINARY and (output in (None, "-")) and sys.stdout.isatty():
        raise click.UsageError("an object file is not for the terminal; expected -o FILE.o")
    return emit


def _require_distinct(files: Mapping[str, Path], source: str | None) -> None:
    """Checks that no file is written twice, and that the source is not overwritten.

    Raises:
        TilewrightError: One is.
    """
    seen = {Path(source).resolve(): "the source"} if source and source != "-" else {}
    for option, path in files.items():
        if str(path) == "-" and option != "-o":
            raise TilewrightError("standard output is no place for it", where=option, expected="the name of a file")
        if str(path) != "-" and path.resolve() in seen:
            raise TilewrightError(f"{path} is also {seen[path.resolve()]}", where=option, expected="another file")
        seen[path.resolve()] = option


def _make(problem: Problem | ModuleProblem | GpuProblem, wanted: str) -> bytes:
    """The bytes of the stage or format."""
    from tilewright.cli.gpu_problem import GpuProblem

    if isinstance(problem, GpuProblem):
        from tilewright.emit import gpu_code

        return gpu_code.made(problem.build(), wanted)
    if wanted in _GPU_ONLY:
        raise SpecError(
            f"{wanted} of a kernel for {problem.target.name}",
            where="compile",
            expected=f"one of {', '.join((*pipeline.FAMILIES['cpu'], 'so', 'header'))}",
        )
    if wanted == "header":
        return problem.header()
    if wanted == "so":
        from tilewright.emit import shared

        shared.linker(problem.target.architecture)  # its absence is better said before the work than after
        return shared.link(problem.build("obj", for_linking=True).object, _openmp(problem))
    built = problem.build(wanted, for_linking=True)
    if wanted == "obj":
        return built.object
    # A product without arithmetic has no schedule.
    return built.texts.get(wanted, "// Nothing to schedule.\n").encode()


def _openmp(problem: Problem | ModuleProblem) -> str:
    """The OpenMP runtime that a shared library of several threads needs; empty for one thread."""
    from tilewright.runtime.compile import openmp_file

    return openmp_file() if problem.threads > 1 else ""
