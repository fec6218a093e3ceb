# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The common parts of the Markdown pages of operators' results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from tilewright.bench.operators.results import Result
from tilewright.bench.page import measured


@dataclass(frozen=True, slots=True)
class Page:
    """How results of an operator are written.

    Attributes:
        title: The heading.
        about: What the page says of all of them.
        table: Makes the tables of one type in Markdown, and what comes out in sum.
    """

    title: str
    about: Sequence[str]
    table: Callable[[Sequence[Result]], Iterator[str]]

    def markdown(self, results: Sequence[Result], command: str) -> str:
        """The page of one run; `command` is what was run."""
        return "\n".join([f"# {self.title}", "", *self.body(results, command)]) + "\n"

    def body(self, results: Sequence[Result], command: str, level: int = 2) -> Iterator[str]:
        """The lines of one machine: its facts, and a heading of that level with the tables for each type."""
        yield from measured(results, command)
        yield from self.about
        for asked in dict.fromkeys(each.asked for each in results):
            yield from (
                "",
                f"{'#' * level} {asked}",
                "",
                *self.table([each for each in results if each.asked == asked]),
            )


def libraries(results: Sequence[Result]) -> list[str]:
    """The libraries that took part, in their order."""
    return list(dict.fromkeys(name for each in results for name, _ in each.ratios()))


def sums(results: Sequence[Result]) -> Iterator[str]:
    """A line for each library: our speed over its, or why it is absent."""
    for name in libraries(results):
        every = [ratio for each in results for other, ratio in each.ratios() if other == name]
        mean = geometric_mean(every)
        version = next(each.versions[name] for each in results if name in each.versions)
        yield f"- times {name}: geometric mean {mean:.2f}, worst {min(every):.2f} ({version})"
    for name, why in dict.fromkeys(pair for each in results for pair in each.absent.items()):
        yield f"- without {name}: {why}"
