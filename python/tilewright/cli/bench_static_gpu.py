# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --static`` for GPUs: the table of strategies by types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.cli.output import console, print_whole, require_writable, write
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.bench.static_gpu import Cell
    from tilewright.bench.suites import Shape

_COLUMNS = ("target", "strategy", "types", "layout", "code", "registers", "spills", "shared", "right", "instructions")
_NUMBERS = frozenset({"code", "registers", "spills", "shared"})


def table(
    rows: Sequence[GpuTarget],
    dtypes: Sequence[str] | None,
    shape: Shape | None,
    json_file: str | None,
    bar: Callable[[], AbstractContextManager[Callable[[int, int], object]]],
) -> int:
    """Makes the cells and prints them; 1 when one was not made, spills or is wrong.

    Args:
        rows: The targets.
        dtypes: The types; None: all.
        shape: Of the runs; None: one that fills no tile.
        json_file: Where the cells go as JSON, ``-`` being standard output in place of the table; or None.
        bar: Opens what shows progress.

    Raises:
        TilewrightError: A type is unknown, or the file cannot be written.
    """
    from tilewright.bench import static_gpu

    if json_file is not None:
        require_writable(Path(json_file), "--json")
    with bar() as progress:
        cells = static_gpu.survey(rows, dtypes or static_gpu.types(), shape or static_gpu.SHAPE, progress)
    if json_file is not None:
        text = json.dumps([each.as_json() for each in cells], indent=1)
        write(Path(json_file), f"{text}\n".encode(), "--json")
    out = console(stderr=json_file == "-")
    print_whole(out, _table(cells))
    for each in cells:
        for note in each.notes:
            out.print(f"{each.target} {each.strategy} {_short(each.types)}: {note}", soft_wrap=True)
    return 0 if all(each.fine for each in cells) else 1


def _table(cells: Sequence[Cell]) -> Table:
    """One line a cell."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in _COLUMNS:
        made.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    for i, each in enumerate(cells):
        last = i + 1 == len(cells) or cells[i + 1].types != each.types
        made.add_row(*_texts(each), end_section=last)
    return made


def _texts(cell: Cell) -> Iterator[str]:
    """The columns of a cell; empty where something is missing, which its notes explain."""
    yield cell.target
    yield cell.strategy
    yield _short(cell.types)
    yield cell.layout
    yield f"{cell.code_bytes} B" if cell.code_bytes else "none"
    yield "" if cell.registers is None else str(cell.registers)
    yield "" if cell.spills is None else str(cell.spills)
    yield f"{cell.shared_bytes} B" if cell.shared_bytes else ""
    yield {True: "yes", False: "NO", None: ""}[cell.right]
    yield ", ".join(f"{count} {name}" for name, count in cell.mix.items())


def _short(types: str) -> str:
    """The type of A and B alone, where that is one."""
    a, *others = types.split(",")
    return a if not others or others[0] == a else types
