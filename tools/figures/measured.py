# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages of what was measured on machines that were at hand for minutes: a card, and a processor with AMX."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from published import FOLDER
from tilewright.bench.card import page, plan
from tilewright.bench.markdown import table
from tilewright.bench.suites import parse_shape
from tilewright.schedules import make
from tilewright.schedules.gpu import warpgroup_sizes
from tilewright.schedules.gpu.warpgroup import WarpGroupTile
from tilewright.spec import MatmulSpec
from tilewright.targets import get

CARD, AMX = FOLDER / "nvidia-h200.jsonl.gz", FOLDER / "emerald-rapids-amx.csv"
"""Records of `bench card`, in which `run` tells the second time that products were timed, with other sizes, from the first; and blocks of
AMX products that were tried."""
BESIDE = {
    "emerald-rapids-amx-beside.csv": (
        "## Beside other libraries, on Emerald Rapids",
        "on 2026-11-28: one thread on a virtual machine",
        "of two cores (family 6, model 207), whose neighbors were at times so busy that rates halved. So all are shares of the peak",
        "that was measured between them, and times the rates of the others, the medians of 25 rounds in which all took turns",
        "(MKL 2026.2, oneDNN 3.12, jaxlib 0.10.2).",
        '"Before" is the commit before tiles passed L1 by, A was read where it lies, and panels of B were packed several at a time.',
    ),
    "granite-rapids-amx-beside.csv": (
        "## Beside other libraries, on Granite Rapids",
        "on 2026-11-29: one thread on a virtual machine",
        "of two cores, which has 480 MiB of L3 and tells no model; 3.2 GHz, 28 GB/s from L3, 8 to 15 from memory. The medians of seven",
        "rounds in which all took turns (MKL 2026.2, oneDNN 3.12, jaxlib 0.10.2).",
        '"Before" is the commit before the units that stores of tiles need were kept awake, slices of B were prefetched by up to sixteen',
        "rows, packed operands lay in huge pages, and blocks were chosen by what packing takes; the better of two runs each, in turn.",
    ),
}
"""AMX products beside other libraries, what `bench amx` wrote: percent of the measured peak, and times the rates of the others; both also
before the changes of that day where they were measured then. By file, the title, when, and on what."""
ESTIMATES = FOLDER / "nvidia-h200-estimates.csv"
"""Products of those records, with the rate that the emulator's model of time gives them (`tools/estimate_table`)."""
_APART = 1.15
"""Times the rate of the other, from which on two kernels for one product count as different."""
_AMX_TARGET = "sapphirerapids"
_FLAGS = ("swapped", "pingpong", "streamed", "fetched")
_RANGES = ((1, 64), (65, 512), (513, 1 << 30))
"""Rows of C, of which the model's choice is compared with what was measured."""


def pages(root: Path) -> dict[Path, str]:
    """The pages by their paths below the root, each where there are results for it."""
    made = ((CARD, "card_results.md", _card), (AMX, "amx_results.md", _amx))
    reference = FOLDER.parent
    return {
        reference / name: "\n".join(lines(root / file)) + "\n" for file, name, lines in made if (root / file).exists()
    }


def records(file: Path) -> list[dict[str, Any]]:
    """Those of a card."""
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def shares(some: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, int, float]]:
    """Of each product its run, its rows, and the rate of the sizes that the model predicts to be fastest over the best of those tried."""
    for each in some:
        if each["kind"] != "time" or "tried" not in each:
            continue
        shape = parse_shape(each["shape"])
        spec = plan.spec_of(each["types"], each["layout"], each["epilogue"], shape)
        rates = []
        for one in each["tried"]:
            made = WarpGroupTile(
                **{name: bool(size) if name in _FLAGS else size for name, size in one["sizes"].items()}
            )
            rates.append((warpgroup_sizes.predicted(spec, made) or 0.0, one["tflops"]))
        if len(rates) > 1:
            yield each["run"], shape.m, min(rates)[1] / max(rate for _, rate in rates)


def _card(file: Path) -> Iterator[str]:
    every = records(file)
    last = {each["step"]: each for each in every if not each["step"].startswith("quick ")}
    yield from page.markdown(list(last.values()), "tilewright bench card build/card").splitlines()
    yield from ("", "## The model beside what was measured", "")
    yield "Products were timed twice, with the sizes that the model ranked highest before and after its constants were fitted to the first"
    yield "run. Of all sizes that a run tried, the one that the model now predicts to be fastest has so much of the best one's rate:"
    yield ""
    found = list(shares(every))
    rows = []
    for run in (1, 2):
        for least, most in _RANGES:
            some = [share for of, m, share in found if of == run and least <= m <= most]
            name = f"{least} to {most}" if most < _RANGES[-1][1] else f"from {least}"
            rows.append((str(run), name, str(len(some)), f"{geometric_mean(some):.3f}", f"{min(some):.2f}"))
    yield from table(("run", "rows of C", "products", "geometric mean", "worst"), rows, "rlrrr")
    if (estimates := file.with_name(ESTIMATES.name)).exists():
        yield from _estimates(estimates)


def _estimates(file: Path) -> Iterator[str]:
    yield from ("", "## The emulator's estimate beside what was measured", "")
    yield "[`tilewright emulate --time`](../how-to/emulate.md#an-estimate-of-the-time) models the multiprocessors of an H100, and no memory"
    yield f"behind their L2 cache. [What it gives](results/{file.name}) was written by `python tools/estimate_table`: of each product"
    yield "the fastest, a middle and the slowest of the sizes that the second run tried. Estimated over measured rates, and, of two kernels"
    yield f"for one product whose rates are more than {_APART - 1:.0%} apart, how many pairs the estimates have in their order:"
    yield ""
    with file.open(encoding="utf-8", newline="") as opened:
        every = list(csv.DictReader(opened))
    heads = ("type", "rows of C", "kernels", "geometric mean", "least", "most", "pairs in order")
    rows = []
    for types in dict.fromkeys(each["types"] for each in every):
        for least, most in _RANGES:
            some = [each for each in every if each["types"] == types and least <= int(each["m"]) <= most]
            if not some:
                continue
            ratios = [float(each["estimated"]) / float(each["measured"]) for each in some]
            name = f"{least} to {most}" if most < _RANGES[-1][1] else f"from {least}"
            figures = (f"{value:.2f}" for value in (geometric_mean(ratios), min(ratios), max(ratios)))
            ordered = list(_in_order(some))
            rows.append((types, name, str(len(some)), *figures, f"{sum(ordered)} of {len(ordered)}"))
    yield from table(heads, rows, "llrrrrr")


def _in_order(some: Sequence[Mapping[str, str]]) -> Iterator[bool]:
    """Of pairs of kernels for one product that differ in what was measured, whether the estimates have the same order."""
    for one, other in combinations(some, 2):
        if all(one[name] == other[name] for name in ("layout", "m", "n", "k")):
            slow, fast = sorted((one, other), key=lambda each: float(each["measured"]))
            if float(fast["measured"]) > _APART * float(slow["measured"]):
                yield float(fast["estimated"]) > float(slow["estimated"])


def _amx(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        every = list(csv.DictReader(opened))
    peaks = {each["types"]: f"{float(each['gflops']):.0f}" for each in every if each["whose"] == "peak"}
    yield "# AMX products, measured on one core of Emerald Rapids"
    yield ""
    yield f"Written by `make bench-docs` from [what was measured](results/{AMX.name}) on 2026-11-26: one thread on a virtual machine"
    yield "(family 6, model 207, 2 MiB of L2 for a core) of 16 cores, of which a card's benchmarks used eight meanwhile. Rates are GFLOP/s,"
    yield "the median of seven rounds in which all took turns. The kernels were compiled elsewhere, into a [library](../how-to/library.md)."
    yield f"All results were right. The core's peak, of tiles in registers: {peaks['bf16']} in bf16, {peaks['u8,i8,i32']} in u8 by i8."
    yield "Results of torch 2.11 are of bf16, ours of f32. B is packed in each call."
    yield ""
    yield '"Before" is what the model of blocks chose then; "best" the best of up to 28 blocks (mc, nc, kc) that were tried, to which'
    yield 'the model was fitted; "now" the rate of the block that it chooses since, where that was among them.'
    yield ""
    heads = ("types", "M×N×K", "before", "best", "its mc, nc, kc", "now", "the model's mc, nc, kc", "torch")
    yield from table(heads, _blocks(every), "llrrlrlr")
    plain = next(each for each in every if each["types"] == "f32" and each["whose"] == "torch")
    pieces = [each for each in every if each["whose"].startswith("bf16x")]
    yield ""
    yield (
        f"f32 from pieces of bf16, {plain['m']}×{plain['n']}×{plain['k']}: "
        + ", ".join(f'`precision="{each["whose"]}"` {float(each["gflops"]):.0f}' for each in pieces)
        + f"; torch's f32 product, without AMX: {float(plain['gflops']):.0f}."
    )
    for name, about in BESIDE.items():
        yield from _beside(file.parent / name, *about)


def _beside(file: Path, title: str, when: str, *about: str) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="") as opened:
        every = list(csv.DictReader(opened))
    yield from ("", title, "")
    yield f"Written likewise from [what `bench amx` measured](results/{file.name}) {when}"
    yield from (*about, "")
    heads = (
        "types",
        "M×N×K",
        "B packed",
        "% of peak",
        "before",
        "times MKL",
        "oneDNN",
        "XLA",
        "the best",
        "that before",
    )
    yield from table(heads, map(_beside_others, every), "llrrrrrrrr")
    yield ""
    for packed, how in (("0", "in each call"), ("1", "ahead of time")):
        some = [min(_ratios(each)) for each in every if each["packed"] == packed]
        mean, least = geometric_mean(some), min(some)
        yield f"B packed {how}, times the best other library: {mean:.2f} over {len(some)} products, {least:.2f} at least."


def _ratios(row: Mapping[str, str]) -> list[float]:
    return [float(row[name]) for name in ("mkl", "onednn", "xla") if row[name]]


def _beside_others(row: Mapping[str, str]) -> tuple[str, ...]:
    types, *extents = _product(row)
    shares = [f"{float(row[name]):.0f}" if row[name] else "" for name in ("percent", "before_percent")]
    times = [f"{float(row[name]):.2f}" if row[name] else "" for name in ("mkl", "onednn", "xla")]
    before = f"{float(row['before_ratio']):.2f}" if row["before_ratio"] else ""
    how = "ahead" if row["packed"] == "1" else ""
    return types, "×".join(extents), how, *shares, *times, f"{min(_ratios(row)):.2f}", before


def _blocks(every: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    products = dict.fromkeys(_product(each) for each in every if each["whose"] == "tried")
    for types, *extents in products:
        some = [each for each in every if _product(each) == (types, *extents)]
        tried = {_block(each): float(each["gflops"]) for each in some if each["whose"] == "tried"}
        best = max(tried, key=tried.__getitem__)
        m, n, k = map(int, extents)
        spec = MatmulSpec.from_dtypes(m, n, k, types)
        sizes = make.make(spec, get(_AMX_TARGET)).sizes
        now = sizes["mc"], sizes["nc"], sizes["kc"]
        rate = f"{tried[now]:.0f}" if now in tried else ""
        before, torch = (
            next((f"{float(each['gflops']):.0f}" for each in some if each["whose"] == name), "")
            for name in ("before", "torch")
        )
        yield types, "×".join(extents), before, f"{tried[best]:.0f}", _words(best), rate, _words(now), torch


def _product(row: Mapping[str, str]) -> tuple[str, ...]:
    return row["types"], row["m"], row["n"], row["k"]


def _block(row: Mapping[str, str]) -> tuple[int, int, int]:
    return int(row["mc"]), int(row["nc"]), int(row["kc"])


def _words(block: tuple[int, int, int]) -> str:
    return ", ".join(map(str, block))
