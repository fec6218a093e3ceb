# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws our rate over that of the best other library as a heat map of shapes by element types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

_FAR = 2.0  # times as fast or as slow: the ends of the colors
TINTS = ("#f0945d", "#fbe3d3", "#ffffff", "#d5e8f3", "#7fb8d8")
"""From losses to gains, through white at 1; all are light, so that dark text reads on each."""


def ratios(rows: Sequence[Row], path: Path, source: str = "") -> None:
    """Draws the ratios of rows that differ in shape and type only; blue where we are ahead, orange where behind.

    Raises:
        TilewrightError: No row has a peer, or as for `plot.save`.
    """
    found = {(str(row.shape), row.dtype): ratio for row in rows if (ratio := row.ratio_to_best) is not None}
    if not found:
        raise TilewrightError("no peer was measured", where="plot", expected="at least one peer")
    shapes = list(dict.fromkeys(shape for shape, _ in found))
    types = list(dict.fromkeys(dtype for _, dtype in found))
    drawn = plot.figure(max(5.5, 3.2 + 1.25 * len(types)), 1.9 + 0.25 * len(shapes))
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    axes = drawn.add_subplot()
    values = np.array([[found.get((shape, dtype), np.nan) for dtype in types] for shape in shapes])
    far = np.log2(_FAR)
    tints = LinearSegmentedColormap.from_list("losses to gains", TINTS).with_extremes(bad="#eceff2")
    cells = axes.imshow(np.log2(np.clip(values, 1 / _FAR, _FAR)), cmap=tints, vmin=-far, vmax=far, aspect="auto")
    for line, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        axes.text(column, line, f"{values[line, column]:.2f}", ha="center", va="center", fontsize=9.5, color=plot.INK)
    axes.set_xticks(range(len(types)), [plot.type_name(dtype) for dtype in types], fontsize=11)
    axes.set_yticks(range(len(shapes)), [shape.replace("x", "×") for shape in shapes], fontsize=9.5)
    axes.set_xticks(np.arange(len(types) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(shapes) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    axes.xaxis.tick_top()
    bar = drawn.colorbar(cells, ax=axes, extend="both", shrink=0.6, aspect=30, pad=0.03)
    marks = (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2)
    bar.set_ticks([float(np.log2(mark)) for mark in marks], labels=[f"{mark:g}×" for mark in marks], fontsize=9.5)
    bar.ax.minorticks_off()
    drawn.suptitle(f"times the speed of the best other library;\n{plot.title(rows)}", fontsize=11)
    drawn.supxlabel(plot.where(rows), fontsize=8, color=plot.INK)
    plot.save(drawn, path, source)
