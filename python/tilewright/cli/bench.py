# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench``: our kernels beside other libraries and the machine's measured peak."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tilewright.cli import (
    bench_attention,
    bench_card,
    bench_convolution,
    bench_operators,
    bench_static,
    bench_weights,
    options,
)
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.bench_progress import progress_bar, set_up
from tilewright.cli.output import console, print_whole
from tilewright.dims import Dim
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Case, Row, Shape

_OF_A_RESULT = ("file", "plots", "report", "command", "compare", "tolerance", "bar")
"""Parameters that mean something where an earlier result is given, and nothing is measured."""
_CACHES = {"hot": ("hot",), "cold": ("cold",), "both": ("hot", "cold")}
_PACKINGS = {"fly": (False,), "ahead": (True,), "both": (False, True)}


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


@options.verb(short_help="Measure beside other libraries and the measured peak.")
@click.argument("file", metavar="[FILE.json]", required=False)
@options.shape(required=False)
@click.option(
    "--suite", "suites", multiple=True, help="A named list of shapes (square, bert, …), or all; may be repeated."
)
@click.option(
    "--conv", metavar="NETWORK", help="The distinct convolutions of a network (resnet50), filters packed ahead."
)
@click.option("--attention", metavar="SUITE", help="Attention: prefill, decode or all, beside torch's.")
@click.option(
    "--weights",
    metavar="TYPE:GROUP",
    help="B in few bits, scaled in groups along K (i4:128, u4:128:u8), beside the plain product.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    default=("f32",),
    show_default=True,
    help="Element type: one, or those of A, B and C (a,b,c); may be repeated.",
)
@click.option(
    "--target",
    type=options.TARGET,
    default="host",
    show_default=True,
    help="What to compile for; see `tilewright targets`.",
)
@click.option(
    "--threads",
    type=_Threads(),
    multiple=True,
    default=(1,),
    show_default=True,
    help="Threads of each contender, or all; may be repeated.",
)
@options.schedule
@click.option(
    "--peers", help="Names a,b of the libraries that must take part, or none. Otherwise all that are installed."
)
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="Samples of each contender.")
@click.option(
    "--sample-ms",
    type=click.FloatRange(min=0.01, max=10000),
    default=30,
    show_default=True,
    help="Milliseconds that a sample lasts at least.",
)
@click.option(
    "--cache",
    type=click.Choice(list(_CACHES)),
    default="hot",
    show_default=True,
    help="hot: the same operands again and again; cold: rotating through twice the last-level cache.",
)
@click.option("--cold", is_flag=True, help="The same as --cache cold.")
@click.option(
    "--packing",
    type=click.Choice(list(_PACKINGS)),
    default="fly",
    show_default=True,
    help="B in row-major order, packed in each call, or packed ahead of time.",
)
@click.option(
    "--epilogue",
    default="",
    metavar="ENTRIES",
    help="What is done to the sums (bias:n,gelu), beside peers that fuse it too and our product without.",
)
@options.layout
@options.batch
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    help="Write the results as JSON, into a folder by this machine's name; - prints them instead of the table.",
)
@click.option("--resume", is_flag=True, help="Keep what the --json file holds already, and measure only the rest.")
@click.option("--plots", metavar="DIR", help="Draw percent of peak of squares, ratios and rooflines, as .png.")
@click.option("--report", metavar="FILE", help="Write the results as a page in Markdown.")
@click.option("--command", default="tilewright bench", help="What that page says was run.")
@click.option("--compare", metavar="FILE", help="Compare with an earlier --json; status 1 when a shape became slower.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=100),
    default=5,
    show_default=True,
    help="Percent that a shape may lose against --compare, beyond the noise.",
)
@click.option(
    "--bar", type=click.FloatRange(min=0), help="Status 1 when a shape stays below this percentage of the peak."
)
@click.option("--setup", is_flag=True, help="Install the other libraries, each into a Python environment of its own.")
@click.option(
    "--card",
    metavar="DIR",
    help="Compile kernels for an NVIDIA card into DIR; where one is, check them on it and time them beside cuBLASLt and Triton.",
)
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="With --card: begin nothing more after so long; the next run goes on.",
)
@click.option(
    "--static",
    is_flag=True,
    help="Measure nothing: compile, run or emulate, check and analyze each type on each --target a,b, by default all.",
)
@click.pass_context
def bench(
    context: click.Context,
    file: str | None,
    shapes: tuple[options.Extents, ...],
    suites: tuple[str, ...],
    conv: str | None,
    attention: str | None,
    weights: str | None,
    dtypes: tuple[str, ...],
    target: str,
    threads: tuple[int, ...],
    schedule: str | None,
    parameters: dict[str, int],
    peers: str | None,
    rounds: int,
    sample_ms: float,
    cache: str,
    cold: bool,
    packing: str,
    epilogue: str,
    layout: str,
    batch: tuple[int, ...],
    json_file: str | None,
    resume: bool,
    plots: str | None,
    report: str | None,
    command: str,
    compare: str | None,
    tolerance: float,
    bar: float | None,
    setup: bool,
    card: str | None,
    budget: float | None,
    static: bool,
) -> int:
    """Measure products side by side with other libraries, in turn, and against the peak measured in the same run.

    With FILE.json, an earlier result, nothing is measured: it is printed, drawn, written or compared as the options say.

    Wrong numbers, a shape below --bar and a loss against --compare end with status 1.

    With --static, a table of targets by types: what multiplies, percent of the bound of multiply-adds by llvm-mca, spills, and
    the instructions of a call, where it runs in an emulator.
    """
    from tilewright import bench as measuring

    if setup:
        options.require_only(context, "--setup", "setup", "peers")
        return set_up(_peers(peers))
    if card is not None:
        return bench_card.from_context(context)
    options.require_with(context, "budget", "card")
    options.require_with(context, "tolerance", "compare")
    options.require_with(context, "command", "report")
    if cold and context.get_parameter_source("cache") == ParameterSource.COMMANDLINE:
        raise click.UsageError("--cold and --cache given; expected one of them")
    if static:
        return bench_static.from_context(context)
    if attention is not None:
        return bench_attention.from_context(context)
    if conv is not None:
        return bench_convolution.from_context(context)
    if weights is not None:
        return bench_weights.from_context(context)
    outputs = Outputs.of(context)
    before = None if compare is None else measuring.compare.read(Path(compare), "--compare")
    failures: dict[Case, Exception] = {}
    if file is not None:
        options.require_only(context, "FILE.json", *_OF_A_RESULT)
        found = measuring.compare.read(Path(file), file)
        outputs.check()
        if before is not None and not outputs.wanted:
            return 0 if _kept(before, found, tolerance, partial(console().print, soft_wrap=True)) else 1
        measured = measuring.results.parse(found)
        rows = list(measuring.results.rows(measured).values())
        if outputs.wanted and not rows:
            raise TilewrightError(f"{file} has no products", where="bench", expected="some, for pictures and a page")
        bench_operators.show(measuring.results.operators(measured).values())
    else:
        every = _shapes(shapes, batch, suites)
        caches = _CACHES["cold" if cold else cache]
        ahead = _PACKINGS[packing]
        asked = measuring.cases(every, dict.fromkeys(dtypes), dict.fromkeys(threads), caches, ahead, epilogue, layout)
        outputs.check()
        earlier = outputs.earlier(resume)
        finished = measuring.results.rows(earlier)
        settings = measuring.Settings(
            target=target,
            peers=_peers(peers),
            rounds=rounds,
            schedule=schedule,
            parameters=parameters,
            min_seconds=sample_ms / 1000,
        )
        with progress_bar(outputs.growing(earlier)) as progress:
            rows = measuring.run_cases(
                asked, settings, finished=finished, progress=progress, failed=_collector(asked, failures)
            )
    if failures and not rows:
        raise next(iter(failures.values()))  # What none can be measured with, such as a wrong schedule, is the user's.
    outputs.write(rows)
    out = console(stderr=json_file == "-")
    tell = partial(out.print, soft_wrap=True)
    for members in measuring.report.groups(rows).values():
        print_whole(out, measuring.report.table(members))
        tell(measuring.report.summary(members).text())
    for case, error in failures.items():
        tell(f"FAILED {case}: {error if isinstance(error, TilewrightError) else repr(error)}")
    objects = [row.as_json() for row in rows]
    passed = [not failures, _above(bar, rows, tell), before is None or _kept(before, objects, tolerance, tell)]
    return 0 if all(passed) else 1


def _collector(asked: Sequence[Case], failures: dict[Case, Exception]) -> Callable[[Case, Exception], None] | None:
    """What keeps a run of many cases going when one of them fails; a single one ends with its error."""
    return None if len(asked) == 1 else failures.__setitem__


def _shapes(shapes: Sequence[options.Extents], batch: tuple[options.Extent, ...], suites: Sequence[str]) -> list[Shape]:
    """The shapes to measure, each once; those that are given have the batch.

    Raises:
        click.UsageError: None is named.
        TilewrightError: A suite is unknown, or a shape has no work.
    """
    from tilewright.bench import SUITES, parse_shape, suite

    if not shapes and not suites:
        raise click.UsageError("nothing to measure; expected --shape MxNxK or --suite NAME")
    if any(isinstance(each, Dim) for each in batch):
        raise click.UsageError(
            f"--batch {'x'.join(map(str, batch))} is no number of products to measure; expected sizes"
        )
    named = [each for name in suites for each in (SUITES.values() if name == "all" else [suite(name)])]
    given = [replace(parse_shape(f"{m}x{n}x{k}"), batch=batch) for m, n, k in shapes]
    return list(dict.fromkeys([*given, *(shape for each in named for shape in each.shapes)]))


def _peers(names: str | None) -> tuple[str, ...] | None:
    """The peers that must take part; None for those that are there."""
    if names is None:
        return None
    return tuple(name for each in names.split(",") if (name := each.strip()) and name != "none")


def _above(bar: float | None, rows: Sequence[Row], tell: Callable[[str], object]) -> bool:
    """Whether every shape reaches the bar; says which do not."""
    below = [row for row in rows if bar is not None and row.percent_of_peak < bar]
    for row in below:
        tell(f"below the bar of {bar:g} %: {row.shape} with {row.percent_of_peak:.1f} %")
    return not below


def _kept(
    before: Sequence[dict[str, Any]],
    after: Sequence[dict[str, Any]],
    tolerance: float,
    tell: Callable[[str], object],
) -> bool:
    """Whether no shape lost against an earlier result; says how each changed."""
    from tilewright.bench import compare

    changes = compare.compare(before, after, tolerance=tolerance / 100)
    machines = dict.fromkeys(str(row["machine"]) for rows in (before, after) for row in rows if row.get("machine"))
    if len(machines) > 1:
        tell(f"measured on different machines: {'; '.join(machines)}")
    for change in changes:
        tell(f"{'LOST ' if change.regression else '     '}{change}")
    lost = sum(change.regression for change in changes)
    tell(f"{len(changes)} measurements compared, {lost} slower by more than {tolerance:g} % beyond their noise")
    return not lost
