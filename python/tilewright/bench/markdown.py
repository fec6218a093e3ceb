# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> Iterator[str]:
    """The lines of a table.

    Args:
        heads: Of the columns.
        rows: Their cells.
        align: A letter for each column, l or r; otherwise all but the first stand to the right.
    """
    yield line(heads)
    yield "|" + "".join("---:|" if each == "r" else "---|" for each in align or "l" + "r" * (len(heads) - 1))
    yield from map(line, rows)


def line(cells: Iterable[str]) -> str:
    """The line of some cells."""
    return "|" + "".join(f" {each} |" if each else " |" for each in cells)
