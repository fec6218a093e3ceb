# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --attention``: attention beside torch's."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tilewright.cli.output import console
from tilewright.errors import TilewrightError

_OTHERS = (
    "shapes",
    "suites",
    "conv",
    "weights",
    "file",
    "schedule",
    "parameters",
    "epilogue",
    "batch",
    "plot",
    "plots",
    "compare",
)


def from_context(context: click.Context) -> int:
    """Measures what the options of ``bench`` say, of which only some apply.

    Raises:
        click.UsageError: Options that do not apply are given.
        TilewrightError: The suite is unknown.
    """
    from tilewright.bench import attention
    from tilewright.bench.attention import page

    given = context.params
    for name in _OTHERS:
        if given.get(name):
            raise click.UsageError(f"--attention given, and {name}; expected one of them")
    known = {**attention.SUITES, "all": tuple(case for suite in attention.SUITES.values() for case in suite)}
    if given["attention"] not in known:
        raise TilewrightError(
            f"no attention {given['attention']!r}", where="--attention", expected=f"one of {', '.join(known)}"
        )
    peers = (
        None
        if given["peers"] is None
        else tuple(each for each in given["peers"].split(",") if each not in ("", "none"))
    )
    out = console(stderr=given["json_file"] == "-")
    groups = []
    for asked in dict.fromkeys(given["dtypes"]):
        results = attention.run(
            known[given["attention"]],
            asked,
            target=given["target"],
            libraries=peers,
            threads=given["threads"][0],
            rounds=given["rounds"],
            min_seconds=given["sample_ms"] / 1000,
            done=lambda each: out.print(f"{each.case} {each.asked}", style="dim", highlight=False),
        )
        for line in page.table(results):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
        groups.append(results)
    if given["json_file"]:
        text = json.dumps([page.as_json(each) for group in groups for each in group], indent=1)
        if given["json_file"] == "-":
            click.echo(text)
        else:
            Path(given["json_file"]).write_text(f"{text}\n", encoding="utf-8")
    if given["report"]:
        text = page.markdown(groups, "Results: attention", given["command"])
        Path(given["report"]).write_text(text, encoding="utf-8")
    return 0
