# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tables of ``tilewright bench static`` have in common: the bar, JSON and the lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.output import console, lines_table, print_whole, progress_bar, write_json
from tilewright.runtime.files import require_writable

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class Form:
    """How cells are shown.

    Attributes:
        columns: By head, the text of a cell; empty where something is missing, which its notes explain.
        numbers: Heads of columns that stand to the right.
        group: What the cells between two lines across have in common.
        notes: What is printed below the table.
    """

    columns: Mapping[str, Callable[[Any], str]]
    numbers: frozenset[str]
    group: Callable[[Any], str]
    notes: Callable[[Sequence[Any]], Iterable[str]]


def show(
    survey: Callable[[Callable[[int, int], object]], Sequence[Any]], form: Form, json_file: str | None
) -> Sequence[Any]:
    """Makes cells, prints them, and returns them.

    Args:
        survey: Makes them, given what is told how many are done, and how many there are.
        form: How they are shown.
        json_file: Where they go as JSON, ``-`` being standard output in place of the table; or None.

    Raises:
        TilewrightError: The file cannot be written.
    """
    if json_file is not None:
        require_writable(Path(json_file), "--json")
    with progress_bar() as progress:
        cells = survey(progress)
    write_json(json_file, cells)
    out = console(stderr=json_file == "-")
    print_whole(out, _table(cells, form))
    for line in form.notes(cells):
        out.print(line, soft_wrap=True)
    return cells


def known(value: object, form: str = "") -> str:
    """A value as `format` writes it; "" where it is None."""
    return "" if value is None else format(value, form)


def right(cell: Any) -> str:  # noqa: ANN401 - a cell of either table
    """Whether its result was right, where that is known."""
    return {True: "yes", False: "NO", None: ""}[cell.right]


def short(types: str) -> str:
    """The type of A and B alone, where that is one and says that of C."""
    a, *others = types.split(",")
    return a if not others or others[0] == a else types


def _table(cells: Sequence[Any], form: Form) -> Table:
    """One line a cell."""
    made = lines_table(list(form.columns), form.numbers)
    for i, each in enumerate(cells):
        last = i + 1 == len(cells) or form.group(cells[i + 1]) != form.group(each)
        made.add_row(*(text(each) for text in form.columns.values()), end_section=last)
    return made
