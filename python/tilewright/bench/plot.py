# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common style of all pictures, and how they are written."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.bench.peers import EXTRA
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 160
SOURCE = "Source"
"""The field of a PNG that says which results it was drawn from."""
INK = "#1f2328"
GRID = "#d0d7de"
BEHIND = "#c05a1b"
AHEAD = "#0f6a9c"
COLORS: Mapping[str, str] = MappingProxyType({"f32": "#0f6a9c", "bf16": "#c05a1b", "u8,i8,i32": "#4f7a28"})
"""A color for each type that is always drawn, told apart also by the color-blind; others take what is left."""
_OTHERS = ("#7a4fa3", "#8c6d1f", "#a3325b", "#5b6770", "#2a7f78")


def color(dtype: str, others: Sequence[str]) -> str:
    """The color of a type among those of a picture."""
    if dtype in COLORS:
        return COLORS[dtype]
    free = [each for each in others if each not in COLORS]
    return _OTHERS[free.index(dtype) % len(_OTHERS)]


def type_name(dtype: str) -> str:
    """What a picture calls a type: "u8×i8" for "u8,i8,i32", "bf16 to bf16" for "bf16,bf16,bf16"."""
    if "," not in dtype:
        return dtype
    a, b, c = dtype.split(",")
    return f"{a}×{b}" if a != b else f"{a} to {c}"


def figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches, of which a page shows ninety pixels each.

    Raises:
        TilewrightError: matplotlib is absent.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise TilewrightError(
            "matplotlib is not installed", where="plot", remedy=f"Install it with: pip install 'tilewright[{EXTRA}]'"
        ) from None
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def save(drawn: Figure, path: Path, source: str = "") -> None:
    """Writes a figure as PNG, or as SVG where the suffix says so. It says what it was drawn from, and nothing of when.

    Raises:
        TilewrightError: `path` cannot be written.
    """
    data = io.BytesIO()
    kind, absent = ("svg", "Date") if path.suffix.lower() == ".svg" else ("png", "Software")
    drawn.savefig(data, format=kind, dpi=DPI, metadata={SOURCE: source, absent: None})
    try:
        path.write_bytes(data.getvalue())
    except OSError as error:
        raise TilewrightError(f"cannot write {path}: {error.strerror or error}", where="plot") from None


def title(rows: Sequence[Row]) -> str:
    """What the rows of a picture have in common, but for their types."""
    parts = [
        " and ".join(dict.fromkeys("one thread" if row.threads == 1 else f"{row.threads} threads" for row in rows)),
        " and ".join(dict.fromkeys(row.cache for row in rows)),
        " and ".join(dict.fromkeys("B packed ahead" if row.packed else "B packed on the fly" for row in rows)),
        *dict.fromkeys(row.epilogue for row in rows if row.epilogue),
    ]
    return ", ".join(parts)


def where(rows: Sequence[Row]) -> str:
    """On which machine and when: what stands below a picture."""
    machines = dict.fromkeys(", ".join(_short(row.machine)) for row in rows if row.machine)
    dates = sorted({row.date[:10] for row in rows if row.date})
    span = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else ""
    return "; ".join([*machines, *([span] if span else [])])


def _short(machine: str) -> list[str]:
    """A machine's line without its caches."""
    return [part for part in machine.split(", ") if not part.startswith(("L1", "L2", "L3"))]
