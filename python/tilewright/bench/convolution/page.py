# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of layers as text: a table on the screen or a page in Markdown, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright.bench.operators import LIMIT, OURS, Result, page

_ABOUT = (
    "One image; filters packed ahead of time, by each library in its own order. Rates are medians over the rounds in",
    "GFLOP/s, multiply-adds with padding counted too; percentages refer to the peak measured in the same round; ratios are",
    "our rate over the library's, above 1 we are faster.",
)


def table(results: Sequence[Result]) -> Iterator[str]:
    """A table in Markdown, a line for each layer, and what comes out in sum."""
    names = page.libraries(results)
    yield "| image, filters | GFLOP/s | p20–p80 | % peak | " + "".join(f"÷ {name} | " for name in names) + "compile s |"
    yield "|---|" + "---:|" * (4 + len(names))
    for each in results:
        ours, peak = each.rates[OURS], each.rates[LIMIT]
        beside = "".join(f"{ours.over(each.rates[name]):.2f} | " if name in each.rates else "| " for name in names)
        yield (
            f"| {each.case} | {ours.median:.1f} | {page.spread(ours)} | {100 * ours.over(peak):.1f} | {beside}"
            f"{each.compile_seconds:.2f} |"
        )
    yield ""
    yield from page.sums(results)


def as_json(result: Result) -> dict[str, Any]:
    """A result as JSON has it: rates in 10⁹ operations a second, medians and percentiles."""
    return {
        "layer": str(result.case),
        **{f"{OURS}_{name}": value for name, value in page.percentiles(result.rates[OURS], "gflops").items()},
        "peak_gflops": result.rates[LIMIT].median,
        **page.facts(result),
        "peers": page.peers(result, "gflops"),
        "absent": dict(result.absent),
    }


PAGE = page.Page(_ABOUT, table, as_json)
"""How results are written."""
