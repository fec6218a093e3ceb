# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results that README and docs show: one file for each machine, in docs/reference/results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from tilewright.bench import machine, results
from tilewright.bench.operators.results import Result
from tilewright.bench.rows import Row
from tilewright.errors import TilewrightError

ROOT = Path(__file__).parents[2]
FOLDER = Path("docs/reference/results")
"""Where the files are, below the root of the checkout."""
PICTURES = Path("docs/images/bench")
"""Where a folder for each machine is, with what was drawn from its file."""
COMMAND = "make bench-results"
"""What measures them."""
_ONE_RUN = timedelta(hours=24)
_MOST = 110
"""Percent of the peak: what is above was not measured well, by more than the clock drifts between two samples of a round."""


@dataclass(frozen=True)
class Machine:
    """What was measured on one machine.

    Attributes:
        slug: The name of its file, without the suffix.
        digest: Of its file: what pictures say they were drawn from.
        products: Every product.
        operators: Every case of an operator.
    """

    slug: str
    digest: str
    products: tuple[Row, ...]
    operators: tuple[Result, ...]

    @property
    def description(self) -> str:
        """The machine in a line."""
        return (*self.products, *self.operators)[0].machine

    @property
    def name(self) -> str:
        """Its processor and target: "AMD EPYC (znver4)"."""
        processor, *others = self.description.split(", ")
        target = [part.removeprefix("target ") for part in others if part.startswith("target ")]
        return f"{processor} ({', '.join(target)})" if target else processor

    @property
    def plain(self) -> list[Row]:
        """Products without anything done to the sums."""
        return [row for row in self.products if not row.epilogue]

    @property
    def fused(self) -> list[Row]:
        """Products with something done to the sums."""
        return [row for row in self.products if row.epilogue]


def load(root: Path = ROOT) -> list[Machine]:
    """Every machine, the one measured last first.

    Raises:
        TilewrightError: A file is no result, is of several machines or runs, or has another machine's name.
    """
    found = [_machine(path) for path in sorted((root / FOLDER).glob("*.json"))]
    return sorted(found, key=lambda each: max(_dates(each)), reverse=True)


def span(measured: Sequence[Row | Result]) -> str:
    """The day on which something was measured, or the two between which it was."""
    days = sorted({each.date[:10] for each in measured})
    return days[0] if len(days) == 1 else f"{days[0]} and {days[-1]}"


def _dates(every: Machine) -> list[str]:
    return [each.date for each in (*every.products, *every.operators)]


def _machine(path: Path) -> Machine:
    found = results.read(path, path.name)
    made = Machine(
        path.stem,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        tuple(results.rows(found).values()),
        tuple(results.operators(found).values()),
    )
    _require(bool(found), path, "is empty", "what was measured")
    names = {each.machine for each in found.values()}
    _require(len(names) == 1, path, f"is of {len(names)} machines: {'; '.join(sorted(names))}", "one file for each")
    slug = machine.slug(made.description)
    _require(path.stem == slug, path, f"is of {made.description}", f"the name {slug}.json")
    times = _each(datetime.fromisoformat, _dates(made), path)
    apart = max(times) - min(times)
    _require(
        apart <= _ONE_RUN, path, f"has measurements {apart} apart", "one run; remove the file and measure all anew"
    )
    shares = {row.key: row.percent_of_peak for row in made.products}
    shares |= {each.key: each.percent_of_limit for each in made.operators if not each.streams}
    too_fast = [f"{key} with {percent:.0f} % of the peak" for key, percent in shares.items() if percent > _MOST]
    _require(
        not too_fast, path, f"has {'; '.join(too_fast)}", f"at most {_MOST} %; remove the line and go on with {COMMAND}"
    )
    return made


def _each(convert: Callable[[str], datetime], texts: Iterable[str], path: Path) -> list[datetime]:
    try:
        return [convert(text) for text in texts]
    except ValueError as error:
        raise TilewrightError(f"{path.name} has a bad date: {error}", where="results", expected="ISO 8601") from None


def _require(holds: bool, path: Path, what: str, expected: str) -> None:
    if not holds:
        raise TilewrightError(f"{path.name} {what}", where="results", expected=expected)
