# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright tune --executor``: searches on the workers of an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tilewright.cli import output
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.payload.spec_tables import Spec
    from tilewright.records.database import Database
    from tilewright.records.trial import Trial


def tune(
    wanted: Sequence[Spec],
    into: Database,
    executor: Executor,
    threads: int,
    budget: float,
) -> int:
    """Tunes products and operators on the workers of an executor, and prints what came of each; 1 where one could not be.

    Args:
        wanted: The products.
        into: Where trials are kept.
        executor: Whose workers search.
        threads: Most threads of a call.
        budget: Seconds a product.
    """
    from tilewright.tuning import many

    failed = 0
    with output.progress_bar() as tell:
        ended = 0

        def told(count: int, spec: Spec, trial: Trial) -> None:
            tell(ended, len(wanted), f"{count} trials; {spec}: {trial.strategy}, {trial.gain:.2f}×")

        for spec, found in many.tune(wanted, into, executor, threads=threads, seconds=budget, tell=told):
            ended += 1
            tell(ended, len(wanted), f"{spec}")
            if isinstance(found, TilewrightError):
                failed += 1
                click.echo(f"{spec}: {found}")
            else:
                click.echo(f"{spec}: {said(found)}")
    return 1 if failed else 0


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
