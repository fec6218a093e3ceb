# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sentences and small tables of docs, written from results: each function gives the lines of one block, none without results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from pathlib import Path

from published import Machine, span
from tables import best, between, by_type, listed, table, times
from tilewright.bench.blas import NAME as BLAS
from tilewright.bench.blas.page import BY_DEFAULT, over_better
from tilewright.bench.blas.programs import NAME as PROGRAMS
from tilewright.bench.blas.programs import WITHOUT
from tilewright.bench.models.measuring import NAME as MODELS
from tilewright.bench.models.measuring import OURS
from tilewright.bench.operators.results import Result
from tilewright.bench.plot import type_name
from tilewright.bench.rows import PLAIN, Row
from tilewright.bench.squares import square

FEW_ROWS = ("1x4096x4096", "8x4096x4096", "32x4096x4096", "128x4096x4096", "8x32768x512")
FEW_COLUMNS = ("1000x1x1000", "2048x8x2048", "32768x8x512")
_BIG = 512  # from here on several threads have enough to do


def few_rows(machine: Machine, page: Path) -> Iterator[str]:
    """Few rows by a large B, as a share of what memory and arithmetic allow."""
    yield from _bounded(machine, FEW_ROWS)


def few_columns(machine: Machine, page: Path) -> Iterator[str]:
    """Many rows by few columns, as a share of what memory and arithmetic allow."""
    yield from _bounded(machine, FEW_COLUMNS)


def _bounded(machine: Machine, shapes: tuple[str, ...]) -> Iterator[str]:
    rows = {
        dtype: found
        for dtype, every in by_type(machine).items()
        if (found := [row for row in every if str(row.shape) in shapes])
    }
    if rows:
        yield _measured(
            machine, [row for found in rows.values() for row in found], 'one thread; "roof" is the lower of'
        )
        yield "the measured peak and what the measured bandwidth allows."
        yield ""
        yield from table(
            rows, shapes, {"% of roof": lambda row: f"{row.percent_of_roofline:.0f}", "× best library": best}
        )


def threads(machine: Machine, page: Path) -> Iterator[str]:
    """What several threads reach of the peak of as many cores, over the squares."""
    for count in sorted({row.threads for row in machine.plain if row.threads > 1}):
        squares = {
            dtype: [row.percent_of_peak for row in every if square(row) and row.shape.m >= _BIG]
            for dtype, every in by_type(machine, count).items()
        }
        parts = [f"{between(shares, 0)} % in {type_name(dtype)}" for dtype, shares in squares.items() if shares]
        if parts:
            yield f"On {count} threads, squares from {_BIG} up reach {listed(parts)} of the peak of {count} cores."


def fused(machine: Machine, page: Path) -> Iterator[str]:
    """What bias and gelu cost beside the plain product, and how torch.compile compares."""
    found: dict[str, list[Row]] = {}
    for row in machine.fused:
        if row.epilogue == "bias:n,gelu" and PLAIN in row.peers:
            found.setdefault(row.dtype.split(",")[0], []).append(row)
    if found:
        yield _measured(machine, [row for rows in found.values() for row in rows], "one thread, five layers of BERT:")
        plain = [f"{between(row.ratio(PLAIN) for row in rows)} in {dtype}" for dtype, rows in found.items()]
        ratios = {dtype: [ratio for row in rows if (ratio := row.ratio_to_best)] for dtype, rows in found.items()}
        peers = [f"{between(every)} in {dtype}" for dtype, every in ratios.items() if every]
        yield f"with bias and gelu they run at {listed(plain)} of the speed of the plain product"
        yield f"and at {listed(peers)} times the speed of torch.compile."


def convolutions(machine: Machine, page: Path) -> Iterator[str]:
    """The convolutions of ResNet-50 beside each library."""
    found = _operators(machine, "convolutions")
    if found:
        every = [each for results in found.values() for each in results]
        yield _measured(machine, every, "one thread, the convolutions of ResNet-50: the median")
        shares = [
            f"{statistics.median(each.percent_of_limit for each in results):.0f} % in {dtype}"
            for dtype, results in found.items()
        ]
        yield f"share of the peak is {listed(shares)}. The geometric means of our speed over that of"
        libraries = dict.fromkeys(name for each in every for name, _ in each.ratios())
        yield f"{'; '.join(f'{name} are {listed(_means(found, name))}' for name in libraries)}."


def attention(machine: Machine, page: Path) -> Iterator[str]:
    """Attention beside torch, by blocks of queries and for single ones."""
    found = _operators(machine, "attention")
    if found:
        yield _measured(machine, [each for results in found.values() for each in results], "one thread:")
        yield ""
    for streams, what, limit in (
        (False, "blocks of queries", "the peak"),
        (True, "single queries", "the bandwidth measured in the same round"),
    ):
        kinds = {dtype: [each for each in results if each.streams is streams] for dtype, results in found.items()}
        kinds = {dtype: results for dtype, results in kinds.items() if results}
        shares = [f"{between((each.percent_of_limit for each in r), 0)} % in {dtype}" for dtype, r in kinds.items()]
        ratios = {dtype: [ratio for each in r for _, ratio in each.ratios()] for dtype, r in kinds.items()}
        beside = [f"{between(every, 1)} in {dtype}" for dtype, every in ratios.items() if every]
        if beside:
            yield f"- {what} reach {listed(shares)} of {limit}; our speed over that of torch is {listed(beside)}."


def _operators(machine: Machine, name: str) -> dict[str, list[Result]]:
    """Every case of an operator on one thread, by the type asked for."""
    found: dict[str, list[Result]] = {}
    for each in machine.operators:
        if each.operator == name and each.threads == 1:
            found.setdefault(each.asked, []).append(each)
    return found


def _means(found: dict[str, list[Result]], library: str) -> list[str]:
    """For each type the geometric mean of our rate over that of a library, where it was measured."""
    ratios = {
        dtype: [math.log(ratio) for each in results for name, ratio in each.ratios() if name == library]
        for dtype, results in found.items()
    }
    return [f"{math.exp(statistics.fmean(every)):.2f} in {dtype}" for dtype, every in ratios.items() if every]


def _measured(machine: Machine, what: list[Row] | list[Result], how: str) -> str:
    return f"Measured {span(what)} on {machine.name}, {how}"


def blas(machine: Machine, page: Path) -> Iterator[str]:
    """Calls of our BLAS over the better one of OpenBLAS and MKL, by type and number of threads."""
    found = [each for each in machine.operators if each.operator == BLAS and over_better(each)]
    if not found:
        return
    names = " and ".join(BY_DEFAULT)
    yield _measured(
        machine, found, f"C's interface, in turn with {names}; ratios are our rate over the better one's, of"
    )
    yield "calls of gemm, gemv, symm, syrk, trmm and trsm from 3×5×7 on."
    yield ""
    yield "| type | threads | calls | geometric mean | worst |"
    yield "|---|---:|---:|---:|---|"
    for dtype, count in dict.fromkeys((each.asked, each.threads) for each in found):
        ratios = {each.case: over_better(each) or 0 for each in found if (each.asked, each.threads) == (dtype, count)}
        worst = min(ratios, key=ratios.__getitem__)
        mean = statistics.geometric_mean(ratios.values())
        yield f"| {dtype} | {count} | {len(ratios)} | {mean:.2f} | {ratios[worst]:.2f}, {times(worst)} |"


def programs(machine: Machine, page: Path) -> Iterator[str]:
    """Expressions of numpy's with our BLAS, over the same without it."""
    found = [each for each in machine.operators if each.operator == PROGRAMS]
    if not found:
        return
    yield _measured(
        machine, found, "one thread: the speed of expressions of numpy's with the library over that without it."
    )
    yield ""
    yield "| expression | type | × without | without it is |"
    yield "|---|---|---:|---|"
    for each in found:
        yield f"| {times(each.case)} | {each.asked} | {dict(each.ratios())[WITHOUT]:.2f} | {each.versions[WITHOUT]} |"


def models(machine: Machine, page: Path) -> Iterator[str]:
    """Whole models: our rate over that of the fastest of the others, and over each."""
    found = [each for each in machine.operators if each.operator == MODELS]
    if not found:
        return
    names = list(dict.fromkeys(name for each in found for name, _ in each.ratios() if name not in OURS))
    yield _measured(machine, found, "the fastest of ours over each of the others,")
    yield "in turn, each in a process of its own:"
    yield ""
    yield f"| model | type | threads | % of peak | {' | '.join(f'× {name}' for name in names)} |"
    yield f"|---|---|---:|---:|{'---:|' * len(names)}"
    for each in found:
        ratios = dict(each.ratios())
        cells = (f"{ratios[name]:.2f}" if name in ratios else "" for name in names)
        what = (each.case, type_name(each.asked), str(each.threads), f"{each.percent_of_limit:.0f}")
        yield f"| {' | '.join((*what, *cells))} |"
