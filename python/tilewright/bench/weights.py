# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures products by quantized weights, beside the plain product and the memory bandwidth."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from math import prod
from typing import TYPE_CHECKING, Any

from tilewright.bench import machine
from tilewright.bench.bandwidth import working_sets
from tilewright.bench.peak import StreamPeak
from tilewright.bench.rows import OURS, PLAIN, Rates
from tilewright.bench.suites import Shape
from tilewright.bench.timing import Cache, Loop, cores, pinned
from tilewright.bench.turns import take_turns
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload.epilogues import dequantize
from tilewright.runtime.trial import Trial
from tilewright.spec import MatmulSpec
from tilewright.targets import Target, require_runnable, resolve
from tilewright.targets.host import host

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel


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
        }

    def __str__(self) -> str:
        """One line of a table."""
        micro = self.spec.flops / self.ours.median * 1e-3
        return (
            f"{self.spec.m}x{self.spec.n}x{self.spec.k} {self.spec.a} by {self.weights} {self.spec.layout}: {micro:.0f} us, "
            f"{self.ours.median:.0f} GFLOP/s, {self.percent_of_bandwidth:.0f} % of the bandwidth, "
            f"{self.ours.over(self.plain):.2f} times {self.spec.a} ({self.schedule})"
        )


def problem(shape: Shape, dtype: str, weights: str, layout: str = "nt") -> MatmulSpec:
    """The product of activations of type `dtype` by weights such as "i4:128": type, group along K, and type of zero points.

    Raises:
        SpecError: `weights` says something else, or it cannot be measured.
    """
    element, group, zero_point = ([*weights.split(":"), "", ""])[:3]
    if weights.count(":") > 2 or not (group or "0").isdecimal() or shape.batch or "," in dtype:
        raise SpecError(
            f"{shape} {dtype} by weights {weights!r}",
            where="bench",
            expected="one type of A, no batch, and weights such as i4, i4:128 or u4:128:u8",
        )
    entry = dequantize("gn" if int(group or 0) else "n", zero_point or 0, int(group or 0))
    return MatmulSpec(shape.m, shape.n, shape.k, dtype, element, layout=layout, prologue_b=(entry,))


def run(
    specs: Iterable[tuple[MatmulSpec, str]],
    *,
    target: str | Target = "host",
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.03,
    cache: Cache = "cold",
    done: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Measures products, each with the text of its weights, in turns with the plain product and a loop of loads.

    Raises:
        TilewrightError: A result is further from the reference than the bound, or the target does not run here.
    """
    from tilewright.runtime.compile import compile as compile_kernel

    row = resolve(target)
    require_runnable(row)
    on_cores = cores(threads, None)
    results = []
    for spec, weights in specs:
        plain = replace(spec, b=spec.a, prologue_b=())
        kernels = {OURS: compile_kernel(spec, target=row, threads=threads)}
        kernels[PLAIN] = compile_kernel(plain, target=row, threads=threads)
        error = _check(Trial.random(kernels[OURS], spec, 0))
        moved = sum(prod(each.stored) * -(-each.type.bits // 8) for each in (*spec.operands, spec.result))
        least = working_sets(host(), threads)["memory"] if cache == "cold" else 0
        loops = {name: _loop(kernel, least) for name, kernel in kernels.items()}
        with closing(StreamPeak(row, max(moved, least), on_cores)) as stream, pinned(on_cores):
            rates = take_turns(
                loops,
                {"stream": stream},
                flops=spec.flops,
                rounds=rounds,
                min_seconds=min_seconds,
                on_cores=on_cores,
                after_round=lambda _: None,
            )
        name = str(kernels[OURS].metadata.schedule)
        measured = (rates[OURS], rates[PLAIN], rates["stream"], moved, error)
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        results.append(Result(spec, weights, row.name, name, *measured, when, machine.describe(), machine.version()))
        done(results[-1])
    return results


def _check(trial: Trial) -> float:
    """The relative error of a product.

    Raises:
        TilewrightError: An element is further from the reference than its bound.
    """
    trial()
    found = trial.difference()
    if not found.right:
        raise TilewrightError(f"{trial.spec} is wrong", where="bench", expected="a result within the error bound")
    return found.relative


def _loop(kernel: Kernel, least: int) -> Loop:
    """Calls of a kernel, of operands enough to take up so many bytes; each was called once."""
    first = Trial.random(kernel, kernel.spec, 0)
    count = max(1, -(-least // sum(each.nbytes for each in first.inputs)))
    calls = [first, *(Trial.random(kernel, kernel.spec, seed) for seed in range(1, count))]
    for call in calls:
        call()
    return Loop(calls)


def summary(results: Sequence[Result]) -> str:
    """The medians of all of them, in a line."""
    percent = statistics.median(each.percent_of_bandwidth for each in results)
    times = statistics.median(each.ours.over(each.plain) for each in results)
    return f"median of {len(results)}: {percent:.0f} % of the bandwidth, {times:.2f} times the plain product"
