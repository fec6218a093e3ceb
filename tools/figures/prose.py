# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds measured figures that were written into a page by hand, where no results back them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_NUMBER = r"\d[\d.,]*(?: ?(?:to|and|or|of|in place of|–) ?\d[\d.,]*)*"
_RATIO = r"\d*\.\d+(?: (?:to|and) \d*\.\d+)?"
FIGURE = re.compile(
    "|".join(
        (
            rf"{_NUMBER} ?[KMGT]?(?:FLOP|B)/s",
            rf"{_NUMBER} ?(?:ms|µs|us|ns)\b",
            rf"{_NUMBER} ?(?:%|per cent\b|percent\b)(?!\w)",
            rf"{_NUMBER} times (?:as|the (?:rate|speed|time)|slower|faster|numpy|torch|MKL|OpenBLAS|static|that)\b",
            rf"{_RATIO} (?:of|times) (?:the|its|that)\b",
            rf"\b(?:ran|runs?|reach(?:es|ed)?) (?:at )?{_RATIO}",
        )
    )
)
"""A rate, a time, a share, or a ratio of speeds."""
_TABLE = re.compile(r"GFLOP/s|GB/s|%|\bms\b|\bµs\b|\btimes\b|\bratio\b|÷|\bof the (?:peak|bound|roof)")
"""In the head of a table: its numbers are figures."""
_CELL = re.compile(r"\| *(?:once )?\d[\d.,]* *(?=\||–|to)")


class Claim(NamedTuple):
    """A figure in prose.

    Attributes:
        line: Where, from 1.
        text: The figure.
    """

    line: int
    text: str


class Exempt(NamedTuple):
    """Figures of a page that are not measured.

    Attributes:
        page: Its path below the checkout's root.
        why: Where they come from.
        texts: The figures as they stand there; of a table, the beginnings of its lines.
    """

    page: str
    why: str
    texts: tuple[str, ...]


EXEMPT = (
    Exempt("docs/explanation/proof.md", "a bar; test/python/test_strategy_coverage.py holds it", ("95 %",)),
    Exempt("docs/how-to/own_schedule.md", "of blocks, which runs of the page hold", ("100.0 %",)),
    Exempt(
        "docs/explanation/sve.md", "llvm-mca's cycles; test/emit/neoverse-v1.test and its like hold them", ("100 %",)
    ),
    Exempt("docs/how-to/arm.md", "an order of magnitude, so that nobody times the emulator", ("20 ms",)),
    Exempt(
        "docs/how-to/benchmark.md",
        "settings of the benchmark, and the peak itself",
        ("30 ms", "50 ms", "1 ms", "5 %", "100 %"),
    ),
    Exempt("docs/how-to/lab.md", "a setting of the page", ("15 %",)),
    Exempt("docs/how-to/distributed.md", "a setting of the example's simulation", ("2 TFLOP/s",)),
    Exempt("docs/how-to/library.md", "what a run prints, for its format", ("0.0 %", "0.1 %", "0.3 %")),
    Exempt(
        "docs/how-to/riscv.md", "llvm-mca's cycles; test/python/test_riscv.py holds the first", ("73 %", "3 to 5 %")
    ),
    Exempt("docs/how-to/threads.md", "arithmetic: 40 000 cycles; a default of LLVM's OpenMP", ("10 µs", "200 ms")),
)
"""Every figure outside of the generated blocks."""


def claims(page: str, name: str) -> Iterator[Claim]:
    """The figures of a page that are neither generated nor exempt.

    Args:
        page: The text without its generated blocks.
        name: Its path below the checkout's root.
    """
    exempt = tuple(text for each in EXEMPT if each.page == name for text in each.texts)
    for number, text in _figures(page.splitlines()):
        if not (text.startswith(exempt) if text.startswith("|") else text in exempt):
            yield Claim(number, text)


def unused(pages: dict[str, str]) -> Iterator[str]:
    """Exemptions of figures that stand nowhere, from the texts of the pages by name."""
    for each in EXEMPT:
        found = [text for _, text in _figures(pages.get(each.page, "").splitlines())]
        for text in each.texts:
            if not any(figure.startswith(text) if text.startswith("|") else figure == text for figure in found):
                yield f"{each.page}: {text!r}"


def _figures(lines: list[str]) -> Iterator[tuple[int, str]]:
    """On which line of a page a figure is, from 1, and what it says; of a table of figures, each whole line."""
    for first, block in _blocks(lines):
        if not block[0].startswith("|"):
            text = " ".join(block)
            for found in FIGURE.finditer(text):
                yield first + _line(block, found.start()) + 1, found[0]
            continue
        for number, line in enumerate(block[1:], first + 2):
            if _TABLE.search(block[0]) and _CELL.search(line):
                yield number, line
            elif found := FIGURE.search(line):
                yield number, found[0]


def _blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Tables, and what is between them, with where each begins, from 0."""
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number].startswith("|") != lines[start].startswith("|"):
            yield start, lines[start:number]
            start = number


def _line(lines: list[str], offset: int) -> int:
    """Which of the lines has the character at `offset` of all, joined by spaces."""
    for number, line in enumerate(lines):
        if offset <= len(line):
            return number
        offset -= len(line) + 1
    return len(lines) - 1
