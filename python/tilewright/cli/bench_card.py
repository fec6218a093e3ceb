# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --card``: kernels for a card compiled, and, where there is one, compared with the emulator, checked and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tilewright.cli import options
from tilewright.cli.output import console
from tilewright.errors import TargetError
from tilewright.runtime.files import require_writable, write

_PARAMETERS = ("card", "budget", "report", "command")
"""Those of ``bench`` that mean something with ``--card``."""


def from_context(context: click.Context) -> int:
    """Makes the bundle, and measures what is left of it; 1 when something is wrong.

    Raises:
        click.UsageError: An option is given that means nothing here.
        TilewrightError: The bundle cannot be made, or not read, or the page not written.
    """
    from tilewright.bench.card import bundle, measure, page

    given = options.require_only(context, "--card", *_PARAMETERS)
    folder, report = Path(context.params["card"]), context.params["report"]
    if report is not None:
        require_writable(Path(report), "--report")
    out = console()
    with _bar() as progress:
        failures = bundle.make(folder, progress)
    with _bar() as progress:
        try:
            records = measure.run(folder, context.params["budget"], progress)
        except TargetError as error:
            out.print(f"The kernels are in {folder}; nothing is measured: {error}", soft_wrap=True, markup=False)
            out.print(f"Where a card is: python -m tilewright.bench.card {folder}", soft_wrap=True, markup=False)
            records = measure.read(folder)
    if report is not None and records:
        command = context.params["command"] if "command" in given else f"tilewright bench --card {folder}"
        write(Path(report), page.markdown(records, command).encode(), "--report")
    failures += page.failures(records)
    for line in failures:
        out.print(line, soft_wrap=True, markup=False)
    return 1 if failures else 0


@contextmanager
def _bar() -> Iterator[Callable[[int, int, str], object]]:
    """A bar on a terminal's standard error, with what is under way."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
