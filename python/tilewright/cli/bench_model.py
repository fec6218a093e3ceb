# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench model``: whole models beside other compilers of models."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import bench_options, options
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.output import console, lines_table, print_whole, progress_bar
from tilewright.errors import TilewrightError
from tilewright.runtime.files import require_writable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.console import Console

    from tilewright.bench.models.measuring import Result

_PARTS = 8
"""Ops of ours that are printed."""


@options.verb(short_help="Whole models beside other compilers of models.")
@click.argument("name")
@click.option("--tokens", "sizes", type=click.IntRange(min=1), multiple=True, help="How many; may be repeated.")
@bench_options.dtypes
@bench_options.threads
@click.option("--contenders", default=None, help="Names a,b of those that take part. Otherwise all.")
@bench_options.effort
@bench_options.json_file
@bench_options.resume
@options.executor
@click.option(
    "--plot", "plot_file", type=click.Path(dir_okay=False, path_type=Path), help="Draw the time by op to FILE."
)
def model(
    name: str,
    sizes: tuple[int, ...],
    dtypes: tuple[str, ...],
    threads: int,
    contenders: str | None,
    rounds: int,
    sample_ms: float,
    json_file: str | None,
    resume: bool,
    executor: Executor | None,
    plot_file: Path | None,
) -> int:
    """Measure the model NAME (bert, llama, vit or resnet50) by torch.compile with our backend, torch, Inductor and onnxruntime, in turn.

    Weights are random; nothing is downloaded. Each result is compared with eager in double precision.
    """
    from tilewright import targets
    from tilewright.bench import on_workers, results
    from tilewright.bench.models import measuring
    from tilewright.bench.models.cases import MODELS
    from tilewright.bench.operators.results import Key

    if name not in MODELS:
        raise TilewrightError(f"no model {name!r}", where="bench", expected=f"one of {', '.join(MODELS)}")
    if sizes and not MODELS[name].sizes:
        raise click.UsageError(f"--tokens of {name}; expected none: it takes images")
    outputs = Outputs.of({"json_file": json_file})
    outputs.check()
    if plot_file:
        require_writable(plot_file, "--plot")
    earlier = outputs.earlier(resume)
    keep, finished = outputs.growing(earlier), results.operators(earlier)
    host, out, found = targets.resolve("host").name, console(stderr=json_file == "-"), []
    every = [
        (name, size, dtype)
        for dtype in dict.fromkeys(dtypes)
        for size in sizes or MODELS[name].sizes or (0,)
        if Key(measuring.NAME, measuring.case(name, size), dtype, threads, host) not in finished
    ]
    names = None if contenders is None else [each.strip() for each in contenders.split(",")]
    how = {"contenders": names, "threads": threads, "rounds": rounds, "min_seconds": sample_ms / 1000}
    with progress_bar() as tell:
        measure = partial(measuring.run, **how) if executor else partial(measuring.run, **how, tell=tell)
        for number, result in on_workers.results(measure, [(threads, each) for each in every], executor):
            found.append(result)
            if executor:
                tell(len(found), len(every), measuring.case(*every[number][:2]))
            _print(result, out)
            if result.ratio is not None:
                keep(result.record)
    outputs.write_json([each.record for each in found if each.ratio is not None])
    if plot_file and found:
        from tilewright.bench.models.picture import draw

        draw(found, plot_file)
    return 0


def _print(result: Result, lines: Console) -> None:
    """The table of a result, and where the time of ours goes."""
    from tilewright.bench.models.measuring import OURS

    lines.print(result.title, highlight=False)
    table = lines_table(("", "ms", "% of peak", "error", "compile s"), right=("ms", "% of peak", "error", "compile s"))
    for each in sorted(result.contenders, key=lambda each: each.milliseconds):
        row = (
            f"{each.milliseconds:.2f}",
            f"{each.percent_of_peak:.0f}",
            f"{each.error:.1e}",
            f"{each.compile_seconds:.1f}",
        )
        table.add_row(each.name, *row)
    print_whole(lines, table)
    for each, why in result.absent.items():
        lines.print(f"  {each}: {why}", highlight=False, style="dim")
    if result.ratio is not None:
        lines.print(f"{result.ratio:.2f} times the best of the others", highlight=False)
    ours = min(
        (each for each in result.contenders if each.name in OURS), key=lambda each: each.milliseconds, default=None
    )
    for op, spent, count in ours.parts[:_PARTS] if ours else ():
        lines.print(f"  {spent:8.2f} ms {count:4d}x {op}", highlight=False)
