# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention results as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.bench import markdown
from tilewright.bench.attention import LIBRARY
from tilewright.bench.operators import page
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import OURS

_ABOUT = (
    "One batch, normal numbers; heads, queries x keys x elements of a head. Rates are medians over the rounds. Causal cases",
    "count what is seen only. One query is measured in bytes of keys and values, which come from memory each time; the",
    "percentage then refers to the bandwidth measured in the same round, and otherwise to the peak. Ratios are our rate over",
    "that of torch's scaled_dot_product_attention, above 1 we are faster. Scratch is all memory beyond operands.",
)


def table(results: Sequence[Result]) -> Iterator[str]:
    """Markdown tables of decoding and other cases, a line for each, with a summary."""
    for streams, unit, limit in ((False, "GFLOP/s", "% peak"), (True, "GB/s", "% bandwidth")):
        some = [each for each in results if each.streams == streams]
        if some:
            heads = ("attention", unit, "p20–p80", limit, LIBRARY, f"÷ {LIBRARY}", "scratch KiB", "compile s")
            yield from markdown.table(heads, map(_cells, some))
            yield ""
    yield from page.sums(results)


def _cells(result: Result) -> tuple[str, ...]:
    ours, beside = result.rates[OURS], result.rates.get(LIBRARY)
    other = ("", "") if beside is None else (f"{beside.median:.1f}", f"{ours.over(beside):.2f}")
    costs = (f"{result.scratch / 1024:.0f}", f"{result.compile_seconds:.2f}")
    return (result.case, f"{ours.median:.1f}", ours.between(), f"{result.percent_of_limit:.1f}", *other, *costs)


PAGE = page.Page("Benchmark results: attention", _ABOUT, table)
"""How results are written."""
