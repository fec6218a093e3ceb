# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of layers as text: a table on the screen or a page in Markdown, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from typing import Any

from tilewright.bench.convolution.session import OURS, Result, ratios

_PEAK = "peak"


def libraries(results: Sequence[Result]) -> list[str]:
    """The libraries that took part, in their order."""
    return list(dict.fromkeys(name for each in results for name in each.rates if name not in (OURS, _PEAK)))


def table(results: Sequence[Result]) -> Iterator[str]:
    """A table in Markdown, a line for each layer, and what comes out in sum."""
    names = libraries(results)
    yield "| image, filters | GFLOP/s | p20–p80 | % peak | " + "".join(f"÷ {name} | " for name in names) + "compile s |"
    yield "|---|" + "---:|" * (4 + len(names))
    for each in results:
        ours, peak = each.rates[OURS], each.rates[_PEAK]
        beside = "".join(f"{ours.over(each.rates[name]):.2f} | " if name in each.rates else "| " for name in names)
        spread = f"{ours.percentile(20):.1f}–{ours.percentile(80):.1f}"
        yield (
            f"| {each.layer} | {ours.median:.1f} | {spread} | {100 * ours.over(peak):.1f} | {beside}"
            f"{each.compile_seconds:.2f} |"
        )
    yield ""
    for name in names:
        every = list(ratios(results, name))
        version = next(each.versions[name] for each in results if name in each.versions)
        yield (
            f"- times {name}: geometric mean {exp(sum(map(log, every)) / len(every)):.2f}, worst {min(every):.2f} ({version})"
        )
    for name, why in dict(pair for each in results for pair in each.absent.items()).items():
        yield f"- without {name}: {why}"


def markdown(groups: Sequence[Sequence[Result]], title: str, command: str) -> str:
    """The page of several types."""
    every = [each for group in groups for each in group]
    lines = [
        f"# {title}",
        "",
        f"Measured {every[0].date} to {every[-1].date} with `{command}`.",
        f"Machine: {every[0].machine}.",
        "One image; filters packed ahead of time, by each library in its own order. Rates are medians over the rounds in",
        "GFLOP/s, multiply-adds with padding counted too; percentages refer to the peak measured in the same round; ratios are",
        "our rate over the library's, above 1 we are faster.",
    ]
    for group in groups:
        lines += ["", f"## {group[0].asked}", "", *table(group)]
    return "\n".join(lines) + "\n"


def as_json(result: Result) -> dict[str, Any]:
    """A result as JSON has it: rates in 10⁹ operations a second, medians and percentiles."""
    return {
        "layer": str(result.layer),
        "dtype": result.asked,
        **{f"{OURS}_{name}": value for name, value in _rate(result, OURS).items()},
        "peak_gflops": result.rates[_PEAK].median,
        "rel_error": result.error,
        "compile_seconds": result.compile_seconds,
        "date": result.date,
        "machine": result.machine,
        "peers": {name: {**_rate(result, name), "version": result.versions[name]} for name in libraries([result])},
        "absent": dict(result.absent),
    }


def _rate(result: Result, name: str) -> dict[str, float]:
    rate = result.rates[name]
    return {"gflops": rate.median, "gflops_p20": rate.percentile(20), "gflops_p80": rate.percentile(80)}
