# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright tune --executor``: searches on the workers of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from tilewright.cli import output
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tilewright.records.database import Database
    from tilewright.records.trial import Trial
    from tilewright.spec import MatmulSpec


def tune(
    wanted: Sequence[MatmulSpec],
    into: Database,
    executor: Executor,
    threads: int,
    budget: float,
    said: Callable[[Trial], str],
) -> int:
    """Tunes products on the workers of an executor, and prints what came of each; 1 where one could not be.

    Args:
        wanted: The products.
        into: Where trials are kept.
        executor: Whose workers search.
        threads: Most threads of a call.
        budget: Seconds a product.
        said: How a last comparison ended, for people.
    """
    from tilewright.tuning import many

    failed = 0
    with output.progress_bar() as tell:
        ended = 0

        def told(count: int, spec: MatmulSpec, trial: Trial) -> None:
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
