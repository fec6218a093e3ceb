# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bisect``: finds the transform op or the pass that is to blame."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright import knobs
from tilewright.cli import options
from tilewright.errors import TilewrightError
from tilewright.knobs import REQUIRED

if TYPE_CHECKING:
    from tilewright.cli.problem import GpuProblem, Problem
    from tilewright.runtime.bisect import IsBad
    from tilewright.runtime.kernel import Kernel

_PREDICATES = ("slower", "asm", "without", "command")


@options.verb(short_help="Find the transform op or pass that makes a kernel wrong, failing or slow.")
@options.problem
@click.option(
    "--among",
    type=click.Choice(("ops", "passes", "all")),
    help="What to search: the ops of --schedule, the passes behind it, or both. Without, both where the kernel fails.",
)
@click.option("--passes", metavar="FILE", help="The passes with the fault: a passes.txt of --dump-dir, edited.")
@click.option(
    "--good-passes", metavar="FILE", help="A list of passes without the fault; 'required': those that are needed."
)
@click.option("--good", metavar="S", help="A schedule without the fault: differences to it are looked through.")
@click.option(
    "--slower", type=options.Number(min=1, min_open=True), metavar="X", help="Bad: X times the time of --good's."
)
@click.option(
    "--asm", metavar="CLAIM", help="Bad: a claim of check-asm does not hold, such as 'spills == 0' or 'fma >= 24'."
)
@click.option("--without", metavar="REGEX", help="Bad: no line of the assembly has it.")
@click.option(
    "--command",
    metavar="CMD",
    help="Bad: the command fails, which gets the name of a folder with kernel.s and kernel.so.",
)
@click.option("-o", "output", metavar="DIR", help="Write both compilations and how to run them to a folder.")
def bisect(
    among: str | None,
    passes: str | None,
    good_passes: str | None,
    good: str | None,
    slower: float | None,
    asm: str | None,
    without: str | None,
    command: str | None,
    output: str | None,
    **asked: Any,  # noqa: ANN401 - of `options.problem`
) -> None:
    """Find the op of a --schedule, or the pass behind it, with which a kernel gets wrong numbers, fails, or gets what an option says.

    Without --good, ever longer beginnings of the schedule and of the passes are tried; with it, schedules between the two.
    """
    from tilewright.cli.problem import GpuProblem, Problem, given
    from tilewright.runtime.bisect import bisect as find

    named = [
        name for name, value in zip(_PREDICATES, (slower, asm, without, command), strict=True) if value is not None
    ]
    if len(named) > 1:
        raise click.UsageError(f"both --{named[0]} and --{named[1]} given; expected one of them")
    lists = passes is not None or good_passes is not None
    if asked["schedule"] is None and not lists and among != "passes":
        raise click.UsageError("no --schedule given; expected the one with the fault, or --among passes")
    if slower is not None and good is None and not lists and among != "passes":
        raise click.UsageError(
            "--slower given without --good; expected the schedule to compare with, or --among passes"
        )
    problem = given(**asked)
    if not isinstance(problem, Problem | GpuProblem):
        raise click.UsageError(f"{problem} given; expected one product")
    if isinstance(problem, GpuProblem) and named not in ([], ["without"]):
        raise click.UsageError(f"--{named[0]} given for {problem.target.name}; expected --without, or a processor")
    spec, target, threads = problem.spec, problem.target, asked["threads"]
    is_bad = None
    if asm is not None:
        is_bad = _refuted(asm)
    elif without is not None:
        is_bad = _without(without)
    elif command is not None:
        is_bad = _command(command)
    with read_once(passes) as bad_list, read_once(good_passes) as good_list:
        if slower is not None:
            usual = REQUIRED if good is None and not lists else good_list
            is_bad = _slower(problem, good or asked["schedule"], threads, slower, usual)
        blame = find(
            spec,
            asked["schedule"],
            target,
            threads,
            good=good,
            is_bad=is_bad,
            passes=bad_list,
            good_passes=good_list,
            among=among,
        )
    if output is not None:
        blame.write(output)
    click.echo(f"to blame, {blame.kind} {blame.number} of {blame.count}, found in {blame.runs} runs:")
    click.echo(blame.op)
    click.echo(f"{blame.spec}: {blame.reason}")


def _slower(problem: Problem | GpuProblem, good: str | None, threads: int, times: float, passes: str | None) -> IsBad:
    """Whether a kernel takes so many times as long as that of a good schedule and good passes, timed in turns."""
    from tilewright.bench.slower import slower
    from tilewright.runtime.compile import compile as compiled

    with knobs.overridden(**({} if passes is None else {"TILEWRIGHT_PASSES": passes})):
        return slower(compiled(problem.spec, problem.target, threads, good), problem.spec, times)


@contextlib.contextmanager
def read_once(file: str | None) -> Iterator[str | None]:
    """Gives a copy of a list of passes: a pipe, such as a shell makes of a command, has its text once."""
    if file is None or file == REQUIRED:
        yield file
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "passes.txt")
        copy.write_text(replace(knobs.load({}), passes=file).pass_list(), encoding="utf-8")
        yield str(copy)


def _refuted(claim: str) -> IsBad:
    """Whether a claim about the assembly does not hold; where it is about what is not there, nothing is said."""
    from tilewright.emit import claims
    from tilewright.runtime.asm_check import check_asm

    try:
        claims.read(claim)
    except TilewrightError as error:
        raise click.UsageError(f"--asm: {error.what}; expected a claim {error.expected}") from None

    def fails(kernel: Kernel) -> bool:
        try:
            check_asm(kernel, claim)
        except claims.ClaimError:
            return True
        return False

    return fails


def _without(pattern: str) -> IsBad:
    """Whether no line of the assembly has a pattern."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise click.UsageError(f"--without {pattern!r} is no regular expression: {error}") from None
    return lambda kernel: wanted.search(kernel.asm["asm"]) is None


def _command(line: str) -> IsBad:
    """Whether a command of the shell fails on a folder with the kernel."""

    def fails(kernel: Kernel) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            kernel.write(Path(folder, "kernel.s"))
            kernel.write(Path(folder, "kernel.so"))
            status = subprocess.run(f"{line} {shlex.quote(folder)}", shell=True, check=False).returncode
        return status != 0

    return fails
