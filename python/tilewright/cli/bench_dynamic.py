# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench dynamic``: kernels with dynamic extents beside static ones of the same shapes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import bench_options, options
from tilewright.cli.output import console, write_json
from tilewright.runtime.files import require_writable

if TYPE_CHECKING:
    from tilewright.targets import Target


@options.verb(short_help="Kernels with dynamic extents, beside static ones.")
@options.shape(required=False)
@bench_options.suites
@bench_options.dtypes
@options.layout
@click.option("--extents", default="mnk", show_default=True, help="Those that the dynamic kernel is not told.")
@bench_options.target
@click.option("--rounds", type=click.IntRange(min=1), default=15, show_default=True, help="Samples of each kernel.")
@click.option(
    "--sample-ms",
    type=options.Number(min=0.01, max=10000),
    default=2,
    show_default=True,
    help="Milliseconds that a sample lasts at least.",
)
@bench_options.json_file
@click.option("--bar", type=options.Number(min=0), help="Status 1 when a shape stays below this ratio to static.")
def dynamic(
    shapes: tuple[options.Extents, ...],
    suites: tuple[str, ...],
    dtypes: tuple[str, ...],
    layout: str,
    extents: str,
    target: str | Target,
    rounds: int,
    sample_ms: float,
    json_file: str | None,
    bar: float | None,
) -> int:
    """Measure what it costs a kernel not to know its extents: calls of the C entry on one thread, in turn, in processor time."""
    from tilewright.bench import dynamic as measuring
    from tilewright.bench import parse_shape, suite

    if json_file and json_file != "-":
        require_writable(Path(json_file), "--json")
    every = [parse_shape("x".join(map(str, each))) for each in shapes]
    every += [shape for name in suites for shape in suite(name).shapes]
    if not every:
        raise click.UsageError("nothing to measure; expected --shape MxNxK or --suite NAME")
    out = console(stderr=json_file == "-")
    results = measuring.run(
        every,
        dtypes,
        layout=layout,
        extents=extents,
        target=target,
        rounds=rounds,
        min_seconds=sample_ms / 1000,
        done=lambda each: out.print(str(each), soft_wrap=True, highlight=False),
    )
    out.print(measuring.summary(results), soft_wrap=True, highlight=False)
    write_json(json_file or None, results)
    return 1 if bar is not None and min(each.ratio for each in results) < bar else 0
