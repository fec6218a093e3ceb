# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench library`` and ``blas``: the size and calls of a library of many kernels, and our BLAS beside others."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import click

from tilewright.cli import bench_options, options
from tilewright.cli.bench_operators import SHARED, compare, named
from tilewright.cli.output import console, progress_bar, write_json
from tilewright.runtime.files import require_writable


@options.verb(short_help="The size of a library, and what a call costs.")
@options.shape(required=False)
@bench_options.suites
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    default=("f32", "bf16"),
    show_default=True,
    help="Element type: one, or those of A, B and C (a,b,c); may be repeated.",
)
@click.option("--targets", metavar="A,B,…", help="For which targets. Otherwise those of `tilewright library`.")
@bench_options.effort
@bench_options.json_file
def library(
    shapes: tuple[options.Extents, ...],
    suites: tuple[str, ...],
    dtypes: tuple[str, ...],
    targets: str | None,
    rounds: int,
    sample_ms: float,
    json_file: str | None,
) -> int:
    """Measure a library's bytes, and a call of an 8x8x8 kernel through it and directly.

    Without --shape and --suite, it has thirty shapes of the suites.
    """
    from tilewright.bench import library as measuring
    from tilewright.bench import parse_shape, suite
    from tilewright.libraries import build

    if json_file and json_file != "-":
        require_writable(Path(json_file), "--json")
    every = [parse_shape("x".join(map(str, each))) for each in shapes]
    every += [shape for name in suites for shape in suite(name).shapes if not shape.batch]
    with progress_bar() as progress:
        measured = measuring.measure(
            tuple(dict.fromkeys(every)) or measuring.SHAPES,
            tuple(dict.fromkeys(dtypes)),
            targets.split(",") if targets is not None else build.TARGETS,
            rounds=rounds,
            min_seconds=sample_ms / 1000,
            progress=progress,
        )
    console(stderr=json_file == "-").print(str(measured), soft_wrap=True, highlight=False)
    write_json(json_file or None, [measured])
    return 0


@options.verb(short_help="Our BLAS beside OpenBLAS and MKL.")
@click.argument("suite")
@click.option("--library", metavar="FILE", help="Our BLAS; by default one is built for this machine.")
@SHARED
def blas(suite: str, library: str | None, **given: Any) -> int:  # noqa: ANN401 - of `SHARED`
    """Measure calls of SUITE (level3, gemv, or gemm of square, bert, …; or all) through C's interface, beside OpenBLAS and MKL.

    The suite programs has expressions of numpy's instead, with the library and without it.
    """
    from tilewright.bench.blas import SUITES, programs, run
    from tilewright.bench.blas.cases import BUILT
    from tilewright.bench.blas.page import PAGE
    from tilewright.blas import build

    known = {**SUITES, "all": tuple(dict.fromkeys(case for each in SUITES.values() for case in each))}
    measure = programs.run if suite == "programs" else partial(run, cases=named(suite, known, "suite of calls"))
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        letters = [BUILT[each] for each in dict.fromkeys(given["dtypes"]) if each in BUILT]
        if library is None and letters:
            (file,) = build.build(folder, ["host"], letters=letters, threads=given["threads"]).files.values()
        else:
            file = Path(library or folder)
        return compare(lambda asked, **how: measure(file, asked=asked, **how), PAGE, f"blas {suite}", given)
