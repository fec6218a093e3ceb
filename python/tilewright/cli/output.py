# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How verbs print on the terminal, or into what stands for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from tilewright.runtime.files import write

WIDTH = 120
"""Columns where the output is no terminal; rich would assume 80 there, and cut."""

_ANY_WIDTH = 10_000


def console(*, stderr: bool = False) -> Console:
    """The terminal, or the file or pipe that stands for it. Text is printed as it is, without markup in brackets."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_whole(out: Console, table: Table) -> None:
    """Prints a table with all of its text: on a narrow terminal its lines wrap, and nothing is cut off."""
    natural = Measurement.get(out, out.options.update(max_width=_ANY_WIDTH), table).maximum
    out.width = max(out.width, natural)
    out.print(table)


def lines_table(columns: Collection[str], right: Collection[str] = ()) -> Table:
    """A table without lines between columns, of which those named in `right` stand to the right."""
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return made


def write_json(file: str | None, measured: Sequence[Any]) -> None:
    """Writes what has an `as_json` where ``--json`` says, ``-`` being standard output; nothing for None.

    Raises:
        TilewrightError: The file cannot be written.
    """
    if file is not None:
        text = json.dumps([each.as_json() for each in measured], indent=1)
        write(Path(file), f"{text}\n".encode(), "--json")


@contextmanager
def progress_bar(out: Console | None = None) -> Iterator[Callable[..., object]]:
    """A bar on a terminal, by default standard error. What it gives is told how many are done, how many there are, and what goes on."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    out = out or console(stderr=True)
    words = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), words)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what="": bar.update(task, completed=done, total=total, description=what)


def sizes_text(parameters: Mapping[str, int], *, given: bool = False) -> str:
    """A schedule's sizes in words: "mr=6 nr=64". Those that a user's function was `given` it need not have used: "given mr=6 nr=64"."""
    text = " ".join(f"{name}={size}" for name, size in parameters.items())
    return f"given {text}" if given and text else text


def duration(seconds: float) -> str:
    """A time with a unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"
