# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ``tilewright bench`` shows while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.cli import output
from tilewright.cli.output import console
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Event, Row


@contextmanager
def progress_bar(keep: Callable[[Row], None]) -> Iterator[Callable[[Event], None]]:
    """Hands each finished row to `keep`; on a terminal's standard error there is a bar, and a line for each row."""
    out = console(stderr=True)
    with output.progress_bar(out) as tell:
        tell(0, None, "starting")

        def show(event: Event) -> None:
            """Moves the bar, and leaves a line for each finished row."""
            row = event.row
            if row is not None:
                keep(row)
            tell(event.done, event.total, f"{event.case} {event.stage}")
            if row is not None and out.is_terminal:
                best = "" if row.ratio_to_best is None else f", {row.ratio_to_best:.2f} times {row.best_peer}"
                out.print(f"{event.case}: {row.gflops:.1f} GFLOP/s, {row.percent_of_peak:.1f} % of peak{best}")

        yield show


def set_up(names: Sequence[str] | None) -> int:
    """Makes the Python environments of the named peers, or of all; says what became of each. 1 when a named one is not there.

    Raises:
        TilewrightError: A peer is unknown, or there is no folder for them.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from tilewright.bench.environments import ENVIRONMENTS, MODELS, TRITON, Made, folder, setup
    from tilewright.bench.peers import PEERS

    known = {MODELS: MODELS, TRITON: TRITON, **{name: each.environment for name, each in PEERS.items()}}
    for name in names or ():
        if name not in known:
            raise TilewrightError(f"unknown peer {name!r}", expected=f"some of {', '.join(known)}")
    wanted = dict.fromkeys(known[name] for name in (PEERS if names is None else names))
    every = [name for name in ENVIRONMENTS if name in wanted]
    made: list[Made] = []
    out, errors = console(), console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        for name in every:
            task = progress.add_task(f"installing {name}", total=None)
            made.append(setup(name))
            progress.remove_task(task)
            each = made[-1]
            state = each.problem or f"{'installed' if each.new else 'there already'}, {each.megabytes:.0f} MB"
            out.print(f"{name}: {state}", soft_wrap=True)
    out.print(f"{sum(each.megabytes for each in made):.0f} MB in {folder()}", soft_wrap=True)
    return 1 if names is not None and any(each.problem for each in made) else 0
