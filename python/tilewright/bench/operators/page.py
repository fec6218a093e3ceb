# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pages of operators have in common: the head, the sums of a table, and results as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from tilewright.bench.operators.comparison import Result
from tilewright.bench.rows import Rates


@dataclass(frozen=True, slots=True)
class Page:
    """How results of an operator are written.

    Attributes:
        about: What the page says of all of them.
        table: Makes the tables of one type in Markdown, and what comes out in sum.
        as_json: A result as JSON has it.
    """

    about: Sequence[str]
    table: Callable[[Sequence[Result]], Iterator[str]]
    as_json: Callable[[Result], dict[str, Any]]

    def markdown(self, groups: Sequence[Sequence[Result]], title: str, command: str) -> str:
        """The page of several types."""
        every = [each for group in groups for each in group]
        lines = [
            f"# {title}",
            "",
            f"Measured {every[0].date} to {every[-1].date} with `{command}`.",
            f"Machine: {every[0].machine}.",
            *self.about,
        ]
        for group in groups:
            lines += ["", f"## {group[0].asked}", "", *self.table(group)]
        return "\n".join(lines) + "\n"


def libraries(results: Sequence[Result]) -> list[str]:
    """The libraries that took part, in their order."""
    return list(dict.fromkeys(name for each in results for name, _ in each.ratios()))


def sums(results: Sequence[Result]) -> Iterator[str]:
    """A line for each library: how many times as fast as it we are, or why it is not there."""
    for name in libraries(results):
        every = [ratio for each in results for other, ratio in each.ratios() if other == name]
        mean = exp(sum(map(log, every)) / len(every))
        version = next(each.versions[name] for each in results if name in each.versions)
        yield f"- times {name}: geometric mean {mean:.2f}, worst {min(every):.2f} ({version})"
    for name, why in dict.fromkeys(pair for each in results for pair in each.absent.items()):
        yield f"- without {name}: {why}"


def spread(rates: Rates) -> str:
    """Percentiles as a table has them."""
    return f"{rates.percentile(20):.1f}–{rates.percentile(80):.1f}"


def percentiles(rates: Rates, name: str) -> dict[str, float]:
    """A median and percentiles as JSON has them."""
    return {name: rates.median, f"{name}_p20": rates.percentile(20), f"{name}_p80": rates.percentile(80)}


def peers(result: Result, name: str) -> dict[str, Any]:
    """The libraries as JSON has them; `name` is what it calls a rate."""
    return {
        library: {**percentiles(result.rates[library], name), "version": result.versions[library]}
        for library in libraries([result])
    }


def facts(result: Result) -> dict[str, Any]:
    """What JSON has of every operator, besides rates."""
    return {
        "dtype": result.asked,
        "rel_error": result.error,
        "compile_seconds": result.compile_seconds,
        "date": result.date,
        "machine": result.machine,
    }
