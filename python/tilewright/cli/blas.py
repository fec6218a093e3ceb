# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright blas``: a BLAS library over kernels, built, run under programs, and registered with the system."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import options
from tilewright.cli.output import progress_bar

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.spec import MatmulSpec

_GAINED = 3
"""Of how many products `run` says what kernels of their own would gain: each compiles some seconds."""


@options.verbs()
def blas() -> None:
    """Build a BLAS library, run any program under it, register it."""


@options.verb(short_help="Build libtilewright_blas.so.")
@click.option("-o", "output", metavar="DIR", required=True, help="The folder for the library.")
@click.option("--targets", metavar="A,B,…", help="For which targets; by default levels of x86-64.")
@click.option(
    "--letters",
    metavar="s,d,…",
    help="Types with kernels: s, d, c, z, sb, sh, s8u8; by default the first four.",
)
@click.option("--trace", metavar="FILE", help="Add kernels for the shapes that TILEWRIGHT_TRACE=FILE wrote.")
@click.option("--threads", type=int, default=1, show_default=True, help="Most threads of a call.")
@click.option("--deterministic", is_flag=True, help="The same bits for every number of rows and columns.")
@options.executor
def build(
    output: str,
    targets: str | None,
    letters: str | None,
    trace: str | None,
    threads: int,
    deterministic: bool,
    executor: Executor | None,
) -> None:
    """Build libtilewright_blas.so, which programs load as libblas.so.3.

    Level 3 and gemv are ours, in Fortran and C, with integers of 32 and of 64 bits; everything else goes on to the BLAS that is installed,
    or that TILEWRIGHT_BLAS_FALLBACK names.
    """
    from tilewright.blas import build as built

    with progress_bar() as progress:
        made = built.build(
            output,
            None if targets is None else targets.split(","),
            letters=built.OF_EVERY_BLAS if letters is None else letters.split(","),
            shapes=[] if trace is None else _shapes(trace),
            threads=threads,
            deterministic=deterministic,
            jobs=executor,
            progress=progress,
        )
    for architecture, path in made.files.items():
        levels = ", ".join(each.name for each in made.targets[architecture])
        click.echo(f"{path}: {path.stat().st_size} bytes, for {levels}; {made.kernels} kernels for shapes of a trace")


@options.verb(short_help="Run a program under the BLAS.", interspersed=False)
@click.option("--library", metavar="FILE", help="The library; by default one is built for this machine.")
@click.option("--gain/--no-gain", default=True, help="Measure what kernels for the shapes of most work would gain.")
@click.argument("command", metavar="PROGRAM [ARGS]…", nargs=-1, required=True, type=click.UNPROCESSED)
def run(library: str | None, gain: bool, command: tuple[str, ...]) -> int:
    """Run a program under the BLAS, and say at its end what the BLAS served, and what it could have gained.

    The exit status is that of the program.
    """
    from tilewright.blas import build as built
    from tilewright.blas import running

    running.check_program(command[0])
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        file = Path(library) if library else _only(built.build(folder, ["host"]).files)
        served = running.run(command, file)
        for line in served.lines:
            click.echo(f"tilewright: {line}", err=True)
        wanted = list(running.most_work(served.products, _GAINED)) if gain else []
        if wanted:
            letters = [letter for letter, each in built.LETTERS.items() if any(map(each.own, wanted))]
            own = _only(built.build(Path(folder, "own"), ["host"], letters=letters, shapes=wanted).files)
            click.echo("tilewright: with kernels of their own, by build --trace:", err=True)
            for spec, ratio in running.gains(wanted, file, own).items():
                click.echo(f"tilewright:   {spec} {ratio:.2f} times as fast", err=True)
    return served.status


def _only(found: object) -> Path:
    """The library of the one architecture."""
    assert isinstance(found, dict)
    (path,) = found.values()
    return path


def _shapes(trace: str) -> list[MatmulSpec]:
    """The products of a trace."""
    from tilewright.libraries import traces
    from tilewright.spec import MatmulSpec

    return [each for each in traces.read(trace).calls if isinstance(each, MatmulSpec)]


@options.verb(short_help="Register the BLAS with update-alternatives.")
@click.argument("library", metavar="LIBRARY")
@click.option("--dry-run", is_flag=True, help="Only print the commands.")
def install(library: str, dry_run: bool) -> None:
    """Register a BLAS with update-alternatives: every program that was linked with libblas.so.3 runs on it."""
    from tilewright.blas import alternatives

    for line in alternatives.install(Path(library), dry_run=dry_run):
        click.echo(line)


@options.verb(short_help="Undo install.")
@click.option("--dry-run", is_flag=True, help="Only print the commands.")
def uninstall(dry_run: bool) -> None:
    """Undo install: the BLAS that was there before serves again."""
    from tilewright.blas import alternatives

    for line in alternatives.uninstall(dry_run=dry_run):
        click.echo(line)


for _verb in (build, run, install, uninstall):
    blas.add_command(_verb)
