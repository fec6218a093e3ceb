# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rate against size: a line for each contender, and the measured peak above them. And what all pictures share."""

from __future__ import annotations

import io
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench.peers import EXTRA
from tilewright.bench.rows import OURS, Rates, Row
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg")
"""The formats, by suffix."""


_MARKERS = "os^Dvp*X"


def require_suffix(path: Path) -> str:
    """The format that the suffix of `path` says; called ahead of a run, it spares a measurement that cannot be drawn.

    Raises:
        TilewrightError: The suffix is neither ``.png`` nor ``.svg``.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise TilewrightError(
            f"cannot draw {path.name!r}", where="plot", expected=f"a name ending in {' or '.join(SUFFIXES)}"
        )
    return path.suffix.lower()[1:]


def figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches.

    Raises:
        TilewrightError: matplotlib is absent.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TilewrightError(
            "matplotlib is not installed", where="plot", remedy=f"Install it with: pip install 'tilewright[{EXTRA}]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def save(drawn: Figure, path: Path) -> None:
    """Writes a figure, its format by the suffix.

    Raises:
        TilewrightError: The suffix is unknown, or `path` cannot be written.
    """
    kind = require_suffix(path)
    data = io.BytesIO()
    drawn.savefig(data, format=kind, dpi=90)
    try:
        path.write_bytes(data.getvalue())
    except OSError as error:
        raise TilewrightError(f"cannot write {path}: {error.strerror or error}", where="plot") from None


def gflops(rows: Sequence[Row], path: Path) -> None:
    """Draws the rates of one run to `path`, its format by the suffix; the bars span the 20th to the 80th percentile.

    Where there are cubes among other shapes, the line joins the cubes, because shapes of the same size differ by their form.

    Raises:
        TilewrightError: There is nothing to draw, the suffix is unknown, matplotlib is absent, or `path` cannot be written.
    """
    require_suffix(path)
    if not rows:
        raise TilewrightError("nothing was measured", where="plot", expected="at least one shape")
    drawn = figure(8, 5)
    axes = drawn.add_subplot()
    ordered = sorted(rows, key=lambda row: row.shape.size)
    axes.axhline(
        statistics.median(row.peak.median for row in ordered),
        color="black",
        linestyle="--",
        linewidth=1,
        label="measured peak",
    )
    joined = [row for row in ordered if row.shape.m == row.shape.n == row.shape.k] or ordered
    names = [OURS, *dict.fromkeys(name for row in ordered for name in row.peers)]
    for index, name in enumerate(names):
        points = [(row.shape.size, rates) for row in ordered if (rates := _rates(row, name)) is not None]
        line = [(row.shape.size, rates.median) for row in joined if (rates := _rates(row, name)) is not None]
        colour = f"C{index}"
        axes.errorbar(
            [size for size, _ in points],
            [rates.median for _, rates in points],
            yerr=[
                [rates.median - rates.percentile(20) for _, rates in points],
                [rates.percentile(80) - rates.median for _, rates in points],
            ],
            fmt=_MARKERS[index % len(_MARKERS)],
            color=colour,
            markersize=5,
            elinewidth=1,
            capsize=2,
            label=name,
        )
        axes.plot(
            [size for size, _ in line], [rate for _, rate in line], color=colour, linewidth=2 if name == OURS else 1
        )
    first = ordered[0]
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("size, the cube root of M·N·K")
    axes.set_ylabel("GFLOP/s (median; bars p20–p80)")
    axes.set_title(title([first]))
    axes.grid(alpha=0.3)
    axes.legend()
    save(drawn, path)


def title(rows: Sequence[Row]) -> str:
    """What the rows of a picture have in common."""
    parts = [
        ", ".join(dict.fromkeys(row.dtype for row in rows)),
        " and ".join(dict.fromkeys("1 thread" if row.threads == 1 else f"{row.threads} threads" for row in rows)),
        " and ".join(dict.fromkeys(row.cache for row in rows)),
        " and ".join(dict.fromkeys("B packed ahead" if row.packed else "B packed on the fly" for row in rows)),
    ]
    return "; ".join(parts)


def _rates(row: Row, name: str) -> Rates | None:
    if name == OURS:
        return row.ours
    return row.peers[name].rates if name in row.peers else None
