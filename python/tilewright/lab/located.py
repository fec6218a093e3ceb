# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads from the text of IR which line of the schedule made each of its lines, and takes the locations out of the text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.emit.assembly import ORIGIN

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_REFERENCE = re.compile(r"#loc\d*")
_STEP = re.compile(r'"step"\((?:(#loc\d*)|"((?:[^"\\]|\\.)*)":(\d+):\d+)\)')
_FILE = re.compile(r'^"((?:[^"\\]|\\.)*)":(\d+):\d+')
_START = " loc("

Lines = list[tuple[str, str]]
"""The lines of a text, each with the line of the schedule that made it ("schedule.py:12"), or nothing."""


def mlir(text: str) -> Lines:
    """The lines of MLIR that was printed with its locations."""
    places: dict[str, str] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if found := _ALIAS.match(line):
            places[found[1]] = found[2]
        else:
            lines.append(line)
    known: dict[str, str] = {}
    made: Lines = []
    open_lines: list[list[int]] = []
    for line in lines:
        shown, said = _apart(line)
        source = next(filter(None, (_step(each, places, known) for each in said[-1:])), "")
        body = shown.strip()
        opened = open_lines.pop() if body.startswith("}") and open_lines else []
        if body.endswith("{"):
            open_lines.append([*opened, len(made)])
        made.append((shown, source))
        for number in opened if source else ():
            made[number] = made[number][0], source
    return made


def assembly(text: str, comment: str) -> Iterator[tuple[str, str]]:
    """The lines of assembly that `attribution.annotated` made; a source has the loops around it too: "schedule.py:12 in jr, ir"."""
    mark = f" {comment} {ORIGIN}"
    for line in text.splitlines():
        shown, _, said = line.partition(mark)
        yield shown, said


def _apart(line: str) -> tuple[str, list[str]]:
    """A line without its locations, and these."""
    said: list[str] = []
    while (start := line.find(_START)) >= 0:
        end = _closing(line, start + len(_START))
        if end is None:
            break
        said.append(line[start + len(_START) : end])
        line = line[:start].rstrip() + line[end + 1 :]
    return line, said


def _closing(line: str, at: int) -> int | None:
    """Where the parenthesis ends in which `at` is."""
    depth, quoted = 1, False
    while at < len(line):
        each = line[at]
        if quoted and each == "\\":
            at += 1
        elif each == '"':
            quoted = not quoted
        elif not quoted:
            depth += (each == "(") - (each == ")")
            if depth == 0:
                return at
        at += 1
    return None


def _step(place: str, places: dict[str, str], known: dict[str, str]) -> str:
    """The line of the schedule that a location tells, or nothing. Of an inlined place, its own and not the one that it is inlined at."""
    if place in known:
        return known[place]
    known[place] = ""
    body = places.get(place, place)
    if found := _STEP.search(body):
        file = _FILE.match(places.get(found[1], "")) if found[1] else None
        known[place] = f"{found[2]}:{found[3]}" if found[2] else f"{file[1]}:{file[2]}" if file else ""
    else:
        references = _REFERENCE.findall(body.split(" at ")[0])
        known[place] = next(filter(None, (_step(each, places, known) for each in references)), "")
    return known[place]
