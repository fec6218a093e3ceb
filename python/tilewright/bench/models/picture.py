# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws where the time of whole models goes, by op: a bar for each compiler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.models.measuring import OURS, Measured, Result

_MOST = 6
"""Parts of a bar that have names; the rest is one."""


def draw(results: Sequence[Result], path: Path) -> None:
    """Draws results, a panel for each.

    Raises:
        TilewrightError: matplotlib is absent, or as for `plot.save`.
    """
    most = max(len(each.contenders) for each in results)
    drawn = plot.figure(9.0, 0.8 + len(results) * (0.9 + 0.42 * most))
    for number, result in enumerate(results):
        axes = drawn.add_subplot(len(results), 1, number + 1)
        every = sorted(result.contenders, key=lambda each: -each.milliseconds)
        for row, each in enumerate(every):
            left = 0.0
            for index, (name, share) in enumerate(shares(each)):
                color = plot.AHEAD if each.name in OURS else plot.BEHIND
                axes.barh(row, share, left=left, color=color, alpha=1 - 0.13 * index, edgecolor="white")
                if share > 0.12 * every[0].milliseconds:
                    axes.text(
                        left + share / 2, row, name, ha="center", va="center", fontsize=6, color="white", clip_on=True
                    )
                left += share
            axes.text(left, row, f" {each.milliseconds:.1f} ms", va="center", fontsize=8, color=plot.INK)
        axes.set_yticks(range(len(every)), [each.name for each in every], fontsize=8)
        axes.set_title(result.title, fontsize=10)
        axes.set_xlim(0, 1.15 * every[0].milliseconds)
        axes.spines[["top", "right"]].set_visible(False)
    drawn.supxlabel("milliseconds a call, by op", fontsize=9, color=plot.INK)
    plot.save(drawn, path, "")


def shares(measured: Measured) -> list[tuple[str, float]]:
    """The parts of a bar: the largest ops by name and the rest, in milliseconds that add up to those of a call."""
    whole = sum(spent for _, spent, _ in measured.parts) or 1.0
    scaled = [(name[:36], spent * measured.milliseconds / whole) for name, spent, _ in measured.parts]
    rest = sum(spent for _, spent in scaled[_MOST:])
    return [*scaled[:_MOST], *([("rest", rest)] if rest else [])]
