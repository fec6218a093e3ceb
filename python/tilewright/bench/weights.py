# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures products by quantized weights, beside the plain product, other libraries and the memory bandwidth."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from math import prod
from typing import Any

from tilewright.bench import machine, on_workers
from tilewright.bench.bandwidth import working_sets
from tilewright.bench.peak import StreamPeak
from tilewright.bench.rows import OURS, PLAIN, Rates
from tilewright.bench.timing import Cache, cores, pinned
from tilewright.bench.turns import take_turns
from tilewright.bench.weights_calls import calls, check
from tilewright.bench.weights_calls import problem as problem
from tilewright.bench.weights_peers import Member, members
from tilewright.runtime.trial import Trial
from tilewright.spec import MatmulSpec
from tilewright.targets import Target, require_runnable, resolve
from tilewright.targets.host import host


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one shape; every rate is in 10⁹ a second.

    Attributes:
        spec: The product.
        weights: As `--weights` has them.
        target: The target's name.
        schedule: The strategy.
        ours: Operations a second.
        plain: Those of the product with weights in A's type.
        stream: Bytes a second that a loop of loads reads, from a working set as large.
        bytes_moved: Bytes of all operands, each once.
        rel_error: Relative Frobenius error against the reference.
        date: When it was measured, ISO 8601 with seconds, in UTC.
        machine: What the machine is, in a line.
        version: Ours, and the commit it was built from.
        peers: By library its version, and operations a second.
        absent: By library why it was not measured.
    """

    spec: MatmulSpec
    weights: str
    target: str
    schedule: str
    ours: Rates
    plain: Rates
    stream: Rates
    bytes_moved: int
    rel_error: float
    date: str
    machine: str
    version: str
    peers: Mapping[str, tuple[str, Rates]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)

    @property
    def percent_of_bandwidth(self) -> float:
        """Percent of the bytes that a loop of loads reads in the same time, taken in each round, then the median."""
        calls = Rates(tuple(rate / self.spec.flops for rate in self.ours.rounds))
        return 100 * self.bytes_moved * calls.over(self.stream)

    def as_json(self) -> dict[str, Any]:
        """The result as an object of `bench --json`."""
        spec = self.spec
        return {
            "m": spec.m,
            "n": spec.n,
            "k": spec.k,
            "dtype": spec.a,
            "weights": self.weights,
            "layout": spec.layout,
            "precision": spec.precision,
            "target": self.target,
            "schedule": self.schedule,
            "gflops": self.ours.median,
            "gbytes_per_second": self.ours.median / spec.flops * self.bytes_moved,
            "percent_of_bandwidth": self.percent_of_bandwidth,
            "ratio_to_plain": self.ours.over(self.plain),
            "rel_error": self.rel_error,
            "date": self.date,
            "machine": self.machine,
            "version": self.version,
            "peers": {
                name: {"gflops": rates.median, "ratio": self.ours.over(rates), "version": version}
                for name, (version, rates) in self.peers.items()
            },
            "absent": dict(self.absent),
        }

    def __str__(self) -> str:
        """One line of a table."""
        rounded = "" if self.spec.precision is None else f" precision={self.spec.precision}"
        micro = self.spec.flops / self.ours.median * 1e-3
        return (
            f"{self.spec.m}x{self.spec.n}x{self.spec.k} {self.spec.a} by {self.weights} {self.spec.layout}{rounded}: {micro:.0f} us, "
            f"{self.ours.median:.0f} GFLOP/s, {self.percent_of_bandwidth:.0f} % of the bandwidth, "
            f"{self.ours.over(self.plain):.2f} times {self.spec.a}"
            + "".join(f", {self.ours.over(rates):.2f} times {name}" for name, (_, rates) in self.peers.items())
            + f" ({self.schedule})"
        )


def run(
    specs: Iterable[tuple[MatmulSpec, str]],
    *,
    target: str | Target = "host",
    threads: int = 1,
    libraries: Sequence[str] | None = None,
    rounds: int = 7,
    min_seconds: float = 0.03,
    cache: Cache = "cold",
    done: Callable[[Result], None] = lambda _: None,
    jobs: Executor | None = None,
) -> list[Result]:
    """Measures products, each with the text of its weights, in turns with the plain product, libraries and a loop of loads.

    Args:
        specs: The products.
        target: What ours is compiled for.
        threads: Of each contender.
        libraries: Those that must take part, of `weights_peers.ROWS`; None: all that are installed.
        rounds: Samples of each contender.
        min_seconds: What a sample lasts at least.
        cache: Whether weights come from memory.
        done: Told each result.
        jobs: Whose workers measure, each product by itself; None: this process.

    Raises:
        TilewrightError: A result is further from the reference than the bound, or the target or a library does not run here.
    """
    if jobs is not None:
        how = {"target": target, "threads": threads, "libraries": libraries, "rounds": rounds}
        how |= {"min_seconds": min_seconds, "cache": cache}
        wanted = [(threads, (each, how)) for each in specs]
        made: dict[int, Result] = {}
        for number, result in on_workers.results(_one, wanted, jobs):
            made[number] = result
            done(result)
        return [made[number] for number in range(len(wanted))]
    row = resolve(target)
    require_runnable(row)
    on_cores = cores(threads, None)
    results = []
    with ExitStack() as stack:
        others, missing = members(libraries, threads, on_cores, stack)
        for spec, weights in specs:
            results.append(_measured(spec, weights, row, threads, others, missing, rounds, min_seconds, cache))
            done(results[-1])
    return results


def _one(product: tuple[MatmulSpec, str], how: Mapping[str, Any]) -> Result:
    """What a worker measures."""
    return run([product], **how)[0]


def _measured(
    spec: MatmulSpec,
    weights: str,
    row: Target,
    threads: int,
    others: Sequence[Member],
    missing: Mapping[str, str],
    rounds: int,
    min_seconds: float,
    cache: Cache,
) -> Result:
    """One product."""
    from tilewright.runtime.compile import compile as compile_kernel

    on_cores = cores(threads, None)
    plain = replace(spec, b=spec.a, prologue_b=(), precision=None)
    kernels = {OURS: compile_kernel(spec, target=row, threads=threads)}
    kernels[PLAIN] = compile_kernel(plain, target=row, threads=threads)
    error = check(Trial.random(kernels[OURS], spec, 0))
    moved = sum(prod(each.stored) * -(-each.type.bits // 8) for each in (*spec.operands, spec.result))
    least = working_sets(host(), threads)["memory"] if cache == "cold" else 0
    absent = {**missing, **{each.name: why for each in others if (why := each.cannot(spec))}}
    able = [each for each in others if each.name not in absent]
    for each in able:
        each.load(spec, max(1, -(-least // moved)))
    contenders = {name: calls(kernel, least) for name, kernel in kernels.items()}
    with closing(StreamPeak(row, max(moved, least), on_cores)) as stream, pinned(on_cores):
        rates = take_turns(
            {**contenders, **{each.name: each.process for each in able}},
            {"stream": stream},
            flops=spec.flops,
            rounds=rounds,
            min_seconds=min_seconds,
            on_cores=on_cores,
            after_round=lambda _: None,
        )
    for each in able:
        each.process.unload()
    name = str(kernels[OURS].metadata.schedule)
    measured = (rates[OURS], rates[PLAIN], rates["stream"], moved, error)
    when = datetime.now(timezone.utc).isoformat(timespec="seconds")
    peers = {each.name: (each.process.version, rates[each.name]) for each in able}
    return Result(spec, weights, row.name, name, *measured, when, machine.describe(), machine.version(), peers, absent)


def summary(results: Sequence[Result]) -> str:
    """The medians of all of them, in a line."""
    percent = statistics.median(each.percent_of_bandwidth for each in results)
    times = statistics.median(each.ours.over(each.plain) for each in results)
    return f"median of {len(results)}: {percent:.0f} % of the bandwidth, {times:.2f} times the plain product"
