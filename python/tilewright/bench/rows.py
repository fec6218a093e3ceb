# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measured samples of one shape, `Row`, and the rates and ratios that follow from them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
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
            "gflops": self.gflops,
            "gflops_p20": self.ours.percentile(20),
            "gflops_p80": self.ours.percentile(80),
            "peak_gflops": self.peak.median,
            "percent_of_peak": self.percent_of_peak,
            "above_peak": self.above_peak,
            "rel_error": self.rel_error,
            "compile_seconds": self.compile_seconds,
            "object_bytes": self.object_bytes,
            "schedule": self.schedule,
            "peers": {name: _peer_json(peer) for name, peer in self.peers.items()},
            "cold": self.cache == "cold",
            "percent_of_roofline": self.percent_of_roofline,
            "ratios": {name: self.ratio(name) for name in self.peers},
            "gbytes_per_second": self.stream.median,
            "bandwidth": dict(self.bandwidth),
            "bytes_moved": self.bytes_moved,
            "cached_seconds": self.cached_seconds,
            "absent": dict(self.absent),
            "date": self.date,
            "machine": self.machine,
            "version": self.version,
            "rounds": {
                OURS: rates_json(self.ours),
                PEAK: rates_json(self.peak),
                "stream": rates_json(self.stream),
                **{name: rates_json(peer.rates) for name, peer in self.peers.items()},
            },
            "epilogue": self.epilogue,
            "batch": list(self.shape.batch),
        }

    @classmethod
    def from_json(cls, made: Mapping[str, Any]) -> Row:
        """The row that `as_json` made the object of.

        Raises:
            TilewrightError: A field is missing, or of another kind.
        """
        try:
            rounds = {name: Rates(tuple(map(float, every))) for name, every in made["rounds"].items()}
            return cls(
                shape=Shape(made["m"], made["n"], made["k"], tuple(made.get("batch", ()))),
                dtype=made["dtype"],
                date=made["date"],
                machine=made["machine"],
                version=made.get("version", ""),
                layout=made["layout"],
                threads=made["threads"],
                target=made["target"],
                packed=made["packed"],
                epilogue=made.get("epilogue", ""),
                cache="cold" if made["cold"] else "hot",
                ours=rounds[OURS],
                peak=rounds[PEAK],
                stream=rounds["stream"],
                bytes_moved=made["bytes_moved"],
                bandwidth=made["bandwidth"],
                peers={
                    name: PeerResult(rounds[name], peer["version"], peer["rel_error"])
                    for name, peer in made["peers"].items()
                },
                absent=made["absent"],
                rel_error=made["rel_error"],
                compile_seconds=made["compile_seconds"],
                cached_seconds=made["cached_seconds"],
                object_bytes=made["object_bytes"],
                schedule=made["schedule"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TilewrightError(
                f"an object is no row ({type(error).__name__}: {error})",
                where="bench",
                expected="what bench --json wrote",
            ) from None


def _peer_json(peer: PeerResult) -> dict[str, Any]:
    return {
        "gflops": peer.rates.median,
        "version": peer.version,
        "gflops_p20": peer.rates.percentile(20),
        "gflops_p80": peer.rates.percentile(80),
        "rel_error": peer.rel_error,
    }


def rates_json(rates: Rates) -> list[float]:
    """The rounds with six digits, as JSON has them: more is noise."""
    return [float(f"{rate:.6g}") for rate in rates.rounds]
