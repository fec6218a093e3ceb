# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws what the choices of a library of a largest size take, and how much time they lose."""

from __future__ import annotations

from pathlib import Path

from tilewright.bench import plot
from tilewright.errors import TilewrightError
from tilewright.libraries.packages import Contents

_KILOBYTE = 1024


def draw(contents: Contents, path: Path) -> None:
    """Draws the bytes of code of every choice against the time that it loses, and marks the one that was taken.

    Raises:
        TilewrightError: The library has no largest size, and so no choices; or as for `plot.save`.
    """
    if not contents.curve:
        remedy = "Give one, by --max-size or max_size in the list"
        raise TilewrightError(
            f"{contents.name} has no largest size", where="plot", expected="choices to draw", remedy=remedy
        )
    drawn = plot.figure(7, 4.5)
    axes = drawn.add_subplot()
    points = [(each.bytes / _KILOBYTE, 100 * each.regret) for each in contents.curve]
    axes.step(*zip(*points, strict=True), where="post", color=plot.INK, linewidth=1)
    axes.plot(*zip(*points, strict=True), "o", color=plot.AHEAD, markersize=4, label="a choice")
    taken = [point for point, each in zip(points, contents.curve, strict=True) if each.shares == contents.shares]
    axes.plot(*zip(*taken, strict=True), "D", color=plot.BEHIND, markersize=9, label="this library")
    axes.set_xlabel("code, KiB")
    axes.set_ylabel("time lost, %")
    axes.set_ylim(bottom=min(0, *(regret for _, regret in points)))
    axes.set_title(f"{contents.name}: {len(contents.kernels)} kernels, size against time", fontsize=12)
    axes.grid(color=plot.GRID)
    axes.set_axisbelow(True)
    axes.legend(fontsize=9)
    plot.save(drawn, path)
