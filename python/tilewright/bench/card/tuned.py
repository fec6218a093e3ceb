# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the best sizes on a card with those that the model of strategy `warpgroup` chooses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.bench.card import aims

Record = Mapping[str, Any]
_SAME = ("bm", "bn", "bk", "stages", "consumers", "pingpong", "cluster", "split", "swapped", "band")
"""The sizes that the model decides."""


def section(records: Sequence[Record]) -> Iterator[str]:
    """The part of the page: a row for each product, then how often each choice of sizes was best."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for each in records:
        if each["kind"] == "time" and each.get("tried") and each.get("modeled"):
            groups.setdefault((each["types"], each["layout"], each["epilogue"]), []).append(each)
    if not groups:
        return
    yield from ("", "## The model's sizes beside the best of those tried", "")
    yield "Rates here are of short samples: a per cent of difference is none. Cycles are at the clock that was seen."
    for (types, layout, epilogue), members in groups.items():
        yield from ("", f"### {types}, {layout}{f', {epilogue}' if epilogue else ''}", "")
        yield "| M×N×K | by the model | best | of it | cycles | predicted | model's sizes | best sizes | second best |"
        yield "|---|---:|---:|---:|---:|---:|---|---|---|"
        kept, best_of = [], Counter[str]()
        for each in members:
            rated = sorted(each["tried"], key=lambda one: -one["tflops"])
            best, second = rated[0], rated[1] if len(rated) > 1 else None
            model = next(one for one in each["tried"] if one["tflops"] == each["modeled"])
            share = each["modeled"] / best["tflops"]
            kept.append(share)
            best_of[words(best["sizes"])] += 1
            other = f"{words(second['sizes'])} ({second['tflops'] / best['tflops']:.2f})" if second else ""
            own = "the same" if share == 1 else words(best["sizes"])
            rates = (
                f"{each['modeled']:.1f} | {best['tflops']:.1f} | {share:.2f} | {_cycles(each)} | {_predicted(model)}"
            )
            yield f"| {each['shape']} | {rates} | {words(model['sizes'])} | {own} | {other} |"
        yield ""
        yield f"- The model has {aims.mean(kept):.3f} of the best (geometric mean), at worst {min(kept):.2f}, {len(kept)} shapes."
        for sizes, count in best_of.most_common():
            yield f"- Best {count} times: {sizes}."


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
