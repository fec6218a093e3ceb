# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the best sizes on a card with those that the model of strategy `warpgroup` chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from tilewright.bench.markdown import table

Record = Mapping[str, Any]
_SAME = (
    "bm",
    "bn",
    "bk",
    "stages",
    "consumers",
    "pingpong",
    "cluster",
    "beside",
    "split",
    "streamed",
    "swapped",
    "band",
)
"""The sizes that the model decides."""


def section(records: Sequence[Record]) -> Iterator[str]:
    """The part of the page: a row for each product, then how often each choice of sizes was best."""
    found = groups(each for each in records if each.get("tried") and each.get("modeled"))
    if not found:
        return
    yield from ("", "## The model's sizes beside the best of those tried", "")
    yield "Rates here are of short samples: a per cent of difference is none. Cycles are at the clock that was seen."
    for what, members in found:
        yield from ("", f"### {what}", "")
        heads = ("M×N×K", "by the model", "best", "of it", "cycles", "predicted")
        rated = [sorted(each["tried"], key=lambda one: -one["tflops"]) for each in members]
        lines = (_cells(each, *tried) for each, tried in zip(members, rated, strict=True))
        yield from table((*heads, "model's sizes", "best sizes", "second best"), lines, "lrrrrrlll")
        kept = [each["modeled"] / tried[0]["tflops"] for each, tried in zip(members, rated, strict=True)]
        best_of = Counter(words(tried[0]["sizes"]) for tried in rated)
        yield ""
        yield f"- The model has {geometric_mean(kept):.3f} of the best (geometric mean), at worst {min(kept):.2f}, {len(kept)} shapes."
        for sizes, count in best_of.most_common():
            yield f"- Best {count} times: {sizes}."


def groups(records: Iterable[Record]) -> list[tuple[str, list[Record]]]:
    """What was timed by types, layout and epilogue, with the words for these."""
    found: dict[str, list[Record]] = {}
    for each in records:
        if each["kind"] == "time":
            epilogue = f", {each['epilogue']}" if each["epilogue"] else ""
            found.setdefault(f"{each['types']}, {each['layout']}{epilogue}", []).append(each)
    return list(found.items())


def _cells(record: Record, best: Record, second: Record | None = None, *_: Record) -> tuple[str, ...]:
    """The line of a product, with what was tried, the best first."""
    model = next(one for one in record["tried"] if one["tflops"] == record["modeled"])
    share = record["modeled"] / best["tflops"]
    rates = f"{record['modeled']:.1f}", f"{best['tflops']:.1f}", f"{share:.2f}"
    other = f"{words(second['sizes'])} ({second['tflops'] / best['tflops']:.2f})" if second else ""
    own = "the same" if share == 1 else words(best["sizes"])
    return (record["shape"], *rates, _cycles(record), _predicted(model), words(model["sizes"]), own, other)


def _cycles(record: Record) -> str:
    """What the model's choice took."""
    clock = str(record.get("clocks.sm", "")).partition(" ")[0]
    m, n, k = map(int, record["shape"].split("x"))
    return f"{2 * m * n * k / record['modeled'] / 1e12 * int(clock) * 1e6:.0f}" if clock.isdigit() else ""


def _predicted(tried: Mapping[str, Any]) -> str:
    cycles = tried.get("predicted_cycles")
    return "" if cycles is None else f"{cycles:.0f}"


def words(sizes: Mapping[str, int]) -> str:
    """The sizes that the model decides, in short."""
    return " ".join(f"{name}={int(sizes[name])}" for name in _SAME if sizes.get(name))
