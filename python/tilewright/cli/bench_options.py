# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options that several verbs of ``tilewright bench`` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from tilewright.cli import options
from tilewright.cli.options import Command


class _Threads(click.ParamType):
    """A number, or all."""

    name = "N|all"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """How many; "all" is one for each core that this process may use."""
        if value == "all":
            from tilewright.bench.timing import every_core

            return len(every_core())
        if not str(value).isdecimal() or not 1 <= int(value) <= 4096:
            self.fail(f"{value!r} is no number of threads; expected one from 1, or all", param, ctx)
        return int(value)


THREADS = _Threads()
"""The type of ``--threads``."""


def names(value: str | None) -> tuple[str, ...] | None:
    """The libraries of ``--peers``, which must take part; None for those that are there."""
    if value is None:
        return None
    return tuple(name for each in value.split(",") if (name := each.strip()) and name != "none")


def suites(function: Command) -> Command:
    """``--suite``."""
    return click.option(
        "--suite", "suites", multiple=True, help="A named list of shapes (square, bert, …), or all; may be repeated."
    )(function)


def dtypes(function: Command) -> Command:
    """``--dtype``, repeatable."""
    return click.option(
        "--dtype",
        "dtypes",
        multiple=True,
        default=("f32",),
        show_default=True,
        help="Element type: one, or those of A, B and C (a,b,c); may be repeated.",
    )(function)


def target(function: Command) -> Command:
    """``--target``."""
    return click.option(
        "--target",
        type=options.TARGET,
        default="host",
        show_default=True,
        help="What to compile for; see `tilewright targets`.",
    )(function)


def threads(function: Command) -> Command:
    """``--threads``, one number."""
    return click.option(
        "--threads", type=THREADS, default=1, show_default=True, help="Threads of each contender, or all."
    )(function)


def peers(function: Command) -> Command:
    """``--peers``."""
    return click.option(
        "--peers",
        callback=lambda _context, _parameter, value: names(value),
        help="Names a,b of the libraries that must take part, or none. Otherwise all that are installed.",
    )(function)


def effort(function: Command) -> Command:
    """``--rounds`` and ``--sample-ms``."""
    function = click.option(
        "--sample-ms",
        type=click.FloatRange(min=0.01, max=10000),
        default=30,
        show_default=True,
        help="Milliseconds that a sample lasts at least.",
    )(function)
    return click.option(
        "--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="Samples of each contender."
    )(function)


def cache(*kinds: str) -> Callable[[Command], Command]:
    """``--cache``, one of `kinds`."""
    return click.option(
        "--cache",
        type=click.Choice(kinds),
        default="hot",
        show_default=True,
        help="hot: the same operands again and again; cold: rotating through twice the last-level cache.",
    )


def json_file(function: Command) -> Command:
    """``--json``."""
    return click.option(
        "--json",
        "json_file",
        metavar="FILE",
        help="Write the results as JSON, into a folder by this machine's name; - prints them instead of the table.",
    )(function)


def resume(function: Command) -> Command:
    """``--resume``."""
    return click.option(
        "--resume", is_flag=True, help="Keep what the --json file holds already, and measure only the rest."
    )(function)


def report(function: Command) -> Command:
    """``--report`` and ``--command``."""
    function = click.option("--command", help="What that page says was run.")(function)
    return click.option("--report", metavar="FILE", help="Write the results as a page in Markdown.")(function)


def plots(function: Command) -> Command:
    """``--plots``."""
    return click.option(
        "--plots", metavar="DIR", help="Draw percent of peak of squares, ratios and rooflines, as .png."
    )(function)
