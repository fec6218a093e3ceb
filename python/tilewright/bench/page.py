# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A run as a Markdown page: when, where and how it was measured, what came out in sum, and every shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.bench.report import Group, Summary, groups, summary
from tilewright.bench.rows import Row


def markdown(
    rows: Sequence[Row],
    *,
    title: str = "Benchmark results",
    command: str = "tilewright bench",
    pictures: Mapping[str, str] | None = None,
) -> str:
    """The page.

    Args:
        rows: Of one machine.
        title: The heading.
        command: What was run.
        pictures: From the name of each picture of `pictures.draw`, without its suffix, to what a link to it says.

    Raises:
        TilewrightError: There are no rows.
    """
    tables = {group: (members, summary(members)) for group, members in groups(rows).items()}
    links = pictures or {}
    maps = [name for name in links if name.startswith("ratios-")]
    lines = [f"# {title}", "", *_facts(rows, command), "", *_overview(tables), *_shown(maps, links)]
    for group, (members, sums) in tables.items():
        lines += [
            "",
            f"## {_name(group)}",
            "",
            *_table(members),
            "",
            *(f"- {line}" for line in sums.text().splitlines()),
            *_shown([f"gflops-{group.slug}", f"roofline-{group.slug}"], links),
        ]
    return "\n".join(lines) + "\n"


def _shown(names: Sequence[str], links: Mapping[str, str]) -> Iterator[str]:
    """Those of the named pictures that are there."""
    for name in names:
        if name in links:
            yield ""
            yield f"![{name}]({links[name]})"


def _facts(rows: Sequence[Row], command: str) -> Iterator[str]:
    dates = sorted(row.date for row in rows if row.date)
    if dates:
        yield f"Measured {dates[0]} to {dates[-1]} with `{command}`."
    for machine in dict.fromkeys(row.machine for row in rows if row.machine):
        yield f"Machine: {machine}."
    yield (
        "Rates are medians over the rounds in GFLOP/s; percentages refer to the peak measured in the same round; ratios are our"
        " rate over the peer's, above 1 we are faster."
    )


def _overview(tables: dict[Group, tuple[list[Row], Summary]]) -> Iterator[str]:
    yield "| | shapes | median % of peak | times the best peer, geometric mean | worst | where |"
    yield "|---|---|---|---|---|---|"
    for group, (members, sums) in tables.items():
        best = sums.best
        against = f"{best.geomean:.2f} | {best.worst:.2f} | {best.worst_shape}" if best else "| |"
        yield f"| {_name(group)} | {len(members)} | {sums.percent_of_peak:.1f} | {against} |"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row.peers))
    yield (
        "| M×N×K | GFLOP/s | p20–p80 | % peak | % roof | "
        + "".join(f"÷ {name} | " for name in names)
        + "best | compile s | bytes |"
    )
    yield "|---|" + "---:|" * (7 + len(names))
    for row in rows:
        ratios = "".join(f"{row.ratio(name):.2f} | " if name in row.peers else "| " for name in names)
        best = "" if row.ratio_to_best is None else f"{row.ratio_to_best:.2f}"
        spread = f"{row.ours.percentile(20):.1f}–{row.ours.percentile(80):.1f}"
        yield (
            f"| {row.shape} | {row.gflops:.1f} | {spread} | {row.percent_of_peak:.1f} | {row.percent_of_roofline:.1f} | "
            f"{ratios}{best} | {row.compile_seconds:.2f} | {row.object_bytes} |"
        )


def _name(group: Group) -> str:
    threads = "1 thread" if group.threads == 1 else f"{group.threads} threads"
    packed = ", B packed ahead" if group.packed else ""
    epilogue = f", {group.epilogue}" if group.epilogue else ""
    layout = "" if group.layout == "nn" else f", {group.layout}"
    return f"{group.dtype}{layout}, {threads}, {'cold' if group.cold else 'hot'}{packed}{epilogue}"
