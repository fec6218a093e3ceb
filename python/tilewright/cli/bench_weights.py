# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench weights``: products by quantized weights, beside the plain product and what memory delivers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from tilewright.cli import bench_options, options
from tilewright.cli.output import console, write_json
from tilewright.precision import ROUNDED
from tilewright.runtime.files import require_writable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.targets import Target


@options.verb(short_help="Products by quantized weights.")
@click.argument("kind", metavar="TYPE:GROUP")
@options.shape(required=False)
@bench_options.suites
@bench_options.dtypes
@options.layout
@click.option(
    "--precision",
    "precisions",
    type=click.Choice((ROUNDED, "none")),
    multiple=True,
    default=("none",),
    help="i8: activations may be rounded to 8-bit integers. May be repeated.",
)
@bench_options.target
@bench_options.threads
@bench_options.peers
@bench_options.effort
@bench_options.cache("hot", "cold")
@bench_options.json_file
@options.executor
def weights(
    kind: str,
    shapes: tuple[options.Extents, ...],
    suites: tuple[str, ...],
    dtypes: tuple[str, ...],
    layout: str,
    precisions: tuple[str, ...],
    target: str | Target,
    threads: int,
    peers: tuple[str, ...] | None,
    rounds: int,
    sample_ms: float,
    cache: Literal["hot", "cold"],
    json_file: str | None,
    executor: Executor | None,
) -> int:
    """Measure B in few bits, scaled in groups along K (i4:128, u4:128:u8), beside the plain product and other libraries."""
    from tilewright.bench import parse_shape, suite
    from tilewright.bench import weights as measuring

    if json_file:
        require_writable(Path(json_file), "--json")
    every = [parse_shape("x".join(map(str, each))) for each in shapes]
    every += [shape for name in suites for shape in suite(name).shapes]
    if not every:
        raise click.UsageError("nothing to measure; expected --shape MxNxK or --suite NAME")
    asked = [
        (measuring.problem(shape, dtype, kind, layout, None if each == "none" else each), kind)
        for dtype in dict.fromkeys(dtypes)
        for shape in every
        for each in dict.fromkeys(precisions)
    ]
    out = console(stderr=json_file == "-")
    results = measuring.run(
        asked,
        target=target,
        threads=threads,
        libraries=peers,
        rounds=rounds,
        min_seconds=sample_ms / 1000,
        cache=cache,
        done=lambda each: out.print(str(each), soft_wrap=True, highlight=False),
        jobs=executor,
    )
    out.print(measuring.summary(results), soft_wrap=True, highlight=False)
    write_json(json_file or None, results)
    return 0
