# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of BLAS as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from tilewright.bench import markdown
from tilewright.bench.operators import page
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import OURS

_ABOUT = (
    "Calls of C's interface with row-major matrices, alpha 1 and beta 0, operands hot, each library in a process of its own. Of one",
    "thread, processor time is taken. Rates are medians over the rounds in GFLOP/s; percentages refer to the peak measured in the same",
    "round; ratios are our rate over the library's, above 1 we are faster.",
)
BY_DEFAULT = ("numpy", "mkl")
"""What a program gets that asks for nothing: OpenBLAS with the kernels that it chooses itself, and MKL."""


def over_better(result: Result) -> float | None:
    """Our rate over that of the better one of those that programs get by default; None where none took part."""
    return min((ratio for name, ratio in result.ratios() if name in BY_DEFAULT), default=None)


def table(results: Sequence[Result]) -> Iterator[str]:
    """A Markdown table with a line for each call, for each number of threads, and a summary."""
    names = page.libraries(results)
    heads = ("routine M×N×K", "threads", "GFLOP/s", "p20–p80", "% peak", *(f"÷ {name}" for name in names))
    yield from markdown.table(heads, (_cells(each, names) for each in results))
    yield ""
    yield from page.sums(results)
    for threads in dict.fromkeys(each.threads for each in results):
        found = [(ratio, each) for each in results if each.threads == threads and (ratio := over_better(each))]
        if found:
            worst = min(found, key=lambda pair: pair[0])
            mean = geometric_mean(ratio for ratio, _ in found)
            yield (
                f"- of {threads} thread{'s' if threads > 1 else ''}, times the better one of {' and '.join(BY_DEFAULT)}: geometric mean"
                f" {mean:.2f}, worst {worst[0]:.2f} ({worst[1].case})"
            )


def _cells(result: Result, names: Sequence[str]) -> tuple[str, ...]:
    ours, rates = result.rates[OURS], result.rates
    beside = (f"{ours.over(rates[name]):.2f}" if name in rates else "" for name in names)
    what = (result.case.replace("x", "×"), str(result.threads), f"{ours.median:.1f}", ours.between())
    return (*what, f"{result.percent_of_limit:.1f}", *beside)


PAGE = page.Page("Benchmark results: BLAS", _ABOUT, table)
"""How results are written."""
PROGRAMS = page.Page(
    "Benchmark results: programs on the BLAS",
    (
        "Expressions of numpy's on square matrices, with the library loaded before all others, over the same without it.",
    ),
    table,
)
"""How results of programs are written."""
