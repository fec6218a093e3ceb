# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of chosen shapes, and the words that sentences about results are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from published import Machine
from tilewright.bench.plot import type_name
from tilewright.bench.rows import Row

TYPES = ("f32", "bf16", "u8,i8,i32")
"""The columns of tables."""


def by_type(machine: Machine, threads: int = 1) -> dict[str, list[Row]]:
    """Products in row-major order with hot operands and B packed by the call, by element type."""
    found = {
        dtype: [
            row
            for row in machine.plain
            if (row.dtype, row.threads, row.cache, row.packed, row.layout) == (dtype, threads, "hot", False, "nn")
        ]
        for dtype in TYPES
    }
    return {dtype: rows for dtype, rows in found.items() if rows}


def table(
    rows: Mapping[str, Sequence[Row]], shapes: Sequence[str], columns: Mapping[str, Callable[[Row], str]]
) -> Iterator[str]:
    """A line for each shape that was measured, and the same columns for each type."""
    yield "| M×N×K | " + " | ".join(f"{type_name(dtype)}, {' | '.join(columns)}" for dtype in rows) + " |"
    yield "|---|" + "---:|" * (len(columns) * len(rows))
    for shape in shapes:
        found = [next((row for row in every if str(row.shape) == shape), None) for every in rows.values()]
        if any(found):
            cells = (" | ".join(write(row) if row else "" for write in columns.values()) for row in found)
            yield f"| {times(shape)} | {' | '.join(cells)} |"


def best(row: Row) -> str:
    """Our rate over that of the fastest library, or "" without libraries."""
    ratio = row.ratio_to_best
    return "" if ratio is None else f"{ratio:.2f}"


def times(shape: str) -> str:
    """A shape with the sign of multiplication."""
    return shape.replace("x", "×")


def between(numbers: Iterable[float], digits: int = 2) -> str:
    """The least and the largest number: "0.96 to 1.02", or one where both look the same."""
    found = sorted(numbers)
    return " to ".join(dict.fromkeys(f"{each:.{digits}f}" for each in (found[0], found[-1])))


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
