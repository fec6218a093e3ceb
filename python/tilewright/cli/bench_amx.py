# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench amx``: numbers checked on AMX, shapes beside other libraries, the bars they have to reach, and some tuned."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import bench_options, options, output
from tilewright.cli.bench_compare import print_rows
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.bench_progress import progress_bar
from tilewright.cli.output import console

if TYPE_CHECKING:
    from tilewright.bench import Case, Event, Row
    from tilewright.spec import MatmulSpec

_MEASURED = 0.7
"""Part of the time after which nothing more is measured; the rest is for tuning."""


class _Over(Exception):  # noqa: N818 - no error
    """The time is over."""


@options.verb(short_help="Numbers, rates and bars on a processor with AMX.")
@options.shape(required=False)
@bench_options.peers
@bench_options.effort
@bench_options.json_file
@bench_options.resume
@click.option(
    "--budget",
    type=options.Number(min=0, min_open=True),
    default=540.0,
    show_default=True,
    metavar="SECONDS",
    help="Begin nothing more after so long.",
)
@click.option(
    "--tune",
    type=options.Number(min=0),
    default=40.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each product is tuned that is, at most.",
)
@click.option("--database", metavar="FILE", help="The database of tuned choices, in place of TILEWRIGHT_RECORDS.")
def amx(
    shapes: tuple[options.Extents, ...],
    budget: float,
    tune: float,
    database: str | None,
    **given: Any,  # noqa: ANN401 - of the options
) -> int:
    """Check numbers on AMX, measure products beside other libraries, compare them with their bars, and tune some.

    Without --shape the products are those that have bars. Wrong numbers, a bar that is missed and a case that is left out end with
    status 1. A machine without AMX ends with status 2, after one line that says so.
    """
    from tilewright.bench import amx as measuring
    from tilewright.bench import parse_shape
    from tilewright.spec import MatmulSpec

    measuring.require()
    start = time.monotonic()
    outputs = Outputs.of(given)
    outputs.check()
    out = console(stderr=outputs.json_file == "-")

    def tell(text: str) -> None:
        out.print(text, soft_wrap=True, markup=False)

    if not _right(measuring.checks(), tell):
        return 1
    asked = [parse_shape("x".join(map(str, each))) for each in shapes] or list(measuring.SHAPES)
    cases = measuring.cases(asked)
    rows, failed = _measure(cases, given, outputs, start + _MEASURED * budget)
    print_rows(rows, stderr=outputs.json_file == "-")
    for case, error in failed.items():
        tell(f"FAILED {case}: {error}")
    left_out = len(cases) - len(rows) - len(failed)
    if left_out:
        tell(f"{left_out} of {len(cases)} cases were left out: the time was over")
    verdicts = measuring.verdicts(rows)
    for each in verdicts:
        tell(str(each))
    wanted = [shape for shape in measuring.TUNED if shape in asked] or asked[:1]
    if tune:
        specs = [MatmulSpec.from_dtypes(each.m, each.n, each.k, dtype) for each in wanted for dtype in measuring.DTYPES]
        _tune(specs, tune, start + budget, database, tell)
    return 0 if not (failed or left_out) and all(each.holds for each in verdicts) else 1


def _right(checks: Any, tell: Callable[[str], None]) -> bool:  # noqa: ANN401 - an iterator of pairs
    """Whether all numbers are right; says which are not."""
    done, wrong = 0, 0
    for what, problem in checks:
        done += 1
        if problem:
            wrong += 1
            tell(f"WRONG {what}: {problem}")
    tell(f"{done - wrong} of {done} kernels compute right numbers")
    return wrong == 0


def _measure(
    cases: list[Case], given: dict[str, Any], outputs: Outputs, until: float
) -> tuple[list[Row], dict[Case, Exception]]:
    """The rows of the cases that were begun before a time, earlier ones among them, and what failed."""
    from tilewright import bench as measuring

    earlier = outputs.earlier(given["resume"])
    rows, failed = measuring.results.rows(earlier), dict[measuring.Case, Exception]()
    settings = measuring.Settings(peers=given["peers"], rounds=given["rounds"], min_seconds=given["sample_ms"] / 1000)
    with progress_bar(outputs.growing(earlier)) as show:

        def progress(event: Event) -> None:
            show(event)
            if event.row is not None:
                rows[event.row.key] = event.row
            if event.stage == "done" and time.monotonic() > until:
                raise _Over

        with suppress(_Over):
            measuring.run_cases(cases, settings, finished=dict(rows), progress=progress, failed=failed.__setitem__)
    wanted = [case.key(settings.target) for case in cases]
    return [rows[key] for key in wanted if key in rows], failed


def _tune(
    wanted: list[MatmulSpec], seconds: float, until: float, database: str | None, tell: Callable[[str], None]
) -> None:
    """Tunes products as `tilewright tune` does, each for some seconds, before a time."""
    from tilewright import targets
    from tilewright.cli.db import place
    from tilewright.cli.tune_workers import said
    from tilewright.records.database import Database
    from tilewright.tuning import product as search

    with Database(place(database)) as into, output.progress_bar() as show:
        for number, spec in enumerate(wanted):
            left = until - time.monotonic()
            if left <= 0:
                tell(f"{spec}: not tuned, the time was over")
                continue
            show(number, len(wanted), f"tuning {spec}")
            found = search.tune(spec, targets.resolve("host"), into, seconds=min(seconds, left))
            tell(f"{spec}: {said(found)}")
