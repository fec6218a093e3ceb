# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright check-asm``: claims about the assembly of a kernel, for lit and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tilewright.cli import options


@options.verb("check-asm", short_help="Check claims about a kernel's assembly.")
@options.problem
@click.option(
    "--claim", "claims", multiple=True, required=True, metavar="CLAIM", help="Such as 'spills == 0'; may be repeated."
)
def check_asm(claims: tuple[str, ...], **asked: Any) -> None:  # noqa: ANN401 - of `options.problem`
    """Check claims such as 'fma == 24', 'spills == 0', 'loads <= 0.5 * fma', 'percent >= 95' or 'all.count(vdivps) == 0'.

    They are about the hot loop: instructions, fma, tile_products, multiplies, flops, loads, stores, spills, gathers, calls, blocks,
    depth, bytes, or count(MNEMONIC); about all of the code, all.bytes and all.count(MNEMONIC); by llvm-mca, cycles, bound, percent, ipc
    and pressure (of the busiest port).
    FILE.s in place of FILE.mlir is assembly of --target. Exits with status 1 where one does not hold.
    """
    from tilewright.cli.problem import GpuProblem, given
    from tilewright.emit import claims as claims_
    from tilewright.targets import Target

    file = asked["file"]
    if file is not None and file.endswith(".s"):
        options.require_only(file, "file", "target", "claims")
        text, target = Path(file).read_text(encoding="utf-8"), asked["target"]
        if not isinstance(target, Target):
            from tilewright.targets import resolve

            target = resolve(target)
    else:
        problem = given(**asked)
        if isinstance(problem, GpuProblem):
            raise click.UsageError(f"{problem} given; expected a kernel of a processor")
        text, target = problem.build("asm").texts["asm"], problem.target
    claims_.check(text, target, claims)
    click.echo(f"{len(claims)} claims hold")
