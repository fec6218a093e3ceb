# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright emulate``: runs anyone's GPU kernel on this machine, and reports races, deadlocks and accesses out of bounds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import options

if TYPE_CHECKING:
    from tilewright.runtime.checked_kernels import Argument
    from tilewright.runtime.emulated_gpu import SharedCount


def _three(text: str) -> tuple[int, int, int]:
    """Extents along x, y and z; those left out are 1."""
    found = text.split(",")
    if not 1 <= len(found) <= 3 or not all(each.strip().isdecimal() and int(each) for each in found):
        raise ValueError(f"{text!r} is no size; expected X, X,Y or X,Y,Z, such as 4,2")
    x, y, z = (*map(int, found), 1, 1)[:3]
    return x, y, z


def _argument(text: str) -> Argument:
    from tilewright.runtime import checked_kernels

    return checked_kernels.argument(text)


def _table_of(counts: Sequence[SharedCount]) -> str:
    """What instructions did in shared memory, one a line."""
    rows = [(each.name, each.line or "-", each.executions, each.passes, each.least) for each in counts]
    total = ("total", "-", *(sum(getattr(each, name) for each in counts) for name in ("executions", "passes", "least")))
    head = f"{'line':>6} {'executions':>10} {'passes':>10} {'conflicts':>10}  instruction"
    lines = [
        f"{line:>6} {executions:>10} {passes:>10} {passes - least:>10}  {name}"
        for name, line, executions, passes, least in (*rows, total)
    ]
    return "\n".join((head, *lines))


_WARP, _ONE = (32, 1, 1), (1, 1, 1)
_SIZE = options.Kind("X,Y,Z", _three)


@options.verb(short_help="Check a GPU kernel of your own for races, without a GPU.")
@click.argument("file", metavar="KERNEL", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--kernel", metavar="NAME", help="The kernel's name, where the file has several.")
@click.option("--grid", type=_SIZE, default="1", show_default=True, help="Blocks of the launch.")
@click.option("--block", type=_SIZE, help="Threads of a block; as the kernel says, or else 32.")
@click.option("--cluster", type=_SIZE, help="Blocks of a cluster; as the kernel says, or else 1.")
@click.option("--shared", type=click.IntRange(0, 227 << 10), default=0, metavar="BYTES", help="Dynamic shared memory.")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    type=options.Kind("ARG", _argument),
    help="An argument, in order: f32[64x64] is read, out:f32[64x64] written, i32=64 a number; or FILE.npy.",
)
@click.option("--orders", type=click.IntRange(1), default=3, show_default=True, help="Orders of turns that are tried.")
@click.option("--seconds", type=options.Number(0, min_open=True), default=60.0, show_default=True, help="Time limit.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(("race", "scope", "unfenced", "unwaited", "unwritten")),
    help="A kind of findings that is left out.",
)
@click.option("--banks", is_flag=True, help="Count bank conflicts in shared memory, by instruction.")
@click.option("--time", "timed", is_flag=True, help="Estimate the time on a Hopper GPU by a model, and check nothing.")
@click.option(
    "--resident", type=click.IntRange(1, 32), default=1, show_default=True, help="With --time: blocks a multiprocessor."
)
@click.option("--save", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Write results as .npy.")
def emulate(
    file: Path,
    kernel: str | None,
    grid: tuple[int, int, int],
    block: tuple[int, int, int] | None,
    cluster: tuple[int, int, int] | None,
    shared: int,
    arguments: tuple[Argument, ...],
    orders: int,
    seconds: float,
    allow: tuple[str, ...],
    banks: bool,
    timed: bool,
    resident: int,
    save: Path | None,
) -> int:
    """Run KERNEL, a file of PTX (.ptx), LLVM IR for NVPTX (.ll) or MLIR (.mlir), thread by thread, and say what it does wrong.

    Exits with status 1 where something is found.
    """
    import numpy as np

    from tilewright.runtime import checked_kernels
    from tilewright.runtime.launches import Launch

    found = checked_kernels.read(file, kernel, timed=timed)
    sizes = Launch(grid, block or found.block or _WARP, cluster or found.cluster or _ONE, dynamic_shared=shared)
    if timed:
        guess = checked_kernels.time(found, sizes, arguments, seconds, resident)
        click.echo(f"{found.name}: an estimated {guess.seconds * 1e6:.1f} µs ({guess.cycles:.0f} cycles)")
        click.echo("busy: " + ", ".join(f"{name} {part:.0%}" for name, part in guess.busy.items()))
        return 0
    outcome = checked_kernels.run(found, sizes, arguments, range(orders), seconds, allow, counted=banks)
    for line in outcome.findings:
        click.echo(line)
    if banks:
        click.echo(_table_of(outcome.counts))
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        for number, array in outcome.outputs.items():
            np.save(save / f"arg{number}.npy", array)
    if not outcome.findings:
        click.echo(f"{found.name}: nothing wrong in {orders} orders of its threads")
    return 1 if outcome.findings else 0
