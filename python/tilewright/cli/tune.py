# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright tune``: searches for faster choices for shapes, a suite, or what a program called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options, output, tune_on_paper, tune_specs, tune_workers
from tilewright.cli.db import database, place
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.payload.spec_tables import Spec
    from tilewright.records.database import Database
    from tilewright.targets import GpuTarget, Target


@options.verb(short_help="Search for faster choices, and keep them.")
@options.shape(required=False)
@options.product
@click.option("--suite", metavar="NAME", help="The shapes of a suite of `tilewright bench`, with --dtype and --layout.")
@click.option("--conv", metavar="NETWORK", help="The convolutions of a network, as `tilewright bench conv` has them.")
@click.option("--attention", metavar="SUITE", help="Attention problems, as `tilewright bench attention` has them.")
@click.option("--trace", metavar="FILE", help="What a program called, a model say, as TILEWRIGHT_TRACE=FILE wrote it.")
@click.option(
    "--target",
    type=options.TARGET,
    default="host",
    show_default=True,
    help="This machine; or a GPU, whose sizes, or a schedule's choices for it, a model ranks: nothing is measured and recorded.",
)
@click.option("--threads", type=int, default=1, show_default=True, help="Most threads of a call.")
@click.option(
    "--budget",
    type=options.Number(0, min_open=True),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Seconds a product.",
)
@click.option(
    "--schedule", metavar="FILE", help="A .py or .mlir file, whose knobs and alternatives are searched, for one shape."
)
@click.option("-o", "tuned", metavar="FILE", help="With --schedule: where to write the schedule with the best choices.")
@options.executor
@database
def tune(
    shapes: Sequence[options.Extents],
    dtype: str,
    suite: str | None,
    conv: str | None,
    attention: str | None,
    trace: str | None,
    target: str | Target | GpuTarget,
    threads: int,
    budget: float,
    schedule: str | None,
    tuned: str | None,
    executor: Executor | None,
    database: str | None,
    **product: Any,  # noqa: ANN401 - of `options.product`
) -> int:
    """Search for a faster strategy and sizes on this machine, timed in turn with the model's choice; or on those of --executor's workers.

    Every trial is kept at once. When the search is ended, by Ctrl-C too, the next one goes on there.
    """
    from tilewright.records.database import Database
    from tilewright.runtime import files
    from tilewright.schedules import make
    from tilewright.schedules.models.threads import check

    wanted = tune_specs.wanted(
        shapes, dtype, {"--suite": suite, "--conv": conv, "--attention": attention, "--trace": trace}, product
    )
    check(threads, "--threads")
    if target != "host" and (database is not None or threads > 1):
        odd = "--threads" if database is None else "--database"
        raise click.UsageError(f"--target with {odd}; expected neither searches here nor what these are kept in")
    if schedule is not None and (len(wanted) > 1 or executor is not None or not make.is_file(schedule)):
        where = "for" if executor is None else "with --executor, for"
        raise click.UsageError(
            f"--schedule {schedule} {where} {len(wanted)} shapes; expected a .py or .mlir file, for one shape, searched here"
        )
    if tuned is not None:
        if schedule is None:
            raise click.UsageError("-o without --schedule; what wins of our strategies is kept in the database")
        files.require_writable(Path(tuned), "-o")
    if target != "host":
        if schedule is not None:
            return tune_on_paper.tune_own(wanted[0], _gpu(target), schedule, budget, tuned)
        return tune_on_paper.tune(wanted, _gpu(target), budget, executor)
    with Database(place(database)) as into:
        if executor is not None:
            return tune_workers.tune(wanted, into, executor, threads, budget)
        return _here(wanted, into, threads, budget, schedule, tuned)


def _gpu(target: str | Target | GpuTarget) -> GpuTarget:
    """The GPU of that name.

    Raises:
        TargetError: It is unknown.
        click.UsageError: It is a processor, of which only this machine is tuned.
    """
    from tilewright import targets

    found = targets.gpu(target)
    if found is None:
        targets.resolve(target)  # Raises: it is unknown.
        raise click.UsageError(f"--target {target}; expected host, or a GPU: other machines are tuned on themselves")
    return found


def _here(
    wanted: Sequence[Spec], into: Database, threads: int, budget: float, schedule: str | None, tuned: str | None
) -> int:
    """Tunes one spec after the other; 1 where one of several could not be, which does not end the others' search."""
    from tilewright import targets
    from tilewright.runtime import files
    from tilewright.tuning import product as search
    from tilewright.tuning import spaces

    target = targets.resolve("host")
    failed = 0
    with output.progress_bar() as tell:
        for number, spec in enumerate(wanted):

            def told(at: search.Progress, number: int = number) -> None:
                done = number + min(at.seconds / at.budget, 1.0)
                tell(100 * done, 100 * len(wanted), f"{at.spec}: {at.trials} trials, best {at.best}, {at.gain:.2f}×")

            tell(100 * number, 100 * len(wanted), f"{spec}")
            try:
                found = search.tune(spec, target, into, threads=threads, seconds=budget, schedule=schedule, tell=told)
            except TilewrightError as error:
                if len(wanted) == 1:
                    raise
                failed += 1
                click.echo(f"{spec}: {error}")
                continue
            click.echo(f"{spec}: {tune_workers.said(found)}")
            if tuned is not None:
                text = spaces.schedule_text(spec, target, threads, schedule, found)
                files.write(Path(tuned), text.encode(), "-o")
    return 1 if failed else 0
