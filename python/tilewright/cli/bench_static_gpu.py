# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench static`` for GPUs: the table of strategies by types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tilewright.cli.static_table import Form, known, right, short, show
from tilewright.errors import ScheduleError
from tilewright.schedules import make
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.bench.static_gpu import Cell
    from tilewright.bench.suites import Shape


def table(
    rows: Sequence[GpuTarget],
    dtypes: Sequence[str] | None,
    shape: Shape | None,
    schedule: str | None,
    json_file: str | None,
    executor: Executor | None,
) -> int:
    """Makes the cells and prints them; 1 when one was not made, spills or is wrong.

    Args:
        rows: The targets.
        dtypes: The types; None: all.
        shape: Of the runs; None: one that fills no tile.
        schedule: A strategy's name or a file; None: every strategy.
        json_file: Where the cells go as JSON, ``-`` being standard output in place of the table; or None.
        executor: Who works; None: processes here.

    Raises:
        ScheduleError: The schedule cannot be read, or nothing can be compiled under it.
        TilewrightError: A type is unknown, or the file cannot be written.
    """
    from tilewright.bench import static_gpu

    types, wanted = dtypes or static_gpu.types(), shape or static_gpu.SHAPE
    if schedule is not None and make.is_file(schedule):
        make.own(schedule)  # Raises: it cannot be read.
    cells = show(partial(static_gpu.survey, rows, types, wanted, jobs=executor, schedule=schedule), _FORM, json_file)
    if schedule is not None and not any(each.code_bytes for each in cells):
        why = next((note for each in cells for note in each.notes), "there is nothing to compile")
        raise ScheduleError(f"no kernel can be made under it: {why}", where=f"--schedule {schedule}")
    return 0 if all(each.fine for each in cells) else 1


def _notes(cells: Sequence[Cell]) -> Iterator[str]:
    """The notes, each with what it is about."""
    for each in cells:
        yield from (f"{each.target} {each.strategy} {short(each.types)}: {note}" for note in each.notes)


_FORM = Form(
    {
        "target": lambda cell: cell.target,
        "strategy": lambda cell: cell.strategy,
        "types": lambda cell: short(cell.types),
        "layout": lambda cell: cell.layout,
        "code": lambda cell: f"{cell.code_bytes} B" if cell.code_bytes else "none",
        "registers": lambda cell: known(cell.registers),
        "spills": lambda cell: known(cell.spills),
        "shared": lambda cell: f"{cell.shared_bytes} B" if cell.shared_bytes else "",
        "right": right,
        "instructions": lambda cell: ", ".join(f"{count} {name}" for name, count in cell.mix.items()),
    },
    frozenset({"code", "registers", "spills", "shared"}),
    lambda cell: cell.types,
    _notes,
)
