# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright coverage``: which code of its kernels a program ran, with all its processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import click

from tilewright.cli import options
from tilewright.errors import TilewrightError


@options.verb(short_help="Say which code of its kernels a program ran.", interspersed=False)
@click.option("--least", type=options.Number(0, 100), metavar="PERCENT", help="Fail where less of the code ran.")
@click.option("--into", metavar="DIR", help="Keep what ran in this folder; what is there already counts too.")
@click.argument("command", metavar="[PROGRAM ARGS…]", nargs=-1, type=click.UNPROCESSED)
def coverage(least: float | None, into: str | None, command: tuple[str, ...]) -> int:
    """Run a program, such as a test, with kernels that record which blocks and masks of their code run, and report it.

    The report has each kernel and each of its functions, such as one case of a kernel with dynamic extents, with the lines of
    the schedule and the loops of what never ran. Without a program, it is of what --into DIR holds. Exits with the program's
    status, or with 1 where less than --least PERCENT of the instructions ran.
    """
    from tilewright.runtime.coverage import Coverage

    if not command and into is None:
        raise click.UsageError("no program given; expected PROGRAM ARGS…, or --into DIR of an earlier run")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as temporary:
        folder = Path(into or temporary).absolute()
        status = _run(command, folder) if command else 0
        seen = Coverage()
        seen.read(folder)
    percent = seen.percent
    click.echo(str(seen))
    if least is not None and percent < least:
        click.echo(f"tilewright: {percent:.1f} % of the code ran; expected {least:g} %", err=True)
        return status or 1
    return status


def _run(command: tuple[str, ...], folder: Path) -> int:
    """Runs a program whose processes write what ran to a folder, and returns its status."""
    try:
        return subprocess.run(command, env={**os.environ, "TILEWRIGHT_COVERAGE": str(folder)}, check=False).returncode
    except OSError as error:
        raise TilewrightError(f"cannot run it: {error.strerror}", where=command[0], expected="a program") from None
