# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured samples of one shape, `Row`, and the rates and ratios that follow from them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilewright.bench.suites import Shape
from tilewright.bench.timing import Cache
from tilewright.errors import TilewrightError

OURS = "tilewright"
"""Our own name among the contenders."""
PEAK = "peak"
"""That of the register-only loop."""
MATMUL = "matmul"
"""What the field "operator" of a row says in JSON."""
PLAIN = "plain"
"""That of our product without an epilogue, beside the one with it."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One contender's rate in each round.

    Attributes:
        rounds: In 10⁹ operations (or bytes) a second, at least one.
    """

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.rounds)

    def percentile(self, percent: float) -> float:
        """The rate that `percent` of the rounds do not exceed, interpolated between the two nearest."""
        ordered = sorted(self.rounds)
        place = (len(ordered) - 1) * percent / 100
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (ordered[above] - ordered[below]) * (place - below)

    def between(self) -> str:
        """Between which the middle of the rounds lies, for a table: "98.1–101.3"."""
        return f"{self.percentile(20):.1f}–{self.percentile(80):.1f}"

    def over(self, other: Rates) -> float:
        """How many times the other's rate this is: the ratio in each round, then the median, so that drift cancels out.

        One of them can have been sampled less often, because it is slow; then it is the ratio of the medians.
        """
        if len(self.rounds) != len(other.rounds):
            return self.median / other.median
        return statistics.median(mine / its for mine, its in zip(self.rounds, other.rounds, strict=True))


class Key(NamedTuple):
    """The identity of a measurement: unique among the rows of a file."""

    m: int
    n: int
    k: int
    dtype: str
    layout: str
    threads: int
    target: str
    packed: bool
    cold: bool
    epilogue: str = ""
    batch: tuple[int, ...] = ()

    def __str__(self) -> str:
        """As `bench compare` prints it."""
        how = [self.target]
        how += [f"{self.threads} threads"] if self.threads > 1 else []
        how += [name for name, yes in (("packed", self.packed), ("cold", self.cold)) if yes]
        how += [self.epilogue] if self.epilogue else []
        how = [self.layout, *how] if self.layout != "nn" else how
        return f"{Shape(self.m, self.n, self.k, self.batch)} {self.dtype} {' '.join(how)}"


_LATER = ("cold", "epilogue", "batch")
"""Fields of a key that come further down in the JSON."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a peer showed on one shape.

    Attributes:
        rates: In 10⁹ operations a second.
        version: Exactly what was measured.
        rel_error: Relative Frobenius error against float64.
    """

    rates: Rates
    version: str
    rel_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Everything measured on one shape; every rate is in 10⁹ a second.

    Attributes:
        shape: The extents.
        dtype: Element type, or "a,b,c".
        date: When it was measured, ISO 8601 with seconds, in UTC.
        machine: What the machine is, in a line.
        version: Ours, and the commit it was built from.
        layout: How A and B are stored, "nn" to "tt".
        threads: How many threads each contender had.
        target: The target's name.
        packed: Whether B came packed ahead of time.
        epilogue: What is done to the sums, as `--epilogue` has it.
        cache: "hot": the same operands again and again. "cold": rotating through twice the last-level cache.
        ours: Our operations a second.
        peak: Operations a second of the register-only loop.
        stream: Bytes a second read from a working set as large as the operands (hot) or as all that rotate (cold).
        bytes_moved: Bytes of A, B, further operands and C, each once.
        bandwidth: By level of the memory ("L1" … "memory"), bytes a second that the cores read from there.
        peers: By name, in the order of measurement.
        absent: From the name of each peer that was not measured to why.
        rel_error: Our relative Frobenius error against float64.
        compile_seconds: Time to compile the kernel, nothing cached.
        cached_seconds: Time to get it from the disk cache; None when there is no cache.
        object_bytes: Size of the object code.
        schedule: The schedule's name and parameters.
    """

    shape: Shape
    dtype: str
    date: str = ""
    machine: str = ""
    version: str = ""
    layout: str = "nn"
    threads: int
    target: str
    packed: bool = False
    epilogue: str = ""
    cache: Cache
    ours: Rates
    peak: Rates
    stream: Rates
    bytes_moved: int
    bandwidth: Mapping[str, float] = field(default_factory=dict)
    peers: Mapping[str, PeerResult]
    absent: Mapping[str, str]
    rel_error: float
    compile_seconds: float
    cached_seconds: float | None
    object_bytes: int
    schedule: str

    @property
    def gflops(self) -> float:
        """Our median rate."""
        return self.ours.median

    @property
    def percent_of_peak(self) -> float:
        """Percent of the measured peak, taken in each round, then the median."""
        return 100 * self.ours.over(self.peak)

    @property
    def above_peak(self) -> bool:
        """Whether our rate is above the measured peak, though it was measured twice then: it, or the peak, was disturbed."""
        return self.percent_of_peak > 100

    @property
    def percent_of_roofline(self) -> float:
        """Percent of what the peak and the streamed bytes allow: the slower of computing all and reading every operand once."""
        intensity = self.shape.flops / self.bytes_moved
        limits = (
            min(peak, stream * intensity) for peak, stream in zip(self.peak.rounds, self.stream.rounds, strict=True)
        )
        return 100 * self.ours.over(Rates(tuple(limits)))

    def ratio(self, peer: str) -> float:
        """How many times the speed of `peer` ours is, taken in each round, then the median.

        Raises:
            TilewrightError: That peer was not measured.
        """
        if peer not in self.peers:
            raise TilewrightError(
                f"peer {peer!r} was not measured on {self.shape}", expected=f"one of {', '.join(self.peers) or 'none'}"
            )
        return self.ours.over(self.peers[peer].rates)

    @property
    def best_peer(self) -> str | None:
        """The peer with the highest median rate, or None when there were none."""
        speed: Callable[[str], float] = lambda name: self.peers[name].rates.median  # noqa: E731
        return max((name for name in self.peers if name != PLAIN), key=speed, default=None)

    @property
    def ratio_to_best(self) -> float | None:
        """How many times the speed of the best peer ours is, or None when there were no peers."""
        best = self.best_peer
        return None if best is None else self.ratio(best)

    @property
    def key(self) -> Key:
        """The identity of the measurement, without its outcome."""
        return Key(
            self.shape.m,
            self.shape.n,
            self.shape.k,
            self.dtype,
            self.layout,
            self.threads,
            self.target,
            self.packed,
            self.cache == "cold",
            self.epilogue,
            self.shape.batch,
        )

    def as_json(self) -> dict[str, Any]:
        """The row as an object of `bench --json`; `from_json` reads it."""
        return {
            "operator": MATMUL,
            **{name: value for name, value in self.key._asdict().items() if name not in _LATER},
            **spread(self.ours, "gflops"),
            "peak_gflops": self.peak.median,
            **fields(self, "percent_of_peak above_peak rel_error compile_seconds object_bytes schedule"),
            "peers": {
                name: {**spread(peer.rates, "gflops"), "version": peer.version, "rel_error": peer.rel_error}
                for name, peer in self.peers.items()
            },
            "cold": self.cache == "cold",
            "percent_of_roofline": self.percent_of_roofline,
            "ratios": {name: self.ratio(name) for name in self.peers},
            "gbytes_per_second": self.stream.median,
            **fields(self, "bandwidth bytes_moved cached_seconds absent date machine version"),
            "rounds": rounds_json(
                {OURS: self.ours, PEAK: self.peak, "stream": self.stream}
                | {name: peer.rates for name, peer in self.peers.items()}
            ),
            "epilogue": self.epilogue,
            "batch": list(self.shape.batch),
        }

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Row:
        """The row that `as_json` made the object of.

        Raises:
            TilewrightError: A field is missing, or of another kind.
        """
        with of_json("row"):
            rounds = rounds_of(made)
            return cls(
                shape=Shape(made["m"], made["n"], made["k"], tuple(made.get("batch", ()))),
                version=made.get("version", ""),
                epilogue=made.get("epilogue", ""),
                cache="cold" if made["cold"] else "hot",
                ours=rounds[OURS],
                peak=rounds[PEAK],
                stream=rounds["stream"],
                peers={
                    name: PeerResult(rounds[name], peer["version"], peer["rel_error"])
                    for name, peer in made["peers"].items()
                },
                **{name: made[name] for name in _SAME},
            )


_SAME = (
    *("dtype", "date", "machine", "layout", "threads", "target", "packed", "bytes_moved", "bandwidth", "absent"),
    *("rel_error", "compile_seconds", "cached_seconds", "object_bytes", "schedule"),
)
"""Fields of a row that are the same in JSON."""


def spread(rates: Rates, name: str) -> dict[str, float]:
    """The median of some rates under a name, and their 20th and 80th percentiles."""
    return {name: rates.median, **{f"{name}_p{percent}": rates.percentile(percent) for percent in (20, 80)}}


def fields(measured: object, names: str) -> dict[str, Any]:
    """Attributes as an object of JSON has them."""
    found = {name: getattr(measured, name) for name in names.split()}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in found.items()}


def rounds_json(rates: Mapping[str, Rates]) -> dict[str, list[float]]:
    """The rounds with six digits, as JSON has them: more is noise."""
    return {name: [float(f"{rate:.6g}") for rate in each.rounds] for name, each in rates.items()}


def rounds_of(made: Mapping[str, Any]) -> dict[str, Rates]:
    """What `rounds_json` made an object's rounds of."""
    return {name: Rates(tuple(map(float, every))) for name, every in made["rounds"].items()}


@contextmanager
def of_json(what: str) -> Iterator[None]:
    """Reads an object of JSON.

    Raises:
        TilewrightError: A field is missing, or of another kind, so it is no `what`.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TilewrightError(
            f"an object is no {what} ({type(error).__name__}: {error})",
            where="bench",
            expected="what bench --json wrote",
        ) from None
