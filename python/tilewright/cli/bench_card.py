# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench card``: kernels for a card compiled, and, where there is one, compared with the emulator, checked and timed."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright.cli import bench_options, options
from tilewright.cli.bench_outputs import Outputs
from tilewright.cli.output import console, progress_bar
from tilewright.errors import TargetError


@options.verb(short_help="Kernels for an NVIDIA card, checked and timed on one.")
@click.argument("folder", metavar="DIR")
@click.option(
    "--budget",
    type=options.Number(min=0),
    metavar="SECONDS",
    help="Begin nothing more after so long; the next run goes on.",
)
@click.option("--quick", is_flag=True, help="Only the steps of the first minutes on a card: some 20 kernels.")
@bench_options.report
def card(folder: str, budget: float | None, quick: bool, report: str | None, command: str | None) -> int:
    """Compile kernels for an NVIDIA card into DIR; where one is, check them on it and time them beside cuBLASLt and Triton.

    Exits with status 1 when something is wrong.
    """
    from tilewright.bench.card import aims, bundle, estimate, measure, page

    outputs = Outputs.of({"report": report, "command": command}, f"card {folder}{' --quick' * quick}")
    outputs.check()
    bundled, out = Path(folder), console()
    with progress_bar() as progress:
        failures = bundle.make(bundled, progress, quick=quick)
    with progress_bar() as progress:
        try:
            records = measure.run(bundled, budget, progress, quick=quick)
        except TargetError as error:
            out.print(f"The kernels are in {folder}; nothing is measured: {error}", soft_wrap=True, markup=False)
            out.print(
                f"Where a card is: python -m tilewright.bench.card {folder}{' --quick' * quick}",
                soft_wrap=True,
                markup=False,
            )
            records = measure.read(bundled)
    expected = [] if aims.is_measured(records) else estimate.bars()
    outputs.write_page(page.markdown(records, outputs.command, expected))
    for row in expected:
        out.print("by the model: " + " | ".join(row), soft_wrap=True, markup=False)
    failures += page.failures(records)
    for line in failures:
        out.print(line, soft_wrap=True, markup=False)
    return 1 if failures else 0
