# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a run as a Markdown page: its conditions, its summary, and every shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.bench.markdown import table
from tilewright.bench.operators.results import Result
from tilewright.bench.report import ABOVE, Against, Group, Summary, groups, peer_names, rates, summary
from tilewright.bench.rows import Row

_COLUMNS = (
    "Rates are medians over the rounds in GFLOP/s; percentages refer to the peak measured in the same round; ratios are our"
    " rate over the peer's, above 1 we are faster. Hot: the same operands in every call. B comes in row-major order, and is"
    " packed in each call, unless it says that it was packed ahead."
)


def markdown(
    rows: Sequence[Row],
    *,
    title: str = "Benchmark results",
    command: str = "tilewright bench",
    pictures: Mapping[str, str] | None = None,
) -> str:
    """The page of one run.

    Args:
        rows: Of one machine.
        title: The heading.
        command: What was run.
        pictures: From the name of each picture of `pictures.draw`, without its suffix, to what a link to it says.

    Raises:
        TilewrightError: There are no rows.
    """
    return "\n".join([f"# {title}", "", *body(rows, command=command, pictures=pictures or {})]) + "\n"


def body(rows: Sequence[Row], *, command: str, pictures: Mapping[str, str], level: int = 2) -> Iterator[str]:
    """The lines of one machine: its facts, what came out in sum, and a heading of that level with each table.

    Raises:
        TilewrightError: There are no rows.
    """
    tables = {group: (members, summary(members)) for group, members in groups(rows).items()}
    yield from measured(rows, command)
    yield from (_COLUMNS, "", *_overview(tables))
    yield from _shown([name for name in pictures if name.startswith(("squares-", "bars-", "ratios-"))], pictures)
    for group, (members, sums) in tables.items():
        yield from ("", f"{'#' * level} {group.title()}", "", *_table(members), "")
        yield from (f"- {line}" for line in sums.text().splitlines())
        yield from _shown([f"roofline-{group.slug}"], pictures)


def measured(results: Sequence[Row | Result], command: str) -> Iterator[str]:
    """When, with what command, of which source, and on which machine results were measured."""
    dates = sorted(each.date for each in results if each.date)
    if dates:
        yield f"Measured {dates[0]} to {dates[-1]} with `{command}`."
    for machine in dict.fromkeys(each.machine for each in results if each.machine):
        yield f"Machine: {machine}."
    versions = list(dict.fromkeys(each.version for each in results if each.version))
    if versions:
        yield f"Version: {'; '.join(versions)}."


def _shown(names: Sequence[str], links: Mapping[str, str]) -> Iterator[str]:
    """Those of the named pictures that are there."""
    for each in names:
        if each in links:
            yield ""
            yield f"![{each}]({links[each]})"


def _overview(tables: dict[Group, tuple[list[Row], Summary]]) -> Iterator[str]:
    heads = ("", "shapes", "median % of peak", "times the best peer, geometric mean", "worst", "where")
    lines = [
        (group.title(), str(len(members)), f"{sums.percent_of_peak:.1f}", *_against(sums.best))
        for group, (members, sums) in tables.items()
    ]
    return table(heads, lines, align="llllll")


def _against(best: Against | None) -> tuple[str, str, str]:
    return (f"{best.geomean:.2f}", f"{best.worst:.2f}", best.worst_shape) if best else ("", "", "")


def _table(rows: Sequence[Row]) -> Iterator[str]:
    names = peer_names(rows)
    heads = ("M×N×K", "GFLOP/s", "p20–p80", "% peak", "% roof", *(f"÷ {each}" for each in names), "best")
    lines = (
        (
            *rates(row),
            *(f"{row.ratio(each):.2f}" if each in row.peers else "" for each in names),
            "" if row.ratio_to_best is None else f"{row.ratio_to_best:.2f}",
            f"{row.compile_seconds:.2f}",
            str(row.object_bytes),
        )
        for row in rows
    )
    yield from table((*heads, "compile s", "bytes"), lines)
    if any(row.above_peak for row in rows):
        yield ""
        yield f"\\{ABOVE} Above the measured peak, also when measured again: the rate or the peak was disturbed."
