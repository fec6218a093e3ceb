# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which sizes were best on a card, beside those that the model of strategy `warpgroup` chooses: what it loses, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.bench.card import aims

Record = Mapping[str, Any]
_SAME = ("bm", "bn", "consumers", "pingpong", "cluster", "split", "swapped", "band")
"""The sizes that the model decides."""


def section(records: Sequence[Record]) -> Iterator[str]:
    """The part of the page: a row for each product, then how often each choice of sizes was best."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for each in records:
        if each["kind"] == "time" and each.get("tried") and each.get("modelled"):
            groups.setdefault((each["types"], each["layout"], each["epilogue"]), []).append(each)
    if not groups:
        return
    yield from ("", "## The model's sizes beside the best of those tried", "")
    yield "The first one tried is the model's. Rates here are of short samples: a per cent of difference is none."
    for (types, layout, epilogue), members in groups.items():
        yield from ("", f"### {types}, {layout}{f', {epilogue}' if epilogue else ''}", "")
        yield "| M×N×K | by the model | best | of it | model's sizes | best sizes | second best |"
        yield "|---|---:|---:|---:|---|---|---|"
        kept, best_of = [], Counter[str]()
        for each in members:
            rated = sorted(each["tried"], key=lambda one: -one["tflops"])
            best, second = rated[0], rated[1] if len(rated) > 1 else None
            share = each["modelled"] / best["tflops"]
            kept.append(share)
            best_of[words(best["sizes"])] += 1
            model = next((words(one["sizes"]) for one in each["tried"] if one["tflops"] == each["modelled"]), "")
            other = f"{words(second['sizes'])} ({second['tflops'] / best['tflops']:.2f})" if second else ""
            own = "the same" if share == 1 else words(best["sizes"])
            yield f"| {each['shape']} | {each['modelled']:.1f} | {best['tflops']:.1f} | {share:.2f} | {model} | {own} | {other} |"
        yield ""
        yield f"- The model has {aims.mean(kept):.3f} of the best (geometric mean), at worst {min(kept):.2f}, {len(kept)} shapes."
        for sizes, count in best_of.most_common():
            yield f"- Best {count} times: {sizes}."


def words(sizes: Mapping[str, int]) -> str:
    """The sizes that the model decides, in short."""
    return " ".join(f"{name}={int(sizes[name])}" for name in _SAME if sizes.get(name))
