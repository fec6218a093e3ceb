# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright compile``: one kernel to a file; the suffix says the format."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options
from tilewright.emit import pipeline
from tilewright.errors import TilewrightError
from tilewright.payload.abi import require_name
from tilewright.runtime.files import require_writable, write_together
from tilewright.runtime.linkable import FORMATS, refuse_gpu_name

if TYPE_CHECKING:
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import GpuProblem, Problem

_BINARY = ("obj", "so", "cubin", "spv", "hsaco")


@options.verb("compile", short_help="Compile a product to a file, or print any stage.")
@options.problem
@options.passes
@options.dumps
@click.option(
    "--emit",
    type=click.Choice(list(pipeline.WHAT)),
    help="The stage to write, whatever the suffix; - prints it.",
)
@click.option("-o", "output", metavar="FILE", help=f"Where to write: {' '.join(FORMATS)}, or - to print.")
@click.option("--header", metavar="FILE.h", help="Write the C header of the kernel as well.")
@click.option(
    "--name",
    metavar="NAME",
    help="The name of the C entry, NAME_FUNCTION where FILE.mlir has several; otherwise matmul, or as FILE.mlir calls it.",
)
def compile_(
    emit: str | None,
    output: str | None,
    header: str | None,
    name: str | None,
    **asked: Any,  # noqa: ANN401 - of `options.problem`
) -> None:
    """Compile a product, or the functions of FILE.mlir, and write it to a file.

    The machine need not be able to run the target. The suffix of -o says the format: .mlir (after the schedule), .ll, .s,
    .o, .so, .h; for GPUs .mlir, .ll, .ptx, .cubin, .spv, .s, .o, .hsaco. --emit names any other stage.
    """
    from tilewright.cli.problem import given

    wanted = _wanted(emit, output)
    if name is not None:
        require_name(name, "--name")
    path = Path(output or "-")
    files = {"-o": path, **({"--header": Path(header)} if header else {})}
    _require_distinct(files, asked["file"])
    for option, each in files.items():
        require_writable(each, option)
    problem = given(**asked)
    made = {"-o": (path, _make(problem, wanted, name))}
    if header:
        made["--header"] = (Path(header), _make(problem, "header", name))
    write_together(made)
    if str(path) != "-":
        click.echo(f"{path}: {problem}")


def _wanted(emit: str | None, output: str | None) -> str:
    """The stage or format to write.

    Raises:
        click.UsageError: Nothing says it, or the option and the suffix disagree.
    """
    suffix = Path(output).suffix.lower() if output else ""
    by_suffix = FORMATS.get(suffix)
    if emit is None:
        if output is None:
            raise click.UsageError("nowhere to write; expected -o FILE, or --emit STAGE to print one")
        if by_suffix is None:
            what = f"the suffix of {output!r} says no format" if output != "-" else "-o - says no format"
            raise click.UsageError(f"{what}; expected one of {' '.join(FORMATS)}, or --emit STAGE")
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


def _make(problem: Problem | ModuleProblem | GpuProblem, wanted: str, name: str | None) -> bytes:
    """The bytes of the stage or format."""
    from tilewright.cli.problem import GpuProblem

    if isinstance(problem, GpuProblem):
        from tilewright.emit import gpu_code

        refuse_gpu_name(name)
        return gpu_code.made(problem.build(), wanted)
    return problem.linkable.made(wanted, name or "")
