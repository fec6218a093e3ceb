# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every picture of a run, into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench import plot
from tilewright.bench.heat_map import ratios
from tilewright.bench.report import groups
from tilewright.bench.roofline import roofline
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draws rates against size for each table, rooflines of what is hot and packed on the fly, and maps of ratios.

    There is a map for each number of threads and cache; it has all types side by side.

    Returns:
        The files: ``gflops-f32-1t-hot.png``, ``roofline-f32-1t-hot.png``, ``ratios-1t-hot.png`` and so on.

    Raises:
        TilewrightError: matplotlib is absent, or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(f"cannot make {folder}: {error.strerror or error}", where="plot") from None
    made: list[Path] = []
    maps: dict[str, list[Row]] = {}
    for group, members in groups(rows).items():
        made.append(folder / f"gflops-{group.slug}.png")
        plot.gflops(members, made[-1])
        if not group.cold and not group.packed:
            made.append(folder / f"roofline-{group.slug}.png")
            roofline(members, made[-1])
        maps.setdefault(f"{group.threads}t-{'cold' if group.cold else 'hot'}", []).extend(members)
    for name, members in maps.items():
        if any(row.peers for row in members):
            made.append(folder / f"ratios-{name}.png")
            ratios(members, made[-1])
    return made
