# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured samples of one case of an operator, as a value and as an object of `bench --json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.bench.rows import OURS, Rates, rates_json
from tilewright.errors import TilewrightError

LIMIT = "limit"
"""The machine's limit among rates: its peak, or its bandwidth for cases that stream."""


class Key(NamedTuple):
    """The identity of a measurement of an operator: unique among the results of a file."""

    operator: str
    case: str
    dtype: str
    threads: int
    target: str

    def __str__(self) -> str:
        """As `bench compare` prints it."""
        threads = f" {self.threads} threads" if self.threads > 1 else ""
        return f"{self.operator} {self.case}, {self.dtype} {self.target}{threads}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, measured.

    Attributes:
        operator: The operator's name in `operators.pages.PAGES`.
        case: What tables call the case.
        asked: The type asked for.
        threads: Of each contender.
        target: What ours is compiled for.
        streams: Whether rates are bytes a second, because operands come from memory; else they are operations a second.
        rates: By contender, and of the limit, in 10⁹ a second.
        versions: By contender, what was measured.
        absent: By library, why it was not.
        error: The relative error of ours.
        compile_seconds: Of ours, with nothing cached.
        scratch: Bytes of scratch memory of ours.
        date: When, ISO 8601 with seconds, in UTC.
        machine: What the machine is, in a line.
    """

    operator: str
    case: str
    asked: str
    threads: int
    target: str
    streams: bool
    rates: Mapping[str, Rates]
    versions: Mapping[str, str]
    absent: Mapping[str, str]
    error: float
    compile_seconds: float
    scratch: int
    date: str
    machine: str

    @property
    def key(self) -> Key:
        """The identity of the measurement, without its outcome."""
        return Key(self.operator, self.case, self.asked, self.threads, self.target)

    @property
    def version(self) -> str:
        """Ours, with its commit."""
        return self.versions[OURS]

    @property
    def percent_of_limit(self) -> float:
        """Percent of the measured peak or bandwidth, taken in each round, then the median."""
        return 100 * self.rates[OURS].over(self.rates[LIMIT])

    def ratios(self) -> Iterator[tuple[str, float]]:
        """Ours over each library that took part."""
        for name, rates in self.rates.items():
            if name not in (OURS, LIMIT):
                yield name, self.rates[OURS].over(rates)

    def as_json(self) -> dict[str, Any]:
        """The result as an object of `bench --json`; `from_json` reads it."""
        ours = self.rates[OURS]
        return {
            "operator": self.operator,
            "case": self.case,
            "dtype": self.asked,
            "threads": self.threads,
            "target": self.target,
            "unit": "GB/s" if self.streams else "GFLOP/s",
            "rate": ours.median,
            "rate_p20": ours.percentile(20),
            "rate_p80": ours.percentile(80),
            "limit": self.rates[LIMIT].median,
            "percent_of_limit": self.percent_of_limit,
            "ratios": dict(self.ratios()),
            "rel_error": self.error,
            "compile_seconds": self.compile_seconds,
            "scratch_bytes": self.scratch,
            "date": self.date,
            "machine": self.machine,
            "versions": dict(self.versions),
            "absent": dict(self.absent),
            "rounds": {name: rates_json(rates) for name, rates in self.rates.items()},
        }

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Result:
        """The result that `as_json` made the object of.

        Raises:
            TilewrightError: A field is missing, or of another kind.
        """
        try:
            return cls(
                operator=made["operator"],
                case=made["case"],
                asked=made["dtype"],
                threads=made["threads"],
                target=made["target"],
                streams=made["unit"] == "GB/s",
                rates={name: Rates(tuple(map(float, every))) for name, every in made["rounds"].items()},
                versions=dict(made["versions"]),
                absent=dict(made["absent"]),
                error=made["rel_error"],
                compile_seconds=made["compile_seconds"],
                scratch=made["scratch_bytes"],
                date=made["date"],
                machine=made["machine"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TilewrightError(
                f"an object is no result of an operator ({type(error).__name__}: {error})",
                where="bench",
                expected="what bench --json wrote",
            ) from None
