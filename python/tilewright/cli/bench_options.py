# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options that several verbs of ``tilewright bench`` share."""

from __future__ import annotations

import click

from tilewright.cli import options
from tilewright.cli.options import Option, together


def _threads(text: str) -> int:
    """How many; "all" is one for each core that this process may use."""
    if text == "all":
        from tilewright.bench.timing import every_core

        return len(every_core())
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise ValueError(f"{text!r} is no number of threads; expected one from 1, or all")
    return int(text)


def names(value: str | None) -> tuple[str, ...] | None:
    """The libraries of ``--peers``, which must take part; None for those that are there."""
    if value is None:
        return None
    return tuple(name for each in value.split(",") if (name := each.strip()) and name != "none")


THREADS = options.Kind("N|all", _threads)
"""The type of ``--threads``."""

suites = click.option(
    "--suite", "suites", multiple=True, help="A named list of shapes (square, bert, …), or all; may be repeated."
)
dtypes = click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    default=("f32",),
    show_default=True,
    help="Element type: one, or those of A, B and C (a,b,c); may be repeated.",
)
target = click.option(
    "--target",
    type=options.TARGET,
    default="host",
    show_default=True,
    help="What to compile for; see `tilewright targets`.",
)
threads = click.option(
    "--threads", type=THREADS, default=1, show_default=True, help="Threads of each contender, or all."
)
peers = click.option(
    "--peers",
    callback=lambda _context, _parameter, value: names(value),
    help="Names a,b of the libraries that must take part, or none. Otherwise all that are installed.",
)
effort = together(
    click.option(
        "--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="Samples of each contender."
    ),
    click.option(
        "--sample-ms",
        type=options.Number(min=0.01, max=10000),
        default=30,
        show_default=True,
        help="Milliseconds that a sample lasts at least.",
    ),
)
json_file = click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Write the results as JSON, into a folder by this machine's name; - prints them instead of the table.",
)
resume = click.option(
    "--resume", is_flag=True, help="Keep what the --json file holds already, and measure only the rest."
)
report = together(
    click.option("--report", metavar="FILE", help="Write the results as a page in Markdown."),
    click.option("--command", help="What that page says was run."),
)
plots = click.option("--plots", metavar="DIR", help="Draw percent of peak of squares, ratios and rooflines, as .png.")


def cache(*kinds: str) -> Option:
    """``--cache``, one of `kinds`."""
    return click.option(
        "--cache",
        type=click.Choice(kinds),
        default="hot",
        show_default=True,
        help="hot: the same operands again and again; cold: rotating through twice the last-level cache.",
    )
