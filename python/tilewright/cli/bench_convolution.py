# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench --conv``: the convolutions of a network beside other libraries."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tilewright.cli.output import console
from tilewright.errors import TilewrightError


def from_context(context: click.Context) -> int:
    """Measures what the options of ``bench`` say, of which only some apply.

    Raises:
        click.UsageError: Options that do not apply are given.
        TilewrightError: The network is unknown.
    """
    from tilewright.bench import convolution
    from tilewright.bench.convolution import page

    given = context.params
    for name in ("shapes", "suites", "file", "schedule", "parameters", "epilogue", "batch", "plot", "plots", "compare"):
        if given.get(name):
            raise click.UsageError(f"--conv given, and {name}; expected one of them")
    network, threads = given["conv"], given["threads"]
    if network not in convolution.LAYERS:
        known = ", ".join(convolution.LAYERS)
        raise TilewrightError(f"no network {network!r}", where="--conv", expected=f"one of {known}")
    peers = None if given["peers"] is None else [each for each in given["peers"].split(",") if each not in ("", "none")]
    out = console(stderr=given["json_file"] == "-")
    groups = []
    for asked in dict.fromkeys(given["dtypes"]):
        results = convolution.run(
            convolution.LAYERS[network],
            asked,
            target=given["target"],
            libraries=peers,
            threads=threads[0],
            rounds=given["rounds"],
            min_seconds=given["sample_ms"] / 1000,
            done=lambda each: out.print(f"{each.layer} {each.asked}", style="dim", highlight=False),
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
        text = page.markdown(groups, f"Benchmark results: the convolutions of {network}", given["command"])
        Path(given["report"]).write_text(text, encoding="utf-8")
    return 0
