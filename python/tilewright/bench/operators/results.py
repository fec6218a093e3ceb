# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured samples of one case of an operator, as a value and as an object of `bench --json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tilewright.bench.rows import OURS, Rates, fields, of_json, rounds_json, rounds_of, spread

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
        return {
            **self.key._asdict(),
            "unit": "GB/s" if self.streams else "GFLOP/s",
            **spread(self.rates[OURS], "rate"),
            "limit": self.rates[LIMIT].median,
            "percent_of_limit": self.percent_of_limit,
            "ratios": dict(self.ratios()),
            "rel_error": self.error,
            "compile_seconds": self.compile_seconds,
            "scratch_bytes": self.scratch,
            **fields(self, "date machine versions absent"),
            "rounds": rounds_json(self.rates),
        }

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Result:
        """The result that `as_json` made the object of.

        Raises:
            TilewrightError: A field is missing, or of another kind.
        """
        with of_json("result of an operator"):
            return cls(
                asked=made["dtype"],
                streams=made["unit"] == "GB/s",
                rates=rounds_of(made),
                error=made["rel_error"],
                scratch=made["scratch_bytes"],
                **{name: made[name] for name in _SAME},
            )


_SAME = ("operator", "case", "threads", "target", "versions", "absent", "compile_seconds", "date", "machine")
"""Fields of a result that are the same in JSON."""
