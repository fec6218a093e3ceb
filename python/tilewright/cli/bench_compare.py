# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench show`` and ``compare``: earlier results, and what became faster or slower between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import bench_operators, bench_options, options
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.output import console, print_whole
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Row


@options.verb(short_help="Print, draw or publish an earlier result.")
@click.argument("file", metavar="FILE.json")
@bench_options.plots
@bench_options.report
def show(file: str, **given: Any) -> int:  # noqa: ANN401 - of the options
    """Print an earlier result, FILE.json, and draw it or write its page."""
    from tilewright.bench import compare, results

    outputs = Outputs.of(given, f"show {file}")
    measured = results.parse(compare.read(Path(file), file))
    outputs.check()
    rows = list(results.rows(measured).values())
    if outputs.wanted and not rows:
        raise TilewrightError(f"{file} has no products", where="bench", expected="some, for pictures and a page")
    bench_operators.show(results.operators(measured).values())
    outputs.write(rows)
    print_rows(rows)
    return 0


@options.verb("compare", short_help="Say what became slower between two results.")
@click.argument("before", metavar="BEFORE.json")
@click.argument("after", metavar="AFTER.json")
@click.option(
    "--tolerance",
    type=options.Number(min=0, max=100),
    default=5,
    show_default=True,
    help="Percent that a shape may lose, beyond the noise.",
)
def compare_(before: str, after: str, tolerance: float) -> int:
    """Compare AFTER.json with an earlier result, BEFORE.json; status 1 when a shape became slower."""
    from tilewright.bench import compare

    old, new = (compare.read(Path(each), each) for each in (before, after))
    tell = partial(console().print, soft_wrap=True)
    changes = compare.compare(old, new, tolerance=tolerance / 100)
    machines = dict.fromkeys(str(row["machine"]) for rows in (old, new) for row in rows if row.get("machine"))
    if len(machines) > 1:
        tell(f"measured on different machines: {'; '.join(machines)}")
    for change in changes:
        tell(f"{'LOST ' if change.regression else '     '}{change}")
    lost = sum(change.regression for change in changes)
    tell(f"{len(changes)} measurements compared, {lost} slower by more than {tolerance:g} % beyond their noise")
    return 1 if lost else 0


def print_rows(rows: Sequence[Row], *, stderr: bool = False) -> None:
    """Prints the tables of products, and a line about each."""
    from tilewright.bench import report

    out = console(stderr=stderr)
    for members in report.groups(rows).values():
        print_whole(out, report.table(members))
        out.print(report.summary(members).text(), soft_wrap=True)
