# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What our BLAS gives to programs of numpy: the same expression with the library loaded before all others, and without it, in turn."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType

from tilewright import targets
from tilewright.bench.checks import CheckError
from tilewright.bench.machine import describe, version
from tilewright.bench.operators.results import LIMIT, Key, Result
from tilewright.bench.peak import Peak
from tilewright.bench.peers import process_environment
from tilewright.bench.rows import OURS, Rates
from tilewright.bench.timing import cores
from tilewright.errors import TilewrightError

NAME = "blas programs"
"""What results call it."""
WITHOUT = "without"
"""The contender that runs the same program on the BLAS that it has otherwise."""
_TOLERANCES = {"f32": 1e-5, "f64": 1e-13}
_SCRIPT = """
import sys, time
import numpy as np
n, kind, expression, check, seconds, clock = int(sys.argv[1]), *sys.argv[2:5], float(sys.argv[5]), getattr(time, sys.argv[6])
a = np.random.default_rng(0).standard_normal((n, n)).astype(kind)
run = eval("lambda a: " + expression)
expected, found = eval(check)(a.astype(np.float64), run(a))
error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
count, passed = 0, 0.0
start = clock()
while passed < seconds or count < 2:
    run(a)
    count, passed = count + 1, clock() - start
print(passed / count, error, np.__version__)
"""


@dataclass(frozen=True, slots=True)
class Program:
    """An expression of numpy's.

    Attributes:
        expression: Of a square matrix `a`, in Python.
        check: A function of `a` in float64 and the result that gives what is right and what was computed.
        python: The interpreter.
        about: Which numpy that has.
        work: Multiply-adds.
    """

    expression: str
    check: str
    python: Path
    about: str
    work: Callable[[int], float]


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "A @ A.T": Program(
            "a @ a.T", "lambda a, c: (a @ a.T, c)", Path(sys.executable), "numpy's wheel", lambda n: n * (n + 1) / 2 * n
        ),
        "qr": Program(
            "np.linalg.qr(a)",
            "lambda a, qr: (a, qr[0].astype(float) @ qr[1].astype(float))",
            Path("/usr/bin/python3"),
            "Debian's numpy and LAPACK",
            lambda n: 4 / 3 * n**3,  # Of R, and as many of Q.
        ),
    }
)
"""By the name that results have: one that calls syrk in numpy itself, and one that calls LAPACK, whose BLAS is the system's."""
SIZES = (256, 1024)


def run(
    library: Path,
    asked: str,
    *,
    names: Sequence[str] = tuple(PROGRAMS),
    sizes: Sequence[int] = SIZES,
    libraries: Sequence[str] | None = None,
    threads: int = 1,
    rounds: int = 7,
    min_seconds: float = 0.03,
    finished: Mapping[Key, Result] | None = None,
    done: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Measures programs, each sample in a process of its own.

    Args:
        library: Our BLAS, which was built for this machine and as many threads.
        asked: The type, f32 or f64.
        names: Which of `PROGRAMS`.
        sizes: Rows of A.
        libraries: Ignored.
        threads: Of each.
        rounds: Samples of each.
        min_seconds: What a sample lasts at least.
        finished: Results of an earlier run; what is there is not measured again.
        done: Told each new result.

    Raises:
        TilewrightError: The type is no real one, a program fails, or the library serves no call of it.
        CheckError: A result is wrong.
    """
    if asked not in _TOLERANCES:
        raise TilewrightError(f"no programs of {asked!r}", where="bench blas", expected=" or ".join(_TOLERANCES))
    host, on, found = targets.resolve("host"), cores(threads), list[Result]()
    clock = "thread_time" if threads == 1 else "perf_counter"
    for name in names:
        for size in sizes:
            key = Key(NAME, f"{name} {size}x{size}", asked, threads, host.name)
            if finished and key in finished:
                found.append(finished[key])
                continue
            flops, program = 2 * PROGRAMS[name].work(size), PROGRAMS[name]
            rates: dict[str, list[float]] = {OURS: [], WITHOUT: [], LIMIT: []}
            with closing(Peak(host, (asked, asked), on, getattr(time, f"{clock}_ns"))) as peak:
                steps, error, numpy = peak.calibrate(min_seconds), 0.0, ""
                for _ in range(rounds):
                    for contender in (OURS, WITHOUT):
                        given = (
                            str(size),
                            {"f32": "float32", "f64": "float64"}[asked],
                            program.expression,
                            program.check,
                        )
                        words = [*given, str(min_seconds), clock]
                        seconds, wrong, numpy = _sample(program, words, library if contender == OURS else None, threads)
                        if not wrong <= _TOLERANCES[asked]:
                            raise CheckError(
                                f"{contender} computes {key.case} in {asked} with a relative error of {wrong:.2g}"
                            )
                        rates[contender].append(flops / seconds * 1e-9)
                        error = wrong if contender == OURS else error
                    rates[LIMIT].append(peak.sample(steps) * 1e-9)
            found.append(
                Result(
                    operator=NAME,
                    case=key.case,
                    asked=asked,
                    threads=threads,
                    target=host.name,
                    streams=False,
                    rates={each: Rates(tuple(samples)) for each, samples in rates.items()},
                    versions={OURS: version(), WITHOUT: f"{program.about}, {numpy}"},
                    absent={},
                    error=error,
                    compile_seconds=0.0,
                    scratch=0,
                    date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                    machine=describe(),
                )
            )
            done(found[-1])
    return found


def _sample(program: Program, words: Sequence[str], library: Path | None, threads: int) -> tuple[float, float, str]:
    """Seconds of a call, the relative error, and the version of numpy."""
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        report = Path(folder, "report")
        variables = {**os.environ, **process_environment(threads)}
        if library is not None:
            variables |= {"LD_PRELOAD": str(library.resolve()), "TILEWRIGHT_BLAS_REPORT": str(report)}
        command = [str(program.python), "-I", "-c", _SCRIPT, *words]
        try:
            ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        except OSError as error:
            raise TilewrightError(f"cannot run it: {error.strerror}", where=str(program.python)) from None
        if ended.returncode:
            last = ended.stderr.strip().splitlines()[-1:]
            remedy = "make setup-outside installs Debian's numpy"
            raise TilewrightError(f"{program.about}: {' '.join(last)}", where=program.expression, remedy=remedy)
        if library is not None and '"calls": {}' in (report.read_text() if report.exists() else '"calls": {}'):
            raise TilewrightError("the library served no call", where=program.expression, expected="a BLAS of ours")
    seconds, error, numpy = ended.stdout.split()
    return float(seconds), float(error), numpy
