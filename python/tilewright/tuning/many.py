# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tunes many products and operators on the workers of an executor, on whatever machines these are; the caller alone writes the database.

A search is made in slices of some seconds. Each is a call by itself, which gets the trials so far and brings back its own: when its worker
is killed it is made again, by any other, and no trial that came back is lost. A worker searches for the machine that it is on, from that
machine's trials on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from tilewright import targets
from tilewright.errors import TilewrightError
from tilewright.payload import spec_tables
from tilewright.payload.spec_tables import Spec
from tilewright.processes.calls import Calls
from tilewright.processes.child import ChildEndedError
from tilewright.records import machine
from tilewright.records.database import Database
from tilewright.records.trial import Trial, canonical, parse
from tilewright.tuning import product

SLICE_S = 10.0
"""Seconds of a slice: what is lost at most with a worker, and has to be much longer than making operands and what they multiply to."""


Outcome = Trial | TilewrightError
"""The last comparison of a search, or why there is none."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What a worker found.

    Attributes:
        machine: The digest of its machine's facts.
        seconds: How long it searched.
        lines: The new trials.
        found: What came of it; None while the search is to go on.
    """

    machine: str
    seconds: float
    lines: tuple[str, ...]
    found: Outcome | None = None


Tell = Callable[[int, Spec, Trial], object]
"""Told of each trial: how many came so far, of which product, and the trial."""


def tune(
    specs: Iterable[Spec],
    database: Database,
    executor: Executor,
    *,
    threads: int = 1,
    seconds: float = 60.0,
    slice_s: float = SLICE_S,
    tell: Tell = lambda count, spec, trial: None,
) -> Iterator[tuple[Spec, Outcome]]:
    """Searches for faster choices for some products, and yields the outcome of each as it ends.

    A product is done when its search has ended on one kind of machine. What others have tried meanwhile is kept: their next search goes
    on there.

    Args:
        specs: What to compute.
        database: Where trials are kept, as soon as a slice ends.
        executor: Whose workers search.
        threads: Most threads of a call.
        seconds: How long a search may take on a machine, about.
        slice_s: How long a worker searches before it brings its trials.
        tell: Told of each trial.

    Raises:
        TilewrightError: The executor takes no calls any more, or the database cannot be written.
    """
    count = 0
    spent: dict[Spec, dict[str, float]] = {}
    with Calls[Spec, Slice](search, executor) as calls:

        def go_on(spec: Spec) -> None:
            table = spec_tables.table(spec)
            lines = [] if table is None else database.lines_of(canonical(table), threads)
            calls.submit(spec, spec, threads, seconds, slice_s, spent[spec], lines)

        for spec in dict.fromkeys(specs):
            spent[spec] = {}
            go_on(spec)
        for spec, part in calls.ended():
            if isinstance(part, ChildEndedError):
                yield spec, TilewrightError(f"a worker {part.reason}, whoever tried", where=str(spec))
                continue
            trials = [parse(line, "a worker's answer") for line in part.lines]
            database.add(trials)
            for trial in trials:
                count += 1
                tell(count, spec, trial)
            spent[spec][part.machine] = spent[spec].get(part.machine, 0.0) + part.seconds
            if part.found is None:
                go_on(spec)
            else:
                yield spec, part.found


def search(
    spec: Spec, threads: int, seconds: float, slice_s: float, spent: dict[str, float], lines: list[str]
) -> Slice:
    """What a worker does: a slice of a search for the machine that it is on.

    Args:
        spec: What to compute.
        threads: Most threads of a call.
        seconds: How long the whole search may take.
        slice_s: How long this slice may.
        spent: How long it has taken so far, by machine.
        lines: The trials so far, of any machine.
    """
    target = targets.resolve("host")
    key = machine.key(target)
    left = max(seconds - spent.get(key, 0.0), 0.0)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder, Database(Path(folder) / "trials.sqlite") as own:
        own.add(parse(line, "the caller's trials") for line in lines)
        try:
            found = product.tune_for(spec, target, own, threads=threads, seconds=left, slice_s=slice_s)
        except TilewrightError as error:
            found = error
        new = set(own.lines()).difference(lines)
        return Slice(key, min(left, slice_s), tuple(sorted(new)), found)
