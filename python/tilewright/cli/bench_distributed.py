# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench distributed``: a product over processes beside ScaLAPACK's, and beside threads of one process."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli import bench_options, options
from tilewright.cli.output import console, write_json
from tilewright.runtime.files import require_writable


def _grid(text: str) -> tuple[int, ...]:
    """RxC, or N."""
    words = text.split("x")
    if not all(each.isdecimal() and int(each) > 0 for each in words) or len(words) > 2:
        raise ValueError(f"{text!r} is no grid; expected 1x2, or 2")
    return tuple(map(int, words))


@options.verb(short_help="A product over processes, beside ScaLAPACK's and threads.")
@options.shape(required=False)
@click.option("--dtype", default="f64", show_default=True, help="Element type: one, or those of A, B and C (a,b,c).")
@click.option("--grid", type=options.Kind("RxC", _grid), default="1x2", show_default=True, help="Processes.")
@click.option("--schedule", default="summa", show_default=True, help="Who has which blocks; see the guide.")
@click.option("--panels", type=click.IntRange(min=1), help="Panels of a process's block of K; otherwise a model's.")
@click.option("--threads", type=click.IntRange(min=0), default=2, show_default=True, help="Of one process; 0: none.")
@click.option(
    "--block",
    "blocks",
    type=click.IntRange(min=1),
    multiple=True,
    default=(64, 128, 256),
    show_default=True,
    help="Of ScaLAPACK's matrices; may be repeated.",
)
@click.option("--no-scalapack", is_flag=True, help="Ours alone, in any type and schedule.")
@click.option("--rounds", type=click.IntRange(min=1), default=7, show_default=True, help="Samples of each contender.")
@click.option("--mpi", type=click.Choice(["openmpi", "mpich"]), default="openmpi", show_default=True)
@bench_options.json_file
@click.option("--bar", type=options.Number(min=0), help="Status 1 when ours stays below this ratio to another one.")
def distributed(
    shapes: tuple[options.Extents, ...],
    dtype: str,
    grid: tuple[int, ...],
    schedule: str,
    panels: int | None,
    threads: int,
    blocks: tuple[int, ...],
    no_scalapack: bool,
    rounds: int,
    mpi: str,
    json_file: str | None,
    bar: float | None,
) -> int:
    """Measure a product over MPI processes of this machine: calls in turn, from when all start to when the last one has its block.

    ScaLAPACK multiplies with Debian's OpenBLAS where make setup-cluster has put it, else with the system's BLAS.
    """
    from tilewright.distributed import measuring

    if json_file and json_file != "-":
        require_writable(Path(json_file), "--json")
    if not no_scalapack and (dtype not in ("f32", "f64") or schedule != "summa"):
        raise click.UsageError("ScaLAPACK has f32 and f64 in blocks alone; expected --no-scalapack too")
    if bar is not None and no_scalapack and not threads:
        raise click.UsageError("--bar compares ours with others; expected --threads above zero, or no --no-scalapack")
    wanted: list[tuple[int, int, int]] = []
    for each in shapes or ((4096, 4096, 4096),):
        m, n, k = (extent if isinstance(extent, int) else 0 for extent in each)
        if 0 in (m, n, k):
            raise click.UsageError(f"--shape {'x'.join(map(str, each))}; expected static extents above zero")
        wanted.append((m, n, k))
    out = console(stderr=json_file == "-")
    every = []
    others = []
    for m, n, k in wanted:
        results = measuring.run(
            (m, n, k),
            dtype,
            grid=grid,
            schedule=schedule,
            panels=panels,
            threads=threads,
            blocks=() if no_scalapack else blocks,
            rounds=rounds,
            mpi=mpi,
        )
        out.print(f"{m}x{n}x{k} {dtype} {schedule} on {'x'.join(map(str, grid))} processes of {mpi}")
        for each in results:
            out.print(f"  {each}", soft_wrap=True)
        every += results
        others += results[1:]
    write_json(json_file or None, every)
    missed = bar is not None and any(each.ratio < bar for each in others)
    return 1 if missed or not all(each.right for each in every) else 0
