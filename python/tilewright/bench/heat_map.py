# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Our speed over that of the best peer, as a map: a line for each shape, a column for each element type and way to pack B."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

_FAR = 2.0  # times as fast or as slow: the ends of the colours


def ratios(rows: Sequence[Row], path: Path) -> None:
    """Draws the ratios of rows that differ in shape, type and packing only; green where we are ahead, red where behind.

    Raises:
        TilewrightError: No row has a peer, or as for `plot.save`.
    """
    found = {(str(row.shape), _column(row)): ratio for row in rows if (ratio := row.ratio_to_best) is not None}
    if not found:
        raise TilewrightError("no peer was measured", where="plot", expected="at least one peer")
    import numpy as np

    shapes = list(dict.fromkeys(shape for shape, _ in found))
    columns = list(dict.fromkeys(column for _, column in found))
    drawn = plot.figure(2.5 + 0.75 * len(columns), 1.5 + 0.2 * len(shapes))
    axes = drawn.add_subplot()
    values = np.array([[found.get((shape, column), np.nan) for column in columns] for shape in shapes])
    axes.imshow(
        np.log2(np.clip(values, 1 / _FAR, _FAR)), cmap="RdYlGn", vmin=-np.log2(_FAR), vmax=np.log2(_FAR), aspect="auto"
    )
    for line, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        axes.text(column, line, f"{values[line, column]:.2f}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(len(columns)), columns, fontsize=7)
    axes.set_yticks(range(len(shapes)), shapes, fontsize=7)
    axes.xaxis.tick_top()
    first = rows[0]
    threads = "1 thread" if first.threads == 1 else f"{first.threads} threads"
    axes.set_title(f"times the best peer; {threads}, {first.cache}", fontsize=9)
    plot.save(drawn, path)


def _column(row: Row) -> str:
    return f"{row.dtype}\npacked" if row.packed else row.dtype
