# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright library``: many kernels for many targets, as one library for C, C++, CMake and others."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import options
from tilewright.runtime.files import require_writable
from tilewright.targets import files

if TYPE_CHECKING:
    from concurrent.futures import Executor


@options.verb(short_help="Build a library of many kernels for many targets.")
@click.argument("file", metavar="[FILE.toml]", required=False)
@click.option("-o", "output", metavar="DIR", required=True, help="The folder for the library's files.")
@click.option(
    "--trace", metavar="FILE", help="Add the kernels that a program called, as TILEWRIGHT_TRACE=FILE wrote them."
)
@click.option(
    "--targets", metavar="A,B,…", help="For which targets: names, or files of one's own. In place of the list's."
)
@click.option(
    "--name", metavar="NAME", help="What the library is called; otherwise as the list says, or after the list."
)
@click.option(
    "--max-size", metavar="N", help="Most bytes of the shared library, such as 256K: products then share code."
)
@click.option("--threads", type=int, help="Most threads of a call. In place of the list's.")
@click.option(
    "--own-pool", is_flag=True, help="Threads are those of a pool that the program gives, in place of OpenMP's."
)
@click.option(
    "--plot", metavar="FILE", help="Draw the size of the choices against the time that they lose, as .svg or .png."
)
@options.executor
def library(
    file: str | None,
    output: str,
    trace: str | None,
    targets: str | None,
    name: str | None,
    max_size: str | None,
    threads: int | None,
    own_pool: bool,
    plot: str | None,
    executor: Executor | None,
) -> None:
    """Build a library of the kernels that FILE.toml lists, or that a program called.

    DIR then has libNAME.a and libNAME.so, which take the best code that the processor runs; NAME.h, for C and C++; NAMEConfig.cmake, for
    find_package; NAME.pc, for pkg-config; and NAME.md, a page of its contents.
    """
    from tilewright.libraries import build, kernels, lists, traces

    if plot is not None:
        require_writable(Path(plot), "--plot")
    if file is None and trace is None:
        raise click.UsageError("neither FILE.toml nor --trace given; expected one of them, or both")
    found = lists.KernelList({}, {"name": lists.name_after(str(trace))}) if file is None else lists.read(file)
    wanted, calls = dict(found.kernels), dict[str, int]()
    if trace is not None:
        traced = traces.read(trace)
        for each in traced.skipped:
            warnings.warn(f"{trace}: {each} is left out: it is no spec that a trace can hold", stacklevel=2)
        new = [spec for spec in traced.calls if spec not in wanted.values()]
        wanted |= kernels.called(new, wanted)
        calls = {name: traced.calls[spec] for name, spec in wanted.items() if spec in traced.calls}
    given = {
        "targets": [_target(each) for each in targets.split(",")] if targets is not None else None,
        "name": name,
        "threads": threads,
        "max_size": max_size,
        "calls": calls or None,
        "own_pool": own_pool or None,
    }
    settings = dict(found.options) | {option: value for option, value in given.items() if value is not None}
    made = build.library(wanted, out=output, jobs=executor, **settings)
    contents = made.contents
    different = {symbol: size for size, symbol in contents.sizes.values()}
    click.echo(f"{made.folder}: {', '.join(made.files)}")
    click.echo(
        f"{len(contents.kernels)} kernels for {', '.join(each.name for own in contents.targets.values() for each in own)}; "
        f"{len(different)} different objects of {sum(different.values())} bytes"
    )
    for line in contents.regrets:
        click.echo(line)
    if plot is not None:
        from tilewright.bench import regret

        regret.draw(contents, Path(plot))


def _target(name: str) -> object:
    """A target's name, or the target that a file describes."""
    return files.load(name) if name.endswith(files.SUFFIXES) else name
