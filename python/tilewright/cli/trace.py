# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright trace``: a compilation, one transform op and one pass at a time."""

from __future__ import annotations

import difflib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options

if TYPE_CHECKING:
    from tilewright.runtime.step_trace import Step, Trace


@options.verb(short_help="Step through a compilation, transform op by transform op.")
@options.problem
@click.option("-o", "output", metavar="FILE.trace", help="Write the trace, with the IR before and after each step.")
@click.option("--perfetto", metavar="FILE.json", help="Write the steps' times, for Perfetto or Chrome's tracing page.")
@click.option(
    "--step", type=click.IntRange(min=1), metavar="N", help="Print what step N did, and what its handles hold."
)
@click.option(
    "--line",
    type=click.IntRange(min=1),
    metavar="N",
    help="Print the IR after the last step that line N of the --schedule file made, or the last line with one before it.",
)
@click.option("--all", "unchanged", is_flag=True, help="Also list the steps that changed nothing.")
def trace(
    output: str | None,
    perfetto: str | None,
    step: int | None,
    line: int | None,
    unchanged: bool,
    **asked: Any,  # noqa: ANN401 - of `options.problem`
) -> None:
    """List each transform op of the schedule and each pass behind it, and what it changed.

    FILE.trace in place of FILE.mlir shows a trace that -o wrote. Of a schedule that fails, everything up to the failure is shown.
    """
    from tilewright.runtime.files import write
    from tilewright.runtime.step_trace import SUFFIX, Trace

    if output is not None and not output.endswith(SUFFIX):
        raise click.UsageError(f"-o is {output!r}; expected a name that ends with {SUFFIX}")
    file, error = asked["file"], None
    if file is not None and file.endswith(SUFFIX):
        options.require_only(file, "file", "output", "perfetto", "step", "line", "unchanged")
        found = Trace.read(file)
    else:
        found, error = _traced(asked)
    if output is not None:
        found.write(output)
    if perfetto is not None:
        write(Path(perfetto), found.perfetto().encode(), "--perfetto")
    if step is not None:
        _print_step(found, step)
    elif line is not None:
        _print_line(found, asked["schedule"], line)
    else:
        _print_all(found, unchanged)
    if error is not None:
        raise error


def _traced(asked: dict[str, Any]) -> tuple[Trace, Exception | None]:
    """The trace of what the command line asks for, and the error with which it ended."""
    from tilewright.cli.problem import GpuProblem, given
    from tilewright.runtime.step_trace import record

    problem = given(**asked)
    found, error = record(problem.build if isinstance(problem, GpuProblem) else lambda: problem.build("obj"))
    if error is not None and not found.steps:
        raise error
    return found, error


def _print_all(trace: Trace, unchanged: bool) -> None:
    from tilewright.cli.output import console, lines_table, print_whole

    table = lines_table(("step", "stage", "name", "source", "ms", "-", "+"), right=("step", "ms", "-", "+"))
    for step in trace.steps:
        if step.changed or unchanged:
            less, more = _lines(step)
            table.add_row(
                str(step.number), step.stage, step.name, step.source, f"{step.seconds * 1e3:.2f}", str(less), str(more)
            )
    out = console()
    out.print(trace.title)
    print_whole(out, table)
    changing = sum(step.changed for step in trace.steps)
    out.print(f"{len(trace.steps)} steps, {changing} of which changed the IR")
    if trace.error:
        out.print(f"failed: {trace.error}")


def _print_step(trace: Trace, number: int) -> None:
    if number > len(trace.steps):
        raise click.UsageError(f"--step is {number}; expected a number up to {len(trace.steps)}")
    step = trace.steps[number - 1]
    click.echo(f"{number} {step.name} ({step.stage}) {step.source}".rstrip())
    for index, held in enumerate(step.handles):
        click.echo(f"result {index} holds {len(held)}:")
        for each in held:
            click.echo(f"  {each}")
    click.echo("\n".join(_diff(step)) or "it changed nothing")


def _print_line(trace: Trace, schedule: str | None, line: int) -> None:
    """Prints the IR after a line of a schedule's file."""
    if schedule is None:
        raise click.UsageError("--line given without --schedule; expected the file that it is a line of")
    made = [(step, _line_of(step, Path(schedule).name)) for step in trace.steps]
    before = max((at for _, at in made if 0 < at <= line), default=None)
    if before is None:
        raise click.UsageError(f"--line is {line}, and no line of {schedule} up to there made a step that ran")
    step = next(step for step, at in reversed(made) if at == before)
    click.echo(f"// after step {step.number}, {step.name}, line {before} of {Path(schedule).name}")
    click.echo(step.after.rstrip("\n"))


def _line_of(step: Step, file: str) -> int:
    """The line of a file that made a step; 0 where another one did, or none."""
    source, _, line = step.source.rpartition(":")
    return int(line) if Path(source).name == file and line.isdecimal() else 0


def _diff(step: Step) -> list[str]:
    before, after = step.before.splitlines(), step.after.splitlines()
    return list(difflib.unified_diff(before, after, "before", "after", lineterm=""))


def _lines(step: Step) -> tuple[int, int]:
    """How many lines a step took away, and how many it added; a line that has only moved counts for neither."""
    before, after = Counter(step.before.splitlines()), Counter(step.after.splitlines())
    return (before - after).total(), (after - before).total()
