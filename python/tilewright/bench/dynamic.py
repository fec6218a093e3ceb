# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures kernels with dynamic extents beside the static kernels of the same shapes, in turn, through their C entries."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from tilewright.bench import machine
from tilewright.bench.checks import check, expect
from tilewright.bench.operands import Operands, operands
from tilewright.bench.peak import Rate, load
from tilewright.bench.rows import Rates
from tilewright.bench.session import problem, types_text
from tilewright.bench.suites import Shape
from tilewright.bench.timing import cores, pinned
from tilewright.errors import SpecError
from tilewright.spec import MatmulSpec
from tilewright.targets import Target, require_runnable, resolve

if TYPE_CHECKING:
    from tilewright.runtime.kernel import Kernel

_CALL = "i64 %m, i64 %n, i64 %k, ptr %a, i64 %lda, ptr %b, i64 %ldb, ptr %c, i64 %ldc"
_CALLS = f"""
define void @calls(i64 %count, ptr %entry, {_CALL}) {{
start:
  br label %loop
loop:
  %left = phi i64 [ %count, %start ], [ %less, %loop ]
  %status = call i32 %entry({_CALL})
  %less = sub i64 %left, 1
  %more = icmp ne i64 %less, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
"""LLVM IR of a loop that calls a C entry, as a program would, so that nothing of Python is in the time."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one shape.

    Attributes:
        spec: The static product.
        extents: The extents that the dynamic kernel was not told, such as "mnk".
        target: The target's name.
        static: Rate of the static kernel, in 10⁹ operations a second.
        dynamic: That of the dynamic one.
        schedule: The static kernel's strategy.
        date: When it was measured, ISO 8601 with seconds, in UTC.
        machine: What the machine is, in a line.
        version: Ours, and the commit it was built from.
    """

    spec: MatmulSpec
    extents: str
    target: str
    static: Rates
    dynamic: Rates
    schedule: str
    date: str
    machine: str
    version: str

    @property
    def ratio(self) -> float:
        """The dynamic kernel's rate over the static one's, taken in each round, then the median."""
        return self.dynamic.over(self.static)

    def as_json(self) -> dict[str, Any]:
        """The result as an object of `bench --json`."""
        spec = self.spec
        return {
            "m": spec.m,
            "n": spec.n,
            "k": spec.k,
            "dtype": types_text(spec),
            "layout": spec.layout,
            "dynamic": self.extents,
            "target": self.target,
            "schedule": self.schedule,
            "gflops": self.dynamic.median,
            "static_gflops": self.static.median,
            "ratio_to_static": self.ratio,
            "date": self.date,
            "machine": self.machine,
            "version": self.version,
        }

    def __str__(self) -> str:
        """One line of a table."""
        spec = self.spec
        return (
            f"{spec.m}x{spec.n}x{spec.k} {types_text(spec)} {spec.layout}, dynamic {self.extents}: {self.dynamic.median:.0f} GFLOP/s, "
            f"{self.ratio:.2f} times static ({self.schedule})"
        )


def run(
    shapes: Sequence[Shape],
    dtypes: Iterable[str] = ("f32",),
    *,
    layout: str = "nn",
    extents: str = "mnk",
    target: str | Target = "host",
    rounds: int = 15,
    min_seconds: float = 0.002,
    done: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Measures shapes on one thread, hot: many short samples of both kernels in turn, in processor time.

    Args:
        shapes: What to multiply; without a batch.
        dtypes: As `--dtype` has them.
        layout: How A and B are stored.
        extents: Those that the dynamic kernel is not told: some of "mnk".
        target: What is compiled for.
        rounds: Samples of each kernel.
        min_seconds: What a sample lasts at least.
        done: Called with each result.

    Raises:
        SpecError: A shape has a batch, or `extents` are not some of m, n and k.
        CheckError: A result is further from the reference than the bound.
        TargetError: The target does not run here.
    """
    from tilewright.runtime.compile import compile as compile_kernel

    if not extents or not set(extents) <= set("mnk") or any(shape.batch for shape in shapes):
        raise SpecError(
            f"dynamic extents {extents!r} of {', '.join(map(str, shapes))}",
            where="bench dynamic",
            expected="some of m, n and k, and shapes without a batch",
        )
    row = resolve(target)
    require_runnable(row)
    on_cores = cores(1, None)
    calls = load(_CALLS, row, "calls")
    kernels: dict[MatmulSpec, Kernel] = {}
    results = []
    for dtype in dict.fromkeys(dtypes):
        for shape in shapes:
            spec = problem(shape, dtype, layout=layout)
            given = operands(shape, types_text(spec, whole=True), layout=layout)
            open_spec = replace(spec, **dict.fromkeys(extents, None))
            if open_spec not in kernels:
                kernels[open_spec] = compile_kernel(open_spec, target=row)
            both = {"static": compile_kernel(spec, target=row), "dynamic": kernels[open_spec]}
            expected = expect(spec, given, "")
            for name, kernel in both.items():
                _calling(calls.address, kernel, spec, given)(1)
                check(name, given.c, expected.product, expected.bound(str(spec.c)))
            rates = {
                name: Rate(
                    [_calling(calls.address, kernel, spec, given)], spec.flops * 1e-9, on_cores, time.thread_time_ns
                )
                for name, kernel in both.items()
            }
            with pinned(on_cores):
                taken = _in_turn(rates, rounds, min_seconds)
            when = datetime.now(timezone.utc).isoformat(timespec="seconds")
            name = both["static"].metadata.schedule
            about = (name, when, machine.describe(), machine.version())
            results.append(Result(spec, extents, row.name, taken["static"], taken["dynamic"], *about))
            done(results[-1])
    return results


def summary(results: Sequence[Result]) -> str:
    """The geometric mean of the ratios, and the worst of them, in a line."""
    worst = min(results, key=lambda each: each.ratio)
    mean = statistics.geometric_mean(each.ratio for each in results)
    where = f"{worst.spec.m}x{worst.spec.n}x{worst.spec.k} {types_text(worst.spec)}"
    return f"geometric mean of {len(results)}: {mean:.2f} times static; worst {worst.ratio:.2f} ({where})"


def _calling(loop: int, kernel: Kernel, spec: MatmulSpec, given: Operands) -> Callable[[int], object]:
    """What calls a kernel's C entry so many times."""
    function = ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_void_p, *[ctypes.c_int64] * 3, *[ctypes.c_void_p, ctypes.c_int64] * 3
    )(loop)
    lda, ldb = spec.m if spec.a_transposed else spec.k, spec.k if spec.b_transposed else spec.n
    matrices = ((given.a, lda), (given.b, ldb), (given.c, spec.n))
    passed = [each for array, leading in matrices for each in (array.ctypes.data, leading)]
    entry = kernel.c_function
    return lambda count: function(count, entry.address, spec.m, spec.n, spec.k, *passed)


def _in_turn(rates: Mapping[str, Rate], rounds: int, min_seconds: float) -> dict[str, Rates]:
    """Samples of all, each round begun by another one."""
    steps = {name: rate.calibrate(min_seconds) for name, rate in rates.items()}
    names, taken = list(rates), {name: list[float]() for name in rates}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(rates[name].sample(steps[name]))
    return {name: Rates(tuple(samples)) for name, samples in taken.items()}
