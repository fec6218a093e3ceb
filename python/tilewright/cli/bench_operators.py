# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the kinds of ``tilewright bench`` that measure other things than suites of shapes have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from tilewright.cli import options
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.output import console

if TYPE_CHECKING:
    from tilewright.bench.operators.comparison import Comparison
    from tilewright.bench.operators.contender import Case
    from tilewright.bench.operators.page import Page
    from tilewright.bench.operators.results import Result


PARAMETERS = ("dtypes", "target", "threads", "peers", "rounds", "sample_ms", "json_file", "resume", "report", "command")
"""Those of ``bench`` that mean something to `compare`."""


def check(context: click.Context, option: str, *names: str) -> None:
    """Checks, before anything is measured, that the options of ``bench`` that are given mean something beside `option`.

    Args:
        context: Of ``bench``.
        option: What says the kind: ``--conv``.
        names: The parameters that mean something to this kind.

    Raises:
        click.UsageError: Another one is given, or several numbers of threads.
    """
    options.require_only(context, option, *names)
    if len(context.params["threads"]) > 1:
        raise click.UsageError(f"--threads given {len(context.params['threads'])} times; expected once with {option}")


def compare(context: click.Context, comparison: Comparison, cases: Sequence[Case], page: Page) -> int:
    """Measures cases as the options of ``bench`` say, of which only some apply, and writes what comes out.

    Raises:
        TilewrightError: A type or a library is unknown or not there.
    """
    from tilewright.bench import results

    given = context.params
    names = None if given["peers"] is None else [each for each in given["peers"].split(",") if each not in ("", "none")]
    outputs = Outputs.of(context)
    outputs.check()
    out = console(stderr=outputs.json_file == "-")
    earlier = outputs.earlier(given["resume"])
    keep = outputs.growing(earlier)

    def done(result: Result) -> None:
        keep(result)
        out.print(f"{result.case} {result.asked}", style="dim", highlight=False)

    found: list[Result] = []
    for asked in dict.fromkeys(given["dtypes"]):
        found += comparison.run(
            cases,
            asked,
            target=given["target"],
            libraries=names,
            threads=given["threads"][0],
            rounds=given["rounds"],
            min_seconds=given["sample_ms"] / 1000,
            finished=results.operators(earlier),
            done=done,
        )
        for line in page.table([each for each in found if each.asked == asked]):
            out.print(line, soft_wrap=True, markup=False, highlight=False)
    outputs.write_json(found)
    outputs.write_page(page.markdown(found, outputs.command))
    return 0


def show(results: Iterable[Result]) -> None:
    """Prints an earlier result."""
    from tilewright.bench.operators.pages import PAGES

    every = list(results)
    for name, page in PAGES.items():
        for asked in dict.fromkeys(each.asked for each in every if each.operator == name):
            for line in page.table([each for each in every if (each.operator, each.asked) == (name, asked)]):
                console().print(line, soft_wrap=True, markup=False, highlight=False)
