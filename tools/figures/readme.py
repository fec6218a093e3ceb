# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the README says about speed: a picture of squares, the conditions, five shapes, and how often other libraries are faster."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

import sentences
from published import PICTURES, Machine, span
from tables import best, by_type, listed, table, times
from tilewright.bench.plot import type_name
from tilewright.bench.report import Summary, summary
from tilewright.bench.rows import PLAIN

SHAPES = ("64x64x64", "1024x1024x1024", "4096x4096x4096", "128x768x3072", "1x4096x4096")
"""The lines: small, middle and large squares, a layer of BERT, and a vector by a matrix."""


def picture(machine: Machine, page: Path) -> Iterator[str]:
    """Percent of the peak of square products, for a page at `page`, relative to the checkout's root."""
    if not by_type(machine):
        return
    link = os.path.relpath(PICTURES / machine.slug / "squares-1t-hot.png", page.parent)
    yield f"![Percent of the measured peak that square products reach, by size and type]({link})"


def speed(machine: Machine, page: Path) -> Iterator[str]:
    """The conditions, the table, and the losses."""
    rows = by_type(machine)
    sums = {dtype: summary(every) for dtype, every in rows.items()}
    measured = [row for every in rows.values() for row in every]
    if not measured:
        return
    peers = dict.fromkeys(name for row in measured for name in row.peers if name != PLAIN)
    peaks = [
        f"{statistics.median(row.peak.median for row in every):.0f} in {type_name(dtype)}"
        for dtype, every in rows.items()
    ]
    yield f"Measured {span(measured)} on {machine.description}: one thread, hot operands, B packed on the fly, beside"
    yield f"{listed(list(peers))}, in turn, each in a process of its own. The peak is that of a loop"
    yield f'of nothing but multiply-adds in the same rounds, in GFLOP/s {listed(peaks)}; "× best" is our rate over'
    yield "that of whichever library was fastest at that shape and type."
    yield ""
    yield from table(rows, SHAPES, {"% of peak": lambda row: f"{row.percent_of_peak:.0f}", "× best": best})
    means = [f"{each.percent_of_peak:.0f} | {each.best.geomean:.2f}" if each.best else " | " for each in sums.values()]
    yield f"| {max(each.shapes for each in sums.values())} shapes: median; geometric mean | {' | '.join(means)} |"
    yield ""
    yield _losses(sums)
    yield from sentences.threads(machine, page)


def _losses(sums: Mapping[str, Summary]) -> str:
    """How often another library was faster, and where by most."""
    shapes = sum(each.shapes for each in sums.values())
    lost = [(loss, dtype) for dtype, each in sums.items() for loss in each.losses]
    if not lost:
        return f"No library was faster at any of {shapes} shapes and types."
    worst, dtype = min(lost)
    return (
        f"Another library was faster at {len(lost)} of {shapes} shapes and types; at worst we reach {worst.ratio:.2f} of its speed"
        f" ({type_name(dtype)} {times(worst.shape)}, {worst.peer})."
    )
