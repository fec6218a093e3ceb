# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright bench static``: the table of targets by types, each cell compiled, run where it can be, checked and analyzed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from tilewright.cli import bench_options, bench_static_gpu, options
from tilewright.cli.options import Extents
from tilewright.cli.static_table import Form, known, right, short, show

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.bench.static import Cell

_LOADS = ("load", "broadcast", "gather")


@options.verb(short_help="What kernels cost, without the hardware.")
@options.shape(required=False)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    help="Element type: one, or those of A, B and C; may be repeated. Otherwise all.",
)
@click.option("--target", "targets", help="Names, or files, with commas between them. Otherwise every processor.")
@click.option("--schedule", metavar="NAME|FILE", help="Of GPUs: a strategy's name or a file, to have only that one.")
@bench_options.json_file
@options.executor
def static(
    shapes: tuple[Extents, ...],
    dtypes: tuple[str, ...],
    targets: str | None,
    schedule: str | None,
    json_file: str | None,
    executor: Executor | None,
) -> int:
    """Measure nothing: compile, run or emulate, check and analyze each type on each target.

    A table of targets by types: what multiplies, percent of the bound of multiply-adds by llvm-mca, spills, and the instructions of a
    call, where it runs in an emulator. Exits with status 1 when a cell was not made or is wrong.
    """
    from tilewright import targets as every
    from tilewright.bench import static as survey
    from tilewright.bench.operands import types_of
    from tilewright.bench.suites import parse_shape

    if len(shapes) > 1:
        raise click.UsageError(f"{len(shapes)} shapes given; expected one")
    names = [] if targets is None else [options.TARGET.convert(each.strip(), None, None) for each in targets.split(",")]
    cards = [card for name in names if (card := every.gpu(name)) is not None]
    if cards and len(cards) < len(names):
        raise click.UsageError(f"--target {targets} has both GPUs and processors; expected one kind")
    if cards:
        shape = parse_shape("x".join(map(str, shapes[0]))) if shapes else None
        return bench_static_gpu.table(cards, dtypes or None, shape, schedule, json_file, executor)
    if schedule is not None:
        raise click.UsageError("--schedule given; expected a --target that is a GPU with it")
    rows = every.all() if targets is None else [every.resolve(name) for name in names]
    types = survey.types() if not dtypes else [",".join(types_of(each)) for each in dtypes]
    shape = parse_shape("x".join(map(str, shapes[0]))) if shapes else survey.SHAPE
    cells = show(partial(survey.survey, rows, types, shape, jobs=executor), _FORM, json_file)
    return 0 if all(each.object_bytes and each.right is not False for each in cells) else 1


def _hot_loop(cell: Cell) -> str:
    """What an iteration has: "128 fmla, 23 loads, 7 others"."""
    if not cell.instruction:
        return ""
    products = cell.mix.get("multiply-add", 0)
    loads = sum(cell.mix.get(category, 0) for category in _LOADS)
    return f"{products} {cell.instruction}, {loads} loads, {sum(cell.mix.values()) - products - loads} others"


def _notes(cells: Sequence[Cell]) -> Iterator[str]:
    """The notes, each once for the types of a target that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for note in cell.notes:
            found.setdefault((cell.target, note), []).append(short(cell.types))
    every = {target: sum(cell.target == target for cell in cells) for target, _ in found}
    for (target, note), types in found.items():
        yield f"{target}{'' if len(types) == every[target] else ' ' + ' '.join(types)}: {note}"


_FORM = Form(
    {
        "target": lambda cell: cell.target,
        "types": lambda cell: short(cell.types),
        "strategy": lambda cell: cell.schedule,
        "object": lambda cell: f"{cell.object_bytes} B" if cell.object_bytes else "none",
        "run by": lambda cell: cell.runs or "nothing",
        "right": right,
        "% of bound": lambda cell: known(cell.percent, ".1f"),
        "cycles": lambda cell: known(cell.cycles, ".1f"),
        "by LLVM's": lambda cell: cell.model,
        "hot loop": _hot_loop,
        "spills": lambda cell: str(cell.spills) if cell.instruction else "",
        "instructions": lambda cell: known(cell.instructions, ",").replace(",", " "),
        "of OpenBLAS's": lambda cell: (
            f"{cell.instructions / cell.openblas:.2f}" if cell.instructions and cell.openblas else ""
        ),
    },
    frozenset({"object", "% of bound", "cycles", "spills", "instructions", "of OpenBLAS's"}),
    lambda cell: cell.target,
    _notes,
)
