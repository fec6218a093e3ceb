# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws our rate over that of the best other library as sorted horizontal bars; losses go to the left of 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench import plot
from tilewright.bench.report import LOSS
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST, _MOST = 0.5, 4.0
"""The ends of the axis, at least and at most; a bar beyond is cut, and its number says how far it goes."""
_PANELS = 3
"""Side by side."""


def bars(rows: Sequence[Row], path: Path, source: str = "") -> None:
    """Draws the ratios of rows that differ in shape and type only, a panel for each type.

    Raises:
        TilewrightError: No row has a peer, or as for `plot.save`.
    """
    panels: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if (ratio := row.ratio_to_best) is not None:
            panels.setdefault(row.dtype, []).append((ratio, str(row.shape).replace("x", "×")))
    if not panels:
        raise TilewrightError("no peer was measured", where="plot", expected="at least one peer")
    columns = min(len(panels), _PANELS)
    lines = -(-len(panels) // columns)
    most = max(map(len, panels.values()))
    drawn = plot.figure(max(5.0, 3.1 * columns), 0.8 + lines * (0.6 + 0.215 * most))
    least = min(_LEAST, *(ratio for every in panels.values() for ratio, _ in every))
    for index, (dtype, every) in enumerate(panels.items()):
        _panel(drawn.add_subplot(lines, columns, index + 1), plot.type_name(dtype), sorted(every), least * 0.8, most)
    apart = " " if columns == _PANELS else "\n"
    drawn.suptitle(f"times the speed of the best other library;{apart}{plot.title(rows)}", fontsize=12)
    drawn.supxlabel(plot.where(rows), fontsize=9, color=plot.INK)
    plot.save(drawn, path, source)


def _panel(axes: Axes, name: str, every: Sequence[tuple[float, str]], least: float, most: int) -> None:
    """One type, the largest ratio on top, with room for so many bars."""
    for place, (ratio, _) in enumerate(every):
        end = min(ratio, _MOST)
        axes.barh(place, end - 1, left=1, height=0.72, color=plot.BEHIND if ratio < LOSS else plot.AHEAD)
        beyond = f"{ratio:.2f}" if ratio <= _MOST else f"{ratio:.1f} →"
        axes.annotate(
            beyond,
            (max(end, 1), place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=plot.INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
    axes.axvline(1, color=plot.INK, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xlim(least, _MOST * 1.75)
    ticks = [tick for tick in (0.25, 0.5, 1, 2, 4) if tick >= least]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=9)
    axes.minorticks_off()
    axes.set_yticks(range(len(every)), [shape for _, shape in every], fontsize=8.5)
    axes.set_ylim(len(every) - most - 0.7, len(every) - 0.3)
    axes.tick_params(axis="y", length=0)
    axes.set_title(name, fontsize=11)
    axes.grid(axis="x", color=plot.GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
