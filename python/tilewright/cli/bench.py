# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench``: our kernels beside other libraries and the machine's measured peak."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options
from tilewright.cli.output import console, print_whole, replacing, require_writable, write
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Event, Row, Shape


@click.command(short_help="Measure beside other libraries and the measured peak.")
@options.shape(required=False)
@click.option("--suite", "suites", multiple=True, help="A named list of shapes (square, bert, …); may be repeated.")
@options.dtype
@options.target
@options.schedule
@click.option(
    "--peers", help="Names a,b of the libraries that must take part, or none. Otherwise all that are installed."
)
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="Samples of each contender.")
@click.option("--cold", is_flag=True, help="Rotate through operands of twice the last-level cache.")
@click.option(
    "--json", "json_file", metavar="FILE", help="Write the results as JSON; - prints them instead of the table."
)
@click.option("--plot", metavar="FILE", help="Draw GFLOP/s against size, as .png or .svg.")
@click.option(
    "--compare", metavar="FILE", help="Compare with an earlier --json; status 1 when a shape has lost over 5 %."
)
@click.option(
    "--bar", type=click.FloatRange(min=0), help="Status 1 when a shape stays below this percentage of the peak."
)
def bench(
    shapes: tuple[options.Extents, ...],
    suites: tuple[str, ...],
    dtype: str,
    target: str,
    threads: int,
    schedule: str | None,
    parameters: dict[str, int],
    peers: str | None,
    rounds: int,
    cold: bool,
    json_file: str | None,
    plot: str | None,
    compare: str | None,
    bar: float | None,
) -> int:
    """Measure products side by side with other libraries, in turn, and against the peak measured in the same run.

    Wrong numbers, a shape below --bar and a loss against --compare end with status 1.
    """
    from tilewright import bench as measuring

    every, notes = _shapes(shapes, suites)
    before = None if compare is None else _read(Path(compare))
    _require_outputs(json_file, plot)
    with _progress() as progress:
        rows = measuring.run_suite(
            every,
            dtype,
            threads=threads,
            target=target,
            peers=_peers(peers),
            rounds=rounds,
            schedule=schedule,
            parameters=parameters,
            cache="cold" if cold else "hot",
            progress=progress,
        )
    if json_file is not None:
        text = json.dumps([row.as_json() for row in rows], indent=1)
        write(Path(json_file), f"{text}\n".encode(), "--json")
    if plot is not None:
        with replacing(Path(plot), "--plot") as temporary:
            measuring.plot.gflops(rows, temporary)
    out = console(stderr=json_file == "-")
    print_whole(out, measuring.report.table(rows))
    tell = partial(out.print, soft_wrap=True)
    for line in (measuring.report.summary(rows).text(), *notes):
        tell(line)
    passed = [_above(bar, rows, tell), before is None or _kept(before, rows, tell)]
    return 0 if all(passed) else 1


def _shapes(shapes: Sequence[options.Extents], suites: Sequence[str]) -> tuple[list[Shape], list[str]]:
    """The shapes to measure, each once, and what is left out of the suites.

    Raises:
        click.UsageError: None is named.
        TilewrightError: A suite is unknown, or a shape has no work.
    """
    from tilewright.bench import parse_shape, suite

    if not shapes and not suites:
        raise click.UsageError("nothing to measure; expected --shape MxNxK or --suite NAME")
    named = [suite(name) for name in suites]
    every = [parse_shape(f"{m}x{n}x{k}") for m, n, k in shapes] + [shape for each in named for shape in each.shapes]
    return list(dict.fromkeys(every)), [each.note for each in named if each.note]


def _peers(names: str | None) -> tuple[str, ...] | None:
    """The peers that must take part; None for those that are there."""
    if names is None:
        return None
    return tuple(name for each in names.split(",") if (name := each.strip()) and name != "none")


def _require_outputs(json_file: str | None, plot: str | None) -> None:
    """Checks, ahead of minutes of measuring, that the results can be written.

    Raises:
        TilewrightError: They cannot.
    """
    if json_file is not None:
        require_writable(Path(json_file), "--json")
    if plot is None:
        return
    from importlib.util import find_spec

    from tilewright.bench import plot as drawing

    if plot == "-":
        raise TilewrightError("a picture is not printed", where="--plot", expected="a file ending in .png or .svg")
    drawing.require_suffix(Path(plot))
    require_writable(Path(plot), "--plot")
    if json_file is not None and Path(json_file).resolve() == Path(plot).resolve():
        raise TilewrightError(f"{plot} is also --json", where="--plot", expected="another file")
    if find_spec("matplotlib") is None:
        raise TilewrightError(
            "matplotlib is not installed", where="--plot", remedy="Install it with: pip install 'tilewright[bench]'"
        )


@contextmanager
def _progress() -> Iterator[Callable[[Event], None] | None]:
    """A progress bar on a terminal's standard error; nothing where that is none."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    out = console(stderr=True)
    if not out.is_terminal:
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def show(event: Event) -> None:
            """Moves the bar, and leaves a line for each finished shape."""
            progress.update(task, description=f"{event.shape} {event.stage}", completed=event.done, total=event.total)
            if event.row is not None:
                row = event.row
                progress.console.print(f"{row.shape}: {row.gflops:.1f} GFLOP/s, {row.percent_of_peak:.1f} % of peak")

        yield show


def _read(file: Path) -> list[dict[str, Any]]:
    """An earlier result.

    Raises:
        TilewrightError: It cannot be read, or is no JSON list.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        expected = "what bench --json wrote"
        raise TilewrightError(f"cannot read {file}: {reason}", where="--compare", expected=expected) from None
    if not isinstance(data, list):
        raise TilewrightError(f"{file} holds no list", where="--compare", expected="what bench --json wrote")
    return data


def _above(bar: float | None, rows: Sequence[Row], tell: Callable[[str], object]) -> bool:
    """Whether every shape reaches the bar; says which do not."""
    below = [row for row in rows if bar is not None and row.percent_of_peak < bar]
    for row in below:
        tell(f"below the bar of {bar:g} %: {row.shape} with {row.percent_of_peak:.1f} %")
    return not below


def _kept(before: Sequence[dict[str, Any]], rows: Sequence[Row], tell: Callable[[str], object]) -> bool:
    """Whether no shape lost against an earlier result; says how each changed."""
    from tilewright.bench import report

    changes = report.compare(before, [row.as_json() for row in rows])
    for change in changes:
        tell(f"{'LOST ' if change.regression else '     '}{change}")
    return not any(change.regression for change in changes)
