# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws every picture of a run into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tilewright.bench.bars import bars
from tilewright.bench.heat_map import ratios
from tilewright.bench.report import groups
from tilewright.bench.roofline import roofline
from tilewright.bench.rows import Row
from tilewright.bench.squares import square, squares
from tilewright.errors import TilewrightError


def names(rows: Sequence[Row]) -> list[str]:
    """What `draw` makes of these rows: ``squares-1t-hot.png``, ``roofline-f32-1t-hot.png`` and so on."""
    return [f"{kind}-{slug}.png" for kind, slug, _ in _every(rows)]


def draw(rows: Sequence[Row], folder: Path, source: str = "") -> list[Path]:
    """Draws, for each way to measure, percent of peak of the squares, and ratios as bars and as a map; and each type's roofline.

    Args:
        rows: Of one machine.
        folder: Where to; it is made.
        source: What each picture says that it was drawn from.

    Returns:
        The files, as `names` says.

    Raises:
        TilewrightError: matplotlib is absent, or a file cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TilewrightError(f"cannot make {folder}: {error.strerror or error}", where="plot") from None
    made: list[Path] = []
    for kind, slug, members in _every(rows):
        made.append(folder / f"{kind}-{slug}.png")
        _KINDS[kind](members, made[-1], source)
    return made


_KINDS = {"squares": squares, "bars": bars, "ratios": ratios, "roofline": roofline}


def _every(rows: Sequence[Row]) -> list[tuple[str, str, list[Row]]]:
    """Kind, name and rows of each picture."""
    ways: dict[str, list[Row]] = {}
    for group, members in groups(rows).items():
        ways.setdefault(group.way, []).extend(members)
    found: list[tuple[str, str, list[Row]]] = []
    for way, members in ways.items():
        found += [("squares", way, members)] if any(map(square, members)) else []
        found += [(kind, way, members) for kind in ("bars", "ratios") if any(row.best_peer for row in members)]
    return found + [
        ("roofline", group.slug, members)
        for group, members in groups(rows).items()
        if not (group.cold or group.packed or group.epilogue)
    ]
