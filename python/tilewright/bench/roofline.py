# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the roofline: rate against arithmetic intensity, below the measured peak and bandwidths.

S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore architectures",
Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.rows import OURS, Row
from tilewright.errors import TilewrightError


def roofline(rows: Sequence[Row], path: Path, source: str = "") -> None:
    """Draws our rates of one type and number of threads, and the best peer's. A byte counts once: A and B read, C written.

    Raises:
        TilewrightError: There is nothing to draw, or as for `plot.save`.
    """
    if not rows:
        raise TilewrightError("nothing was measured", where="plot", expected="at least one shape")
    drawn = plot.figure(9, 5)
    axes = drawn.add_subplot()
    intensity = [row.shape.flops / row.bytes_moved for row in rows]
    peak = statistics.median(row.peak.median for row in rows)
    fastest = max(rows[0].bandwidth.values(), default=peak)
    least, most = min(min(intensity) / 2, peak / fastest / 4), max(intensity) * 2  # left of every ridge
    for index, level in enumerate(rows[0].bandwidth):
        speed = statistics.median(row.bandwidth[level] for row in rows if level in row.bandwidth)
        ridge = min(max(peak / speed, least), most)
        axes.plot(
            [least, ridge, most],
            [min(peak, speed * x) for x in (least, ridge, most)],
            color=plot.INK,
            linewidth=1,
            linestyle=("-", "--", "-.", ":")[index % 4],
            label=f"{level}: {speed:.0f} GB/s",
        )
    best = [(x, row.peers[row.best_peer].rates.median) for x, row in zip(intensity, rows, strict=True) if row.best_peer]
    if best:
        axes.plot(*zip(*best, strict=True), "x", color=plot.BEHIND, markersize=6, label="best other library")
    axes.plot(intensity, [row.gflops for row in rows], "o", color=plot.AHEAD, markersize=5, label=OURS)
    axes.axhline(peak, color=plot.INK, linewidth=2, label=f"measured peak: {peak:.0f} GFLOP/s")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("operations a byte of A, B and C")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{plot.type_name(rows[0].dtype)}, {plot.title(rows)}", fontsize=12)
    axes.grid(color=plot.GRID)
    axes.set_axisbelow(True)
    axes.legend(fontsize=9)
    drawn.supxlabel(plot.where(rows), fontsize=9, color=plot.INK)
    plot.save(drawn, path, source)
