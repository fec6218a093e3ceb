# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the blocks of a schedule to scale, as SVG: cache blocks in the matrices, the register tile in a block, vectors in the tile."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilewright.lab.moves import caches
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_SIDE = 190.0
"""The longest side of a drawn matrix, in pixels."""
_LEAST = 1.5
"""The least width and height of what is drawn, so that it can be seen."""
_GAP, _TOP, _LINE = 26.0, 34.0, 15.0
_COLORS = {"A": "#1c8f7a", "B": "#b8860b", "C": "#2a66c8"}
"""Readable on light and on dark pages."""
_MOST_LINES = 24
"""The most vectors or rows that are drawn one by one."""


@dataclass(frozen=True, slots=True)
class Level:
    """A block of a product, drawn with the smaller block in it.

    Attributes:
        title: What it is.
        m: Its rows.
        n: Its columns.
        k: Its depth.
        inner: The rows, columns and depth of the smaller block; None where there is none.
        note: What is said below.
        lanes: Elements of a vector along N, drawn as lines; 0 for none.
    """

    title: str
    m: int
    n: int
    k: int
    inner: tuple[int, int, int] | None
    note: str
    lanes: int = 0


def levels(
    extents: tuple[int, int, int],
    sizes: Mapping[str, int],
    lanes: int,
    bytes_of: Mapping[str, int],
    caches: Mapping[str, int],
) -> list[Level]:
    """The levels of a schedule with the sizes of a register tile, or none without.

    Args:
        extents: M, N and K.
        sizes: The schedule's, by name; those that are missing are the extents.
        lanes: Elements of a vector of sums.
        bytes_of: Bytes of an element of A, B and C.
        caches: Bytes of each cache.
    """
    m, n, k = extents
    if not {"mr", "nr"} <= sizes.keys() or 0 in extents:
        return []
    mc, nc, kc = (min(sizes.get(name, whole), whole) for name, whole in (("mc", m), ("nc", n), ("kc", k)))
    mr, nr = min(sizes["mr"], mc), min(sizes["nr"], nc)
    found = []
    if (mc, nc, kc) != (m, n, k):
        whole = m * k * bytes_of["A"] + k * n * bytes_of["B"] + m * n * bytes_of["C"]
        found.append(Level(f"the product, {m}×{n}×{k}", m, n, k, (mc, nc, kc), f"{_size(whole)} in all"))
    a, b = mc * kc * bytes_of["A"], kc * nc * bytes_of["B"]
    parts = ", ".join((_part("A", a, caches), _part("B", b, caches)))
    found.append(Level(f"a block, {mc}×{nc}×{kc}", mc, nc, kc, (mr, nr, kc), parts))
    if mr * nr == 1:
        return found
    vectors = -(-nr // lanes)
    registers = f"{mr}×{vectors} registers of {lanes} sums" if lanes <= nr else f"{mr}×{nr} sums"
    found.append(Level(f"the register tile, {mr}×{nr}", mr, nr, 1, None, registers, lanes))
    return found


def of(spec: MatmulSpec, target: Target, sizes: Mapping[str, int]) -> list[Level]:
    """The levels of a schedule; none where extents are dynamic, or the schedule has no register tile."""
    m, n, k = (each if isinstance(each, int) else 0 for each in (spec.m, spec.n, spec.k))
    elements = {"A": spec.a_type, "B": spec.b_type, "C": spec.c_type}
    bytes_of = {name: max(1, each.bits // 8) for name, each in elements.items()}
    return levels((m, n, k), sizes, target.lanes(spec.acc_type), bytes_of, caches(target))


def svg(drawn: list[Level]) -> str:
    """The levels side by side, each at a scale of its own; A is left of C, and B above it."""
    parts: list[str] = []
    x = height = 0.0
    for level in drawn:
        scale = _SIDE / max(level.m, level.n, level.k)
        width = _extent(level.k, scale) + _GAP / 2 + _extent(level.n, scale)
        tall = _extent(level.k, scale) + _GAP / 2 + _extent(level.m, scale)
        text = max(len(level.title), len(level.note)) * 6.6
        parts += [f'<g transform="translate({x:.1f} 0)">', *_drawn(level, scale), "</g>"]
        x += max(width, text) + _GAP
        height = max(height, tall)
    height += _TOP + _LINE + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {x:.0f} {height:.0f}" width="{x:.0f}" height="{height:.0f}"'
        ' role="img" aria-label="Blocks of the schedule, to scale" font-family="system-ui, sans-serif" font-size="12">'
        + "".join(parts)
        + "</svg>\n"
    )


def _drawn(level: Level, scale: float) -> Iterator[str]:
    """One level: A of M by K, B of K by N, and C of M by N, each with the smaller block shaded."""
    m, n, k = (_extent(each, scale) for each in (level.m, level.n, level.k))
    left, top = k + _GAP / 2, _TOP + k + _GAP / 2
    yield f'<text x="0" y="13" fill="currentColor" font-weight="600">{html.escape(level.title)}</text>'
    inner = level.inner or (0, 0, 0)
    small = [_extent(each, scale) if each else 0.0 for each in inner]
    places = {"A": (0.0, top, k, m, small[2], small[0]), "B": (left, _TOP, n, k, small[1], small[2])}
    places["C"] = (left, top, n, m, small[1], small[0])
    for name, (x, y, width, height, inside, down) in places.items():
        color = _COLORS[name]
        yield _box(x, y, width, height, color, 0.16)
        if inside:
            yield _box(x, y, min(inside, width), min(down, height), color, 0.6)
        if min(width, height) > 2 * _LINE:
            yield f'<text x="{x + width - 12:.1f}" y="{y + height - 5:.1f}" fill="currentColor">{name}</text>'
    if level.lanes:
        yield from _lines(level, left, top, n, m)
    yield f'<text x="0" y="{top + m + _LINE:.1f}" fill="currentColor" opacity="0.75">{html.escape(level.note)}</text>'


def _lines(level: Level, x: float, y: float, width: float, height: float) -> Iterator[str]:
    """The vectors of a register tile: lines between rows, and between vectors of a row."""
    ends = [column / level.n for column in range(level.lanes, level.n, level.lanes)]
    if len(ends) <= _MOST_LINES and level.m <= _MOST_LINES:
        for end in ends:
            yield _line(x + width * end, y, x + width * end, y + height)
        for row in range(1, level.m):
            yield _line(x, y + height * row / level.m, x + width, y + height * row / level.m)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_COLORS["C"]}"/>'


def _box(x: float, y: float, width: float, height: float, color: str, opacity: float) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"'
        f' fill-opacity="{opacity}" stroke="{color}"/>'
    )


def _extent(count: int, scale: float) -> float:
    return max(_LEAST, count * scale)


def _part(name: str, nbytes: int, caches: Mapping[str, int]) -> str:
    """How large a block of an operand is, and what part of the smallest cache that holds it."""
    fits = next(((cache, size) for cache, size in caches.items() if nbytes <= size), None)
    where = f", {nbytes / fits[1]:.0%} of {fits[0]}" if fits else ", in no cache"
    return f"{name} {_size(nbytes)}{where}"


def _size(nbytes: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes / size:.4g} {unit}"
    return f"{nbytes} B"
