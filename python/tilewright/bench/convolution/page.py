# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution results as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.bench import markdown
from tilewright.bench.operators import page
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import OURS

_ABOUT = (
    "One image; filters packed ahead of time, by each library in its own order. Rates are medians over the rounds in",
    "GFLOP/s, multiply-adds with padding counted too; percentages refer to the peak measured in the same round; ratios are",
    "our rate over the library's, above 1 we are faster.",
)


def table(results: Sequence[Result]) -> Iterator[str]:
    """A Markdown table with a line for each layer, and a summary."""
    names = page.libraries(results)
    heads = ("image, filters", "GFLOP/s", "p20–p80", "% peak", *(f"÷ {name}" for name in names), "compile s")
    yield from markdown.table(heads, (_cells(each, names) for each in results))
    yield ""
    yield from page.sums(results)


def _cells(result: Result, names: Sequence[str]) -> tuple[str, ...]:
    ours, rates = result.rates[OURS], result.rates
    beside = (f"{ours.over(rates[name]):.2f}" if name in rates else "" for name in names)
    percent = f"{result.percent_of_limit:.1f}"
    return (result.case, f"{ours.median:.1f}", ours.between(), percent, *beside, f"{result.compile_seconds:.2f}")


PAGE = page.Page("Benchmark results: convolutions", _ABOUT, table)
"""How results are written."""
