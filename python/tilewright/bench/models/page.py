# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of whole models as Markdown tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.bench import markdown
from tilewright.bench.models.measuring import CONTENDERS, OURS
from tilewright.bench.operators import page
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import OURS as RECORDED

_ABOUT = (
    "Whole models for inference with random weights, each compiler in a process of its own, in turn. Of one thread, processor time is",
    "taken. Rates are medians over the rounds in GFLOP/s, counting the products of eager torch; percentages refer to the peak measured in",
    "the same round. Ours is the fastest of torch.compile with our backend, with and without frozen parameters, and, where the version",
    "names it, of onnxruntime with our kernels; ratios are its rate over that of the others, above 1 we are faster.",
)


def over_best(result: Result) -> float:
    """Our rate over that of the fastest of the others."""
    return min(ratio for name, ratio in result.ratios() if name not in OURS)


def table(results: Sequence[Result]) -> Iterator[str]:
    """A Markdown table with a line for each model, and who took part."""
    names = [name for name in CONTENDERS if name not in OURS and name in page.libraries(results)]
    heads = ("model", "threads", "GFLOP/s", "p20–p80", "% peak", *(f"÷ {name}" for name in names), "÷ best")
    yield from markdown.table(heads, (_cells(each, names) for each in results))
    yield ""
    yield from page.sums(results)


def _cells(result: Result, names: Sequence[str]) -> tuple[str, ...]:
    ours, rates = result.rates[RECORDED], result.rates
    beside = (f"{ours.over(rates[name]):.2f}" if name in rates else "" for name in names)
    what = (result.case, str(result.threads), f"{ours.median:.1f}", ours.between(), f"{result.percent_of_limit:.1f}")
    return (*what, *beside, f"{over_best(result):.2f}")


PAGE = page.Page("Benchmark results: models", _ABOUT, table)
"""How results are written."""
