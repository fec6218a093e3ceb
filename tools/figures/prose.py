# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Figures in prose that claim a measurement: each section that has one says when and on which machine it was taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NUMBER = r"\d[\d.,]*(?: (?:to|and|of|or|in place of) \d[\d.,]*|–\d[\d.,]*)*"
FIGURE = re.compile(
    "|".join(
        (
            rf"{_NUMBER} ?(?:[GT]FLOP/s|[GT]B/s)",
            rf"{_NUMBER} ?(?:ms|µs|us|ns)\b(?! a sample)",
            rf"{_NUMBER} (?:%|per cent|percent)(?=[^|.;]*\b(?:peak|bandwidth|memory|roof|faster|slower|speed|fast|time|longer)\b)",
            rf"\bcosts? {_NUMBER} %",
            rf"{_NUMBER} times (?:as fast|as long|the (?:rate|speed|time)|slower|faster|numpy|torch|MKL|OpenBLAS|static)",
            r"(?:run|runs|ran|is|are|at) (?:at )?\d\.\d+(?: to \d\.\d+)? (?:of|times) the (?:speed|rate)",
        )
    )
)
"""A rate, a time, a share of a limit, or a ratio of speeds."""
_TABLE = re.compile(r"GFLOP/s|GB/s|\bms\b|\bµs\b|times (?:static|bf16|the best)|of the peak|% of bound")
"""In the head of a table: what is below is measured."""
STATEMENT = re.compile(
    r"[Mm]easured(?: by| until)? \d{4}-\d{2}-\d{2}\b[^.]*? on [^.]*?\b(?:Zen \d|EPYC|Xeon|Neoverse|Core)"
)
"""When and where: "Measured 2026-11-21 on one core of an AMD EPYC (Zen 4)"."""


class Claim(NamedTuple):
    """A figure in prose.

    Attributes:
        line: Where, from 1.
        text: The figure.
        heading: Of its section.
    """

    line: int
    text: str
    heading: str


SETTINGS = (
    ("docs/how-to/benchmark.md", "30 ms"),
    ("docs/how-to/benchmark.md", "5 ms"),
    ("docs/how-to/benchmark.md", "1 ms"),
    ("docs/how-to/threads.md", "10 µs"),
    ("docs/how-to/threads.md", "200 ms"),
    ("docs/how-to/arm.md", "20 ms"),
)
"""Pages and figures that are settings or orders of magnitude, which nobody measured."""


def unexplained(page: str, name: str) -> Iterator[Claim]:
    """The figures of sections that do not say when and where they were measured, nor does the page before its first section.

    Args:
        page: The text.
        name: Its path below the checkout's root, as in `SETTINGS`.
    """
    sections = list(_sections(page))
    if sections and STATEMENT.search(_joined(sections[0][2])):
        return
    for first, heading, lines in sections:
        if not STATEMENT.search(_joined(lines)):
            for number, text in _figures(lines):
                if (name, text) in SETTINGS:
                    continue
                yield Claim(first + number, text, heading)


def _sections(page: str) -> Iterator[tuple[int, str, list[str]]]:
    """First line, heading and lines of each section; what comes before the first one of the second level belongs to the title."""
    start, heading, lines, code = 1, "", [], False
    for number, line in enumerate(page.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        if not code and line.startswith("##"):
            yield start, heading, lines
            start, heading, lines = number, line.lstrip("# "), []
        lines.append(line)
    yield start, heading, lines


def _figures(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Where in a section a figure is, and what it says."""
    for first, block in _blocks(lines):
        if not block[0].startswith("|"):
            text = _joined(block)
            for found in FIGURE.finditer(text):
                yield first + _line(block, found.start()), found[0]
            continue
        for number, line in enumerate(block[1:], first + 1):
            if _TABLE.search(block[0]) and re.search(r"\| *(?:once )?\d", line):
                yield number, line
            elif found := FIGURE.search(line):
                yield number, found[0]


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Tables, and what is between them, with where each begins."""
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number].startswith("|") != lines[start].startswith("|"):
            yield start, lines[start:number]
            start = number


def _line(lines: list[str], offset: int) -> int:
    """Which of the lines has the character at `offset` of all, joined."""
    for number, line in enumerate(lines):
        if offset <= len(line):
            return number
        offset -= len(line) + 1
    return len(lines) - 1


def _joined(lines: list[str]) -> str:
    """A section on one line, as sentences go over several."""
    return " ".join(lines)
