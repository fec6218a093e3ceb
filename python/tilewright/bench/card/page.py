# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what was measured on a card as a documentation page: date, driver, clocks, command, and every figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean
from types import MappingProxyType
from typing import Any

from tilewright.bench.card import aims, attention, plan, tuned
from tilewright.bench.markdown import table
from tilewright.dtypes import dtype

Record = Mapping[str, Any]
_OURS = "tilewright"
_CYCLE: Mapping[str, int] = MappingProxyType({"bf16": 4096, "f16": 4096, "f8E4M3FN": 8192, "i8": 8192, "tf32": 2048})
"""Operations of a multiprocessor's matrix units in a cycle. Source: NVIDIA, "H100 Tensor Core GPU Architecture", peak rates over
multiprocessors and clock."""


def markdown(records: Sequence[Record], command: str, expected: Sequence[tuple[str, str, str, str]] = ()) -> str:
    """The page.

    Args:
        records: What `measure.run` returned.
        command: What was run.
        expected: The bars by the model, of `estimate.bars`, where nothing is timed.
    """
    if not records:
        return "\n".join(["# Not measured: no card", *_expected(expected)]) + "\n"
    parts = (_aims, _broken, _layouts, _tools, _checks, _attention, _times, tuned.section)
    lines = ["# Measured on a card", "", *_facts(records, command)]
    lines += [line for part in parts for line in part(records)]
    return "\n".join([*lines, *_expected(expected)]) + "\n"


def failures(records: Sequence[Record]) -> list[str]:
    """A line for each record of something wrong: other bits than the emulator's, wrong numbers, an error."""
    found = []
    for each in records:
        if "error" in each:
            found.append(f"{each['step']}: {each['error']}")
        elif each.get("right") is False:
            found.append(f"{each['step']}: {_wrong(each)}")
        # A peer that does not do something is no failure of ours.
        own = {name: text for name, text in each.get("failures", {}).items() if name.startswith(_OURS)}
        found += [f"{each['step']}: {name}: {text}" for name, text in own.items()]
    return found


def _wrong(record: Record) -> str:
    """What is wrong with a result."""
    text = f"{record['wrong']} of {record['elements']} elements are wrong"
    if "rel_error" in record:
        text += f", relative error {record['rel_error']:.1e}"
    if "where" in record:
        shown = ", ".join(
            f"({row}, {column}) is {got:g}, not {wanted:g}" for row, column, got, wanted in record["where"][:3]
        )
        text += f": {shown}"
    return text if record.get("intact", True) else f"{text}, and bytes beside the operands were written"


def _aims(records: Sequence[Record]) -> Iterator[str]:
    yield from ("", "## What is aimed at", "", "Ratios are to the better one of cuBLASLt and torch.", "")
    yield from table(("", "wanted", "measured", "verdict"), aims.verdicts(records), "llll")


def _expected(bars: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    if bars:
        yield from ("", "## What is aimed at, by the model", "")
        yield "Estimates, not measured: by the model of sizes, `schedules/gpu/warpgroup_time.py`, of a card with the multiprocessors of"
        yield "an H100 and the memory of an H200. Ratios are to a limit that no kernel exceeds, the rate of the tensor cores or of"
        yield "memory, as the model has no rate of cuBLASLt. An aim that is reached beside the limit is expected; another one is open."
        yield ""
        yield from table(("", "wanted", "estimate, of the limit", "verdict"), bars, "llll")


def _broken(records: Sequence[Record]) -> Iterator[str]:
    if some := [(each["what"], each["at"], each["error"]) for each in records if each["kind"] == "broken"]:
        yield from ("", "## What ended its process", "")
        yield from table(("what", "at", "what is known"), some, "lll")


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
    if some := [each for each in records if each["kind"] == "layout"]:
        yield from ("", "## The emulator beside the card, bit by bit", "")
        cells = ((_kernel(each), each.get("elements", ""), each.get("wrong", each.get("error"))) for each in some)
        yield from table(("kernel", "elements", "other bits"), (tuple(map(str, each)) for each in cells))


def _tools(records: Sequence[Record]) -> Iterator[str]:
    if some := [each for each in records if each["kind"] in plan.TOOLS]:
        yield from ("", "## Under NVIDIA's tools", "")
        found = ((each["kind"], _kernel(each), each.get("skipped") or each.get("error") or "ok") for each in some)
        yield from table(("tool", "kernel", "found"), found, "lll")


def _checks(records: Sequence[Record]) -> Iterator[str]:
    if some := [each for each in records if each["kind"] == "check"]:
        yield from ("", "## Random data, results filled with NaN before", "")
        yield from table(("kernel", "M×N×K", "wrong", "relative error"), map(_checked, some), "llrr")
    if some := [each for each in records if each["kind"] == "operator"]:
        yield from ("", "## Attention and convolutions on random data", "")
        yield from table(("kernel", "as a product", "wrong", "relative error"), map(_checked, some), "llrr")


def _checked(record: Record) -> tuple[str, ...]:
    error = f"{record['rel_error']:.1e}" if "rel_error" in record else record.get("error", "")
    beside = "" if record.get("intact", True) else ", and bytes beside"
    return _kernel(record), record["shape"], f"{record.get('wrong', '')}{beside}", error


def _kernel(record: Record) -> str:
    return record.get("kernel", record["step"])


def _times(records: Sequence[Record]) -> Iterator[str]:
    for what, members in tuned.groups(each for each in records if "rates" in each):
        names = list(dict.fromkeys(name for each in members for name in each["rates"] if name != _OURS))
        yield from ("", f"## {what}", "")
        heads = ("M×N×K", "TFLOP/s", "p20–p80", *(f"÷ {name}" for name in names), "of the roofline", "sizes")
        yield from table(heads, (_timed(each, names) for each in members), "l" + "r" * (len(heads) - 2) + "l")
        yield ""
        for name in names:
            found = [
                each["rates"][_OURS]["tflops"] / each["rates"][name]["tflops"]
                for each in members
                if name in each["rates"]
            ]
            yield f"- {name}: geometric mean {geometric_mean(found):.2f}, worst {min(found):.2f}, {len(found)} shapes"
    absent = {
        f"{name.partition(' ')[0]}, {each['types']}: {text}": None
        for each in records
        if "types" in each
        for name, text in each.get("failures", {}).items()
        if not name.startswith(_OURS)
    }
    if absent:
        yield from ("", "## What peers do not do", "", *(f"- {text}" for text in absent))


def _attention(records: Sequence[Record]) -> Iterator[str]:
    some = [each for each in records if each["kind"] == "attention" and "rates" in each]
    if not some:
        return
    yield from ("", "## Attention, bf16", "")
    heads = ("", "TFLOP/s", *(f"÷ {name}" for name in attention.PEERS), "best sizes", "sizes tried, TFLOP/s")
    yield from table(heads, map(_attended, some), "l" + "r" * (1 + len(attention.PEERS)) + "ll")


def _attended(record: Record) -> tuple[str, ...]:
    tried = sorted(record["tried"], key=lambda each: -each["tflops"])
    named = [
        (" ".join(f"{name}={size}" for name, size in each["sizes"].items()) or "the model's", each) for each in tried
    ]
    rated = ", ".join(f"{name}: {each['tflops']:.0f}" for name, each in named)
    ratios = (_ratio(record, name) for name in attention.PEERS)
    return record["what"], f"{record['rates'][_OURS]['tflops']:.1f}", *ratios, named[0][0], rated


def _timed(record: Record, names: Sequence[str]) -> tuple[str, ...]:
    own = record["rates"][_OURS]
    ratios = (_ratio(record, name) for name in names)
    rates = f"{own['tflops']:.1f}", f"{own['p20']:.1f}–{own['p80']:.1f}"
    return (record["shape"], *rates, *ratios, _share(record), tuned.words(record["sizes"]))


def _ratio(record: Record, name: str) -> str:
    rates = record["rates"]
    return f"{rates[_OURS]['tflops'] / rates[name]['tflops']:.2f}" if name in rates else ""


def _share(record: Record) -> str:
    """Our kernel's share of the roofline: the matrix units at the observed clock, and memory at the speed of copies."""
    clock, row = str(record.get("clocks.sm", "")).partition(" ")[0], plan.TYPES[record["types"]]
    if not clock.isdigit() or not record.get("copy_bytes_a_second"):
        return ""
    m, n, k = map(int, record["shape"].split("x"))
    peak = record["processors"] * int(clock) * 1e6 * _CYCLE[record["types"]]
    bytes_ = (m * k + k * n) * dtype(row.a).bits // 8 + m * n * dtype(row.c).bits // 8
    least = max(2 * m * n * k / peak, bytes_ / record["copy_bytes_a_second"])
    return f"{least * record['rates'][_OURS]['tflops'] * 1e12 / (2 * m * n * k):.0%}"
