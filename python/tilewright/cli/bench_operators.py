# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the kinds of ``tilewright bench`` that measure other things than suites of shapes have in common."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli.output import console

if TYPE_CHECKING:
    from tilewright.bench.operators import Comparison
    from tilewright.bench.operators.contender import Case
    from tilewright.bench.operators.page import Page


def refuse(context: click.Context, option: str, *others: str) -> None:
    """Refuses options of ``bench`` that do not apply beside `option`.

    Raises:
        click.UsageError: One is given: of `others`, or of those that no such kind takes.
    """
    for name in (*others, "file", "schedule", "parameters", "epilogue", "batch", "plot", "plots", "compare"):
        if context.params.get(name):
            raise click.UsageError(f"{option} given, and {name}; expected one of them")


def write_json(context: click.Context, rows: Iterable[dict[str, Any]]) -> None:
    """Writes results where ``--json`` says, if it is given."""
    file = context.params["json_file"]
    if not file:
        return
    text = json.dumps(list(rows), indent=1)
    if file == "-":
        click.echo(text)
    else:
        Path(file).write_text(f"{text}\n", encoding="utf-8")


def compare(context: click.Context, comparison: Comparison, cases: Sequence[Case], page: Page, title: str) -> int:
    """Measures cases as the options of ``bench`` say, of which only some apply, and writes what comes out.

    Raises:
        TilewrightError: A type or a library is unknown or not there.
    """
    given = context.params
    names = None if given["peers"] is None else [each for each in given["peers"].split(",") if each not in ("", "none")]
    out = console(stderr=given["json_file"] == "-")
    groups = []
    for asked in dict.fromkeys(given["dtypes"]):
        results = comparison.run(
            cases,
            asked,
            target=given["target"],
            libraries=names,
            threads=given["threads"][0],
            rounds=given["rounds"],
            min_seconds=given["sample_ms"] / 1000,
            done=lambda each: out.print(f"{each.case} {each.asked}", style="dim", highlight=False),
        )
        for line in page.table(results):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
        groups.append(results)
    write_json(context, (page.as_json(each) for group in groups for each in group))
    if given["report"]:
        Path(given["report"]).write_text(page.markdown(groups, title, given["command"]), encoding="utf-8")
    return 0
