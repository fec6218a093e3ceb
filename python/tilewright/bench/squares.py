# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws percent of the measured peak against size for square products, a line for each element type."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.rows import OURS, Rates, Row
from tilewright.errors import TilewrightError


def square(row: Row) -> bool:
    """Whether it is a square product, one by one."""
    return row.shape.m == row.shape.n == row.shape.k and not row.shape.batch


def squares(rows: Sequence[Row], path: Path, source: str = "") -> None:
    """Draws the squares among rows that differ in shape and type only; bars span the 20th to the 80th percentile.

    Raises:
        TilewrightError: There is no square, or as for `plot.save`.
    """
    lines: dict[str, list[Row]] = {}
    for row in sorted(filter(square, rows), key=lambda row: row.shape.m):
        lines.setdefault(row.dtype, []).append(row)
    if not lines:
        raise TilewrightError("no square product was measured", where="plot", expected="M, N and K alike")
    drawn = plot.figure(9, 4.2)
    axes = drawn.add_subplot()
    axes.axhline(100, color=plot.INK, linewidth=1, linestyle="--")
    for dtype, members in lines.items():
        shares = [_percent(row) for row in members]
        axes.errorbar(
            [row.shape.m for row in members],
            [each.median for each in shares],
            yerr=[
                [each.median - each.percentile(20) for each in shares],
                [each.percentile(80) - each.median for each in shares],
            ],
            marker="o",
            markersize=5,
            linewidth=2,
            elinewidth=1,
            capsize=3,
            color=plot.color(dtype, list(lines)),
            label=plot.type_name(dtype),
        )
    sizes = [row.shape.m for members in lines.values() for row in members]
    ticks = [2**power for power in range((min(sizes) - 1).bit_length() - 1, max(sizes).bit_length())]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, list(map(str, ticks)), fontsize=11)
    axes.minorticks_off()
    axes.set_ylim(0, 108)
    axes.set_yticks(range(0, 101, 20), [f"{percent} %" for percent in range(0, 101, 20)], fontsize=11)
    axes.set_xlabel("M = N = K", fontsize=11)
    axes.set_title(f"{OURS}: percent of the measured peak; {plot.title(rows)}", fontsize=12)
    axes.grid(color=plot.GRID)
    axes.set_axisbelow(True)
    axes.legend(fontsize=11, loc="lower right")
    drawn.supxlabel(plot.where(rows), fontsize=9, color=plot.INK)
    plot.save(drawn, path, source)


def _percent(row: Row) -> Rates:
    """Percent of the peak in each round."""
    return Rates(tuple(100 * ours / peak for ours, peak in zip(row.ours.rounds, row.peak.rounds, strict=True)))
