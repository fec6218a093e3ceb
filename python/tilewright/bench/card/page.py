# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What was measured on a card as a page of the documentation: when, with which driver and clocks, by which command, and every figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

Record = Mapping[str, Any]


def markdown(records: Sequence[Record], command: str) -> str:
    """The page.

    Args:
        records: What `measure.run` returned.
        command: What was run.
    """
    return (
        "\n".join(
            [
                "# Measured on a card",
                "",
                *_facts(records, command),
                *_layouts(records),
                *_checks(records),
                *_times(records),
            ]
        )
        + "\n"
    )


def failures(records: Sequence[Record]) -> list[str]:
    """A line for each record of something wrong: other bits than the emulator's, wrong numbers, an error."""
    found = []
    for each in records:
        if "error" in each:
            found.append(f"{each['step']}: {each['error']}")
        elif each.get("right") is False:
            found.append(f"{each['step']}: {each['wrong']} of {each['elements']} elements are wrong")
    return found


def _facts(records: Sequence[Record], command: str) -> Iterator[str]:
    dates = sorted(each["date"] for each in records if "date" in each)
    if dates:
        yield f"Measured {dates[0]} to {dates[-1]} with `{command}`."
    for name, what in (("card", "Card"), ("driver_version", "Driver"), ("clocks.mem", "Memory clock")):
        found = dict.fromkeys(str(each[name]) for each in records if name in each)
        if found:
            yield f"{what}: {', '.join(found)}."
    clocks = sorted({str(each["clocks.sm"]) for each in records if "clocks.sm" in each and each["kind"] == "time"})
    if clocks:
        yield f"Clock of the multiprocessors, seen after measurements: {clocks[0]} to {clocks[-1]}."
    versions = {name: text for each in records for name, text in each.get("versions", {}).items()}
    for name, text in versions.items():
        yield f"{name}: {text}."
    yield (
        "Rates are medians over the rounds, in TFLOP/s, with random data and operands that rotate past the L2 cache; ratios are our"
        " rate over the peer's, above 1 we are faster."
    )


def _layouts(records: Sequence[Record]) -> Iterator[str]:
    some = [each for each in records if each["kind"] == "layout"]
    if some:
        yield from (
            "",
            "## The emulator beside the card, bit by bit",
            "",
            "| kernel | elements | other bits |",
            "|---|---:|---:|",
        )
        for each in some:
            yield f"| {each.get('kernel', each['step'])} | {each.get('elements', '')} | {each.get('wrong', each.get('error'))} |"


def _checks(records: Sequence[Record]) -> Iterator[str]:
    some = [each for each in records if each["kind"] == "check"]
    if some:
        yield from ("", "## Random data, results filled with NaN before", "")
        yield from ("| kernel | M×N×K | wrong | relative error |", "|---|---|---:|---:|")
        for each in some:
            error = f"{each['rel_error']:.1e}" if "rel_error" in each else each.get("error", "")
            yield f"| {each.get('kernel', each['step'])} | {each['shape']} | {each.get('wrong', '')} | {error} |"


def _times(records: Sequence[Record]) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for each in records:
        if each["kind"] == "time" and "rates" in each:
            groups.setdefault((each["types"], each["layout"], each["epilogue"]), []).append(each)
    for (types, layout, epilogue), members in groups.items():
        names = list(dict.fromkeys(name for each in members for name in each["rates"] if name != "tilewright"))
        yield from ("", f"## {types}, {layout}{f', {epilogue}' if epilogue else ''}", "")
        yield f"| M×N×K | TFLOP/s | p20–p80 | {''.join(f'÷ {name} | ' for name in names)}by the model's sizes | sizes |"
        yield f"|---|---:|---:|{'---:|' * len(names)}---:|---|"
        for each in members:
            own = each["rates"]["tilewright"]
            ratios = "".join(f"{_ratio(each, name)} | " for name in names)
            sizes = " ".join(f"{name}={size}" for name, size in each["sizes"].items() if size)
            model = "" if each["modelled"] is None else f"{each['modelled']:.1f}"
            yield f"| {each['shape']} | {own['tflops']:.1f} | {own['p20']:.1f}–{own['p80']:.1f} | {ratios}{model} | {sizes} |"
        yield ""
        for name in names:
            found = [
                each["rates"]["tilewright"]["tflops"] / each["rates"][name]["tflops"]
                for each in members
                if name in each["rates"]
            ]
            mean = exp(sum(map(log, found)) / len(found))
            yield f"- {name}: geometric mean {mean:.2f}, worst {min(found):.2f}, {len(found)} shapes"


def _ratio(record: Record, name: str) -> str:
    rates = record["rates"]
    return f"{rates['tilewright']['tflops'] / rates[name]['tflops']:.2f}" if name in rates else ""
