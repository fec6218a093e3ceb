# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What README says of speed: a sentence, a picture, five shapes, and the losses."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from published import PICTURES, Machine, span
from tilewright.bench.plot import type_name
from tilewright.bench.report import Summary, summary
from tilewright.bench.rows import PLAIN, Row
from tilewright.bench.squares import square

TYPES = ("f32", "bf16", "u8,i8,i32")
"""The columns."""
SHAPES = ("64x64x64", "1024x1024x1024", "4096x4096x4096", "128x768x3072", "1x4096x4096")
"""The lines: small, middle and large squares, a layer of BERT, and a matrix by a vector."""
_BIG = 512  # from here on several threads have enough to do


def speed(machine: Machine, page: Path) -> Iterator[str]:
    """The lines, for a page at `page`, relative to the checkout's root."""
    tables = {dtype: _one_thread(machine, dtype) for dtype in TYPES}
    tables = {dtype: rows for dtype, rows in tables.items() if rows}
    sums = {dtype: summary(rows) for dtype, rows in tables.items()}
    every = [row for rows in tables.values() for row in rows]
    peers = dict.fromkeys(name for row in every for name in row.peers if name != PLAIN)
    peaks = (
        f"{statistics.median(row.peak.median for row in rows):.0f} in {_name(dtype)}" for dtype, rows in tables.items()
    )
    picture = os.path.relpath(PICTURES / machine.slug / "bars-1t-hot.png", page.parent)
    yield f"Measured {span(every)} on {machine.description}: one thread, hot operands, B packed on the fly, beside"
    yield f"{_listed(list(peers))}, in turn, each in a process of its own. The peak is that of a loop"
    yield f'of nothing but multiply-adds in the same rounds, in GFLOP/s {_listed(list(peaks))}; "× best" is our rate over'
    yield "that of whichever library was fastest at that shape and type."
    yield ""
    yield from _table(tables, sums)
    yield ""
    yield from _losses(sums)
    yield from _threads(machine)
    yield ""
    yield f"![Our speed over that of the best other library, by shape and type]({picture})"


def _one_thread(machine: Machine, dtype: str) -> list[Row]:
    """Products of a type on one thread, hot, with B as it comes, in row-major order."""
    return [
        row
        for row in machine.plain
        if (row.dtype, row.threads, row.cache, row.packed, row.layout) == (dtype, 1, "hot", False, "nn")
    ]


def _table(tables: dict[str, list[Row]], sums: dict[str, Summary]) -> Iterator[str]:
    yield "| M×N×K | " + " | ".join(f"{_name(dtype)}, % of peak | × best" for dtype in tables) + " |"
    yield "|---|" + "---:|" * (2 * len(tables))
    for shape in SHAPES:
        found = [next((row for row in rows if str(row.shape) == shape), None) for rows in tables.values()]
        if not any(found):
            continue
        cells = map(_cells, found)
        yield f"| {shape.replace('x', '×')} | " + " | ".join(cells) + " |"
    means = [f"{each.percent_of_peak:.0f} | {each.best.geomean:.2f}" if each.best else " | " for each in sums.values()]
    count = max(each.shapes for each in sums.values())
    yield f"| {count} shapes: median; geometric mean | " + " | ".join(means) + " |"


def _cells(row: Row | None) -> str:
    if row is None:
        return " | "
    ratio = row.ratio_to_best
    return f"{row.percent_of_peak:.0f} | {'' if ratio is None else f'{ratio:.2f}'}"


def _losses(sums: dict[str, Summary]) -> Iterator[str]:
    """Where another library was faster."""
    shapes = sum(each.shapes for each in sums.values())
    lost = {dtype: each.losses for dtype, each in sums.items() if each.losses}
    count = sum(map(len, lost.values()))
    if not count:
        yield f"No library was faster at any of {shapes} shapes and types."
        return
    yield f"Another library was faster at {count} of {shapes} shapes and types:"
    for dtype, found in lost.items():
        end = "." if dtype == list(lost)[-1] else ";"
        shown = (f"{each.shape.replace('x', '×')} {each.ratio:.2f} ({each.peer})" for each in found)
        yield f"{_name(dtype)} {', '.join(shown)}{end}"


def _threads(machine: Machine) -> Iterator[str]:
    """What several threads reach of the peak of as many cores, from the least to the most square."""
    counts = sorted({row.threads for row in machine.plain if row.threads > 1})
    for count in counts:
        rows = [
            row
            for row in machine.plain
            if row.threads == count and row.cache == "hot" and not row.packed and square(row) and row.shape.m >= _BIG
        ]
        parts = [
            f"{' to '.join(dict.fromkeys(f'{each:.0f}' for each in (min(percents), max(percents))))} % in {_name(dtype)}"
            for dtype in TYPES
            if (percents := [row.percent_of_peak for row in rows if row.dtype == dtype])
        ]
        if parts:
            yield f"On {count} threads, squares from {_BIG} up reach of the peak of {count} cores {_listed(parts)}."


def _name(dtype: str) -> str:
    return type_name(dtype)


def _listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
