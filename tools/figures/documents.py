# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes README and docs from results (`write`), and finds what differs from them (`stale`)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import prose
from published import COMMAND, FOLDER, PICTURES, Machine, load
from texts import BLOCK, BLOCKS, outside, texts
from tilewright.bench import pictures
from tilewright.bench.plot import SOURCE
from tilewright.errors import TilewrightError

WRITE = "make bench-docs"
"""What calls `write`."""


def write(root: Path) -> list[Path]:
    """Writes every text and picture, and removes pictures that nothing shows any more.

    Returns:
        What was written, below `root`.

    Raises:
        TilewrightError: There are no results, they are bad, or matplotlib is absent.
    """
    machines = load(root)
    if not machines:
        raise TilewrightError(f"there are no results in {FOLDER}", where=WRITE, remedy=f"Measure: {COMMAND}")
    made = texts(machines, root)
    for machine in machines:
        for rows in (machine.plain, machine.fused):
            pictures.draw(rows, root / PICTURES / machine.slug, machine.digest)
    for path in _pictures(root) - _expected(machines).keys():
        (root / path).unlink()
    for path, text in made.items():
        (root / path).write_text(text, encoding="utf-8")
    return [*made, *_expected(machines)]


def stale(root: Path) -> Iterator[str]:
    """What is not as results say, and measured figures that were written by hand."""
    machines = load(root)
    made = texts(machines, root)
    for path, text in made.items():
        have = (root / path).read_text(encoding="utf-8") if (root / path).exists() else ""
        if have != text:
            yield f"{path} differs from what {WRITE} writes{_first_difference(have, text)}"
    if machines:
        yield from _stale_pictures(root, machines)
    yield from _unused_blocks(root)
    yield from _claims(root, written=set(made))


def _first_difference(have: str, want: str) -> str:
    lines = zip(have.splitlines(), want.splitlines(), strict=False)
    found = next(
        (f", line {number}: {old!r}, not {new!r}" for number, (old, new) in enumerate(lines, 1) if old != new), ""
    )
    return found or ", in length"


def _expected(machines: list[Machine]) -> dict[Path, str]:
    """Each picture, and the digest of the results that it is drawn from."""
    return {
        PICTURES / machine.slug / name: machine.digest
        for machine in machines
        for rows in (machine.plain, machine.fused)
        for name in pictures.names(rows)
    }


def _pictures(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in (root / PICTURES).rglob("*") if path.is_file()}


def _stale_pictures(root: Path, machines: list[Machine]) -> Iterator[str]:
    expected, found = _expected(machines), _pictures(root)
    yield from (f"{path} is missing: {WRITE} draws it" for path in sorted(expected.keys() - found))
    yield from (f"{path} is drawn from nothing: {WRITE} removes it" for path in sorted(found - expected.keys()))
    for path in sorted(expected.keys() & found):
        if source((root / path).read_bytes()) != expected[path]:
            yield f"{path} is drawn from other results: {WRITE} draws it anew"


def source(png: bytes) -> str:
    """What a picture says that it was drawn from, or "" where it says nothing.

    The chunks of text of a PNG are a keyword, a zero and Latin-1 (ISO/IEC 15948, 11.3.3.2).
    """
    place = 8
    while place + 8 <= len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        if kind == b"tEXt" and data.startswith(SOURCE.encode() + b"\0"):
            return data[len(SOURCE) + 1 :].decode("latin-1")
        place += size + 12
    return ""


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def _unused_blocks(root: Path) -> Iterator[str]:
    used = {found["name"] for path in _pages(root) for found in BLOCK.finditer(path.read_text(encoding="utf-8"))}
    yield from (f"no page has the block {name!r}" for name in BLOCKS if name not in used)


def _claims(root: Path, written: set[Path]) -> Iterator[str]:
    """Measured figures outside of what is written from results."""
    for path in _pages(root):
        place, text = path.relative_to(root), path.read_text(encoding="utf-8")
        if place in written and not BLOCK.search(text):
            continue
        for claim in prose.claims(outside(text), place.as_posix()):
            yield (
                f"{place}:{claim.line}: {claim.text!r} is written by hand; expected a block that {WRITE} writes from results,"
                " or the command that measures it; a figure that nobody measures is a row of EXEMPT in tools/figures/prose.py"
            )
