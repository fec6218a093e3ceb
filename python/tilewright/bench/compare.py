# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares two runs: which shapes became slower by more than their noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.bench.operators.results import LIMIT
from tilewright.bench.operators.results import Key as OperatorKey
from tilewright.bench.rows import MATMUL, OURS, PEAK, Key, Rates
from tilewright.errors import TilewrightError

TOLERANCE = 0.05
"""The relative loss, beyond the noise, from which a change counts as a regression."""


@dataclass(frozen=True, slots=True)
class Share:
    """Percent of the peak measured in the same run, and between which values the middle of the rounds lies.

    Attributes:
        median: Of the rounds.
        low: 20th percentile.
        high: 80th percentile.
    """

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Change:
    """How one measurement differs between two runs.

    Attributes:
        what: What was computed, and how.
        before: In the old run.
        after: In the new run.
        regression: Whether it fell by more than was tolerated, beyond the noise of both.
    """

    what: Key | OperatorKey
    before: Share
    after: Share
    regression: bool

    @property
    def ratio(self) -> float:
        """New over old."""
        return self.after.median / self.before.median

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.what}: {self.before.median:.1f} %"
            f" ({self.before.low:.1f}–{self.before.high:.1f}) → {self.after.median:.1f} %"
            f" ({self.after.low:.1f}–{self.after.high:.1f}) of peak ({self.ratio:.2f}×)"
        )


def compare(
    old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], *, tolerance: float = TOLERANCE
) -> list[Change]:
    """The shapes that two lists of `bench --json` have in common, those that fell furthest first.

    Percentages of the peak are compared, because rates on a shared machine drift between two runs and the peak drifts with
    them. A shape has become slower when the 80th percentile of its new rounds lies below the 20th of the old ones by more
    than `tolerance`: then the rounds of the two runs do not even meet.

    Args:
        old: The list before.
        new: The list after.
        tolerance: What part of the old figure may be lost before it counts as a regression.

    Raises:
        TilewrightError: A list is no result of `bench --json`, or the two have no shape in common.
    """
    before, after = _by_key(old, "old"), _by_key(new, "new")
    common = [key for key in before if key in after]
    if not common:
        raise TilewrightError(
            "the two runs have no shape in common", where="compare", expected="runs of the same suite"
        )
    changes = [
        Change(key, before[key], after[key], after[key].high < before[key].low * (1 - tolerance)) for key in common
    ]
    return sorted(changes, key=lambda change: change.ratio)


def read(file: Path, where: str) -> list[dict[str, Any]]:
    """The list in a file of `bench --json`.

    Raises:
        TilewrightError: It cannot be read, or is no JSON list.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
        expected = "what bench --json wrote"
        raise TilewrightError(f"cannot read {file}: {reason}", where=where, expected=expected) from None
    if not isinstance(data, list):
        raise TilewrightError(f"{file} holds no list", where=where, expected="what bench --json wrote")
    return data


def _by_key(rows: Sequence[Mapping[str, Any]], which: str) -> dict[Key | OperatorKey, Share]:
    try:
        return {_key(row): _share(row) for row in rows}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TilewrightError(
            f"the {which} run is no list of rows ({type(error).__name__}: {error})",
            where="compare",
            expected="what bench --json wrote",
        ) from None


_YOUNGER = {"operator": MATMUL, "cold": False, "epilogue": "", "batch": ()}
"""What fields mean that objects of earlier releases lack."""


def _key(row: Mapping[str, Any]) -> Key | OperatorKey:
    """What the row measured. Runs from before operands could be cold do not say that they were not."""
    found = {**_YOUNGER, **row}
    if found["operator"] != MATMUL:
        return OperatorKey(**{field: found[field] for field in OperatorKey._fields})
    found["batch"] = tuple(found["batch"])
    return Key(**{field: found[field] for field in Key._fields})


def _share(row: Mapping[str, Any]) -> Share:
    """From the rounds where they are, else from the percentiles of the rate, which have the peak's noise in them too."""
    product = row.get("operator", MATMUL) == MATMUL
    percent = float(row["percent_of_peak" if product else "percent_of_limit"])
    if "rounds" in row:
        pairs = zip(row["rounds"][OURS], row["rounds"][PEAK if product else LIMIT], strict=True)
        parts = Rates(tuple(100 * float(rate) / float(peak) for rate, peak in pairs))
        return Share(percent, parts.percentile(20), parts.percentile(80))
    scale = percent / float(row["gflops"])
    return Share(percent, scale * float(row["gflops_p20"]), scale * float(row["gflops_p80"]))
