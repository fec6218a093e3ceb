# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench``: our kernels beside other libraries and the machine's measured peak, and verbs for all else that is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import bench_options, options
from tilewright.cli.bench_compare import compare_, print_rows, show
from tilewright.cli.bench_dynamic import dynamic
from tilewright.cli.bench_library import blas, library
from tilewright.cli.bench_machines import MACHINES
from tilewright.cli.bench_operators import COMPARED
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.bench_progress import progress_bar, set_up
from tilewright.cli.bench_static import static
from tilewright.cli.bench_weights import weights
from tilewright.cli.output import console
from tilewright.dims import Dim
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.bench import Case, Row, Shape

_CACHES = {"hot": ("hot",), "cold": ("cold",), "both": ("hot", "cold")}
_PACKINGS = {"fly": (False,), "ahead": (True,), "both": (False, True)}


@options.verbs(invoke_without_command=True)
@options.shape(required=False)
@bench_options.suites
@bench_options.dtypes
@bench_options.target
@click.option(
    "--threads",
    type=bench_options.THREADS,
    multiple=True,
    default=(1,),
    show_default=True,
    help="Threads of each contender, or all; may be repeated.",
)
@options.schedule
@bench_options.peers
@bench_options.effort
@bench_options.cache(*_CACHES)
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
@bench_options.json_file
@bench_options.resume
@bench_options.plots
@bench_options.report
@options.executor
@click.option(
    "--bar", type=options.Number(min=0), help="Status 1 when a shape stays below this percentage of the peak."
)
@click.pass_context
def bench(context: click.Context, **given: Any) -> int:  # noqa: ANN401 - of the options
    """Measure products side by side with other libraries, in turn, and against the peak measured in the same run.

    Wrong numbers and a shape below --bar end with status 1. The verbs below have options of their own.
    """
    if context.invoked_subcommand is None:
        return _measure(given)
    options.require_none(context, context.invoked_subcommand)
    return 0


@options.verb(short_help="Install the other libraries.")
@bench_options.peers
def setup(peers: tuple[str, ...] | None) -> int:
    """Install the other libraries, each into a Python environment of its own."""
    return set_up(peers)


for _verb in (static, *MACHINES, *COMPARED, blas, weights, library, dynamic, show, compare_, setup):
    bench.add_command(_verb)


def _measure(given: dict[str, Any]) -> int:
    """Measures what the options say."""
    from tilewright import bench as measuring

    outputs = Outputs.of(given)
    failures: dict[Case, Exception] = {}
    every = _shapes(given["shapes"], given["batch"], given["suites"])
    caches, ahead = _CACHES[given["cache"]], _PACKINGS[given["packing"]]
    dtypes, threads = dict.fromkeys(given["dtypes"]), dict.fromkeys(given["threads"])
    asked = measuring.cases(every, dtypes, threads, caches, ahead, given["epilogue"], given["layout"])
    outputs.check()
    earlier = outputs.earlier(given["resume"])
    settings = measuring.Settings(
        **{name: given[name] for name in ("target", "peers", "rounds", "schedule", "parameters")},
        min_seconds=given["sample_ms"] / 1000,
    )
    finished = measuring.results.rows(earlier)
    with progress_bar(outputs.growing(earlier)) as progress:
        rows = measuring.run_cases(
            asked,
            settings,
            finished=finished,
            progress=progress,
            failed=_collector(asked, failures),
            jobs=given["executor"],
        )
    if failures and not rows:
        raise next(iter(failures.values()))  # What none can be measured with, such as a wrong schedule, is the user's.
    outputs.write(rows)
    is_piped = outputs.json_file == "-"
    print_rows(rows, stderr=is_piped)
    tell = partial(console(stderr=is_piped).print, soft_wrap=True)
    for case, error in failures.items():
        tell(f"FAILED {case}: {error if isinstance(error, TilewrightError) else repr(error)}")
    reached = _above(given["bar"], rows, tell)
    return 0 if reached and not failures else 1


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


def _above(bar: float | None, rows: Sequence[Row], tell: Callable[[str], object]) -> bool:
    """Whether every shape reaches the bar; says which do not."""
    below = [row for row in rows if bar is not None and row.percent_of_peak < bar]
    for row in below:
        tell(f"below the bar of {bar:g} %: {row.shape} with {row.percent_of_peak:.1f} %")
    return not below
