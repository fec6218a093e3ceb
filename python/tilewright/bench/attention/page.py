# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results of attention as text: a table on the screen or a page in Markdown, and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp, log
from typing import Any

from tilewright.bench.attention.session import LIBRARY, OURS, Result, ratios

_LIMIT = "limit"


def table(results: Sequence[Result]) -> Iterator[str]:
    """Tables in Markdown, of cases that decode and of others, a line for each, and what comes out in sum."""
    for decodes, unit, limit in ((False, "GFLOP/s", "% peak"), (True, "GB/s", "% bandwidth")):
        some = [each for each in results if each.case.decodes == decodes]
        if some:
            yield f"| attention | {unit} | p20–p80 | {limit} | {LIBRARY} | ÷ {LIBRARY} | scratch KiB | compile s |"
            yield f"|---|{'---:|' * 7}"
            yield from map(_line, some)
            yield ""
    every = list(ratios(results))
    if every:
        mean = exp(sum(map(log, every)) / len(every))
        yield f"- times {LIBRARY}: geometric mean {mean:.2f}, worst {min(every):.2f} ({results[0].version})"
    yield from dict.fromkeys(f"- without {LIBRARY}: {each.absent}" for each in results if each.absent)


def _line(result: Result) -> str:
    ours, limit, beside = result.rates[OURS], result.rates[_LIMIT], result.rates.get(LIBRARY)
    other = "| | " if beside is None else f"{beside.median:.1f} | {ours.over(beside):.2f} | "
    spread = f"{ours.percentile(20):.1f}–{ours.percentile(80):.1f}"
    return (
        f"| {result.case} | {ours.median:.1f} | {spread} | {100 * ours.over(limit):.1f} | {other}"
        f"{result.scratch / 1024:.0f} | {result.compile_seconds:.2f} |"
    )


def markdown(groups: Sequence[Sequence[Result]], title: str, command: str) -> str:
    """The page of several types."""
    every = [each for group in groups for each in group]
    lines = [
        f"# {title}",
        "",
        f"Measured {every[0].date} to {every[-1].date} with `{command}`.",
        f"Machine: {every[0].machine}.",
        "One batch, normal numbers; heads, queries x keys x elements of a head. Rates are medians over the rounds. Causal cases",
        "count what is seen only. One query is measured in bytes of keys and values, which come from memory each time; the",
        "percentage then refers to the bandwidth measured in the same round, and otherwise to the peak. Ratios are our rate over",
        "that of torch's scaled_dot_product_attention, above 1 we are faster. Scratch is all memory beyond operands.",
    ]
    for group in groups:
        lines += ["", f"## {group[0].asked}", "", *table(group)]
    return "\n".join(lines) + "\n"


def as_json(result: Result) -> dict[str, Any]:
    """A result as JSON has it: rates in 10⁹ operations or bytes a second, medians and percentiles."""
    beside = {LIBRARY: {**_rate(result, LIBRARY), "version": result.version}} if LIBRARY in result.rates else {}
    return {
        "case": str(result.case),
        "dtype": result.asked,
        "unit": "GB/s" if result.case.decodes else "GFLOP/s",
        **_rate(result, OURS),
        "limit": result.rates[_LIMIT].median,
        "rel_error": result.error,
        "scratch_bytes": result.scratch,
        "compile_seconds": result.compile_seconds,
        "date": result.date,
        "machine": result.machine,
        "peers": beside,
    }


def _rate(result: Result, name: str) -> dict[str, float]:
    rate = result.rates[name]
    return {"rate": rate.median, "rate_p20": rate.percentile(20), "rate_p80": rate.percentile(80)}
