# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution results as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    yield "| image, filters | GFLOP/s | p20–p80 | % peak | " + "".join(f"÷ {name} | " for name in names) + "compile s |"
    yield "|---|" + "---:|" * (4 + len(names))
    for each in results:
        ours = each.rates[OURS]
        beside = "".join(f"{ours.over(each.rates[name]):.2f} | " if name in each.rates else "| " for name in names)
        yield (
            f"| {each.case} | {ours.median:.1f} | {page.spread(ours)} | {each.percent_of_limit:.1f} | {beside}"
            f"{each.compile_seconds:.2f} |"
        )
    yield ""
    yield from page.sums(results)


PAGE = page.Page("Benchmark results: convolutions", _ABOUT, table)
"""How results are written."""
