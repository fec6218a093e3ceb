# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright tune``: searches for faster choices for shapes, a suite, or what a program called."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import options, output, tune_workers
from tilewright.cli.db import database, place

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.records.database import Database
    from tilewright.records.trial import Trial
    from tilewright.spec import MatmulSpec


@options.verb(short_help="Search for faster choices, and keep them.")
@options.shape(required=False)
@options.product
@click.option("--suite", metavar="NAME", help="The shapes of a suite of `tilewright bench`, with --dtype and --layout.")
@click.option(
    "--trace", metavar="FILE", help="The products that a program called, as TILEWRIGHT_TRACE=FILE wrote them."
)
@click.option("--threads", type=int, default=1, show_default=True, help="Most threads of a call.")
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, help="Seconds a product."
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
    trace: str | None,
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

    wanted = _wanted(shapes, dtype, suite, trace, product)
    check(threads, "--threads")
    if schedule is not None and (len(wanted) > 1 or executor is not None or not make.is_file(schedule)):
        where = "for" if executor is None else "with --executor, for"
        raise click.UsageError(
            f"--schedule {schedule} {where} {len(wanted)} shapes; expected a .py or .mlir file, for one shape, searched here"
        )
    if tuned is not None:
        if schedule is None:
            raise click.UsageError("-o without --schedule; what wins of our strategies is kept in the database")
        files.require_writable(Path(tuned), "-o")
    with Database(place(database)) as into:
        if executor is not None:
            return tune_workers.tune(wanted, into, executor, threads, budget, said)
        _here(wanted, into, threads, budget, schedule, tuned)
        return 0


def _here(
    wanted: Sequence[MatmulSpec], into: Database, threads: int, budget: float, schedule: str | None, tuned: str | None
) -> None:
    """Tunes one product after the other."""
    from tilewright import targets
    from tilewright.runtime import files
    from tilewright.tuning import product as search

    target = targets.resolve("host")
    with output.progress_bar() as tell:
        for number, spec in enumerate(wanted):

            def told(at: search.Progress, number: int = number) -> None:
                done = number + min(at.seconds / at.budget, 1.0)
                tell(100 * done, 100 * len(wanted), f"{at.spec}: {at.trials} trials, best {at.best}, {at.gain:.2f}×")

            tell(100 * number, 100 * len(wanted), f"{spec}")
            found = search.tune(spec, target, into, threads=threads, seconds=budget, schedule=schedule, tell=told)
            click.echo(f"{spec}: {said(found)}")
            if tuned is not None:
                text = search.schedule_text(spec, target, threads, schedule, found)
                files.write(Path(tuned), text.encode(), "-o")


def _wanted(
    shapes: Sequence[options.Extents], dtype: str, suite: str | None, trace: str | None, product: dict[str, Any]
) -> list[MatmulSpec]:
    """What is tuned.

    Raises:
        click.UsageError: Nothing is, or two of the options say what.
    """
    from tilewright.cli import problem
    from tilewright.spec import MatmulSpec

    given = [name for name, each in (("--shape", shapes), ("--suite", suite), ("--trace", trace)) if each]
    if len(given) != 1:
        said = "neither --shape, --suite nor --trace" if not given else f"both {' and '.join(given)}"
        raise click.UsageError(f"{said} given; expected one of them")
    if trace:
        from tilewright.libraries import traces

        return [spec for spec in traces.read(trace).calls if isinstance(spec, MatmulSpec) and not spec.dynamic]
    if suite:
        from tilewright.bench import suites

        with suppress(KeyError):
            del product["batch"]
        every = suites.suite(suite).shapes
        return [MatmulSpec.from_dtypes(each.m, each.n, each.k, dtype, batch=each.batch, **product) for each in every]
    return problem.specs(shapes, dtype, **product)


def said(trial: Trial) -> str:
    """How the last comparison ended, for people."""
    whose = "the model's" if trial.own is None else "the schedule's own"
    name = f"{trial.strategy} " if trial.own is None else ""
    choice = f"{name}{output.sizes_text(trial.sizes)}"
    against = f" {trial.model['strategy']}" if trial.own is None else ""
    times = f"{trial.gain:.3f} times {whose}{against}, median of {len(trial.samples)} pairs"
    if trial.verdict == "won":
        return f"won by {choice}: {times}"
    return f"{whose} choice stays: {choice} {trial.verdict}, {times}"
