# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a program under a BLAS, and says what the BLAS served and what kernels for the program's shapes would gain."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.dtypes import dtype
from tilewright.errors import TilewrightError
from tilewright.libraries import traces
from tilewright.spec import MatmulSpec

REPORT, TRACE = "TILEWRIGHT_BLAS_REPORT", "TILEWRIGHT_TRACE"
_ROUNDS, _LEAST_SECONDS = 5, 0.002
"""How often, and how long at least, a product is measured."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a BLAS did for a program and for the processes that it started.

    Attributes:
        status: The program's exit status.
        processes: How many processes called the BLAS.
        levels: The targets whose code served.
        calls: Calls by routine, those of most calls first.
        forwarded: What went on to another BLAS.
        fallbacks: The files of these.
        products: How often kernels computed which product.
    """

    status: int
    processes: int
    levels: tuple[str, ...]
    calls: Mapping[str, int]
    forwarded: tuple[str, ...]
    fallbacks: tuple[str, ...]
    products: Mapping[MatmulSpec, int]

    @property
    def lines(self) -> list[str]:
        """It, for people."""
        if not self.processes:
            return ["no call of a BLAS"]
        routines = ", ".join(f"{name} {count}" for name, count in self.calls.items()) or "none"
        found = [
            f"served by {', '.join(self.levels)} in {self.processes} process{'es' * (self.processes > 1)}: {routines}"
        ]
        if self.forwarded:
            found.append(f"went on to {', '.join(self.fallbacks)}: {', '.join(self.forwarded)}")
        if self.products:
            found.append(f"{sum(self.products.values())} products of {len(self.products)} shapes, of most work:")
        return found + [f"  {spec} {count} times" for spec, count in most_work(self.products, 5).items()]


def check_program(name: str) -> None:
    """Checks that a program can be started, before a library is built for it.

    Raises:
        TilewrightError: It is not there, or cannot be executed.
    """
    if shutil.which(name) is None:
        raise TilewrightError("cannot run it", where=name, expected="a program, by its path or on PATH")


def run(command: Sequence[str], library: Path) -> Served:
    """Runs a program with a BLAS before all others, and waits for its end.

    Processes append what they called to the file that TILEWRIGHT_TRACE names, if it does.

    Raises:
        TilewrightError: The program cannot be started, or the library is not there.
    """
    check_program(command[0])
    if not library.is_file():
        raise TilewrightError("no library", where=str(library), expected="what tilewright blas build made")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        report, trace = Path(folder, "report"), Path(folder, "trace")
        kept = os.environ.get(TRACE)
        preloaded = " ".join([str(library.resolve()), *os.environ.get("LD_PRELOAD", "").split()])
        variables = {"LD_PRELOAD": preloaded, REPORT: str(report), TRACE: str(trace)}
        try:
            done = subprocess.run(list(command), env={**os.environ, **variables}, check=False)
        except OSError as error:
            raise TilewrightError(f"cannot run it: {error.strerror}", where=command[0], expected="a program") from None
        lines = [json.loads(line) for line in report.read_text().splitlines()] if report.is_file() else []
        products: dict[MatmulSpec, int] = {}
        if trace.is_file():
            found = traces.read(trace).calls
            products = {spec: count for spec, count in found.items() if isinstance(spec, MatmulSpec)}
            if kept:
                with Path(kept).open("a", encoding="utf-8") as file:
                    file.write(trace.read_text())
    used = [each for each in lines if each["calls"] or each["forwarded"]]
    calls: Counter[str] = Counter()
    for each in used:
        calls.update(each["calls"])
    return Served(
        done.returncode,
        len(used),
        _distinct([each["level"] for each in used]),
        dict(calls.most_common()),
        _distinct([name for each in used for name in each["forwarded"]]),
        _distinct([file for each in used for file in each["fallbacks"]]),
        products,
    )


def most_work(products: Mapping[MatmulSpec, int], count: int) -> dict[MatmulSpec, int]:
    """The products that take most multiplications."""
    work = {spec: float(times) * _size(spec) for spec, times in products.items()}
    return {spec: products[spec] for spec in sorted(work, key=lambda each: -work[each])[:count]}


def gains(products: Sequence[MatmulSpec], general: Path, own: Path) -> dict[MatmulSpec, float]:
    """How much faster each product is in the library that has kernels of these shapes; 1.1 is a tenth faster."""
    libraries = [ctypes.CDLL(str(each)) for each in (general, own)]
    return {spec: _ratio(spec, libraries) for spec in products}


def _ratio(spec: MatmulSpec, libraries: Sequence[ctypes.CDLL]) -> float:
    kind = dtype(str(spec.a)).numpy
    a, b, c = (np.ones(shape, kind) for shape in (spec.a_shape, spec.b_shape, spec.c_shape))
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}[str(spec.a)]
    is_complex = letter in "cz"
    factors = [np.array([each], kind) for each in (1, 0)]
    real = ctypes.c_float if letter == "s" else ctypes.c_double
    alpha, beta = (_pointer(each) if is_complex else real(each[0]) for each in factors)
    ops = [111 + "ntc".index(each) for each in spec.layout]
    sizes = [ctypes.c_int64(int(str(each))) for each in (spec.m, spec.n, spec.k)]
    a_ld, b_ld, c_ld = (ctypes.c_int64(each.shape[1]) for each in (a, b, c))
    arguments = (101, *ops, *sizes, alpha, _pointer(a), a_ld, _pointer(b), b_ld, beta, _pointer(c), c_ld)
    calls = [getattr(each, f"cblas_{letter}gemm64_") for each in libraries]
    general, own = (
        min(each) for each in zip(*([_seconds(call, arguments) for call in calls] for _ in range(_ROUNDS)), strict=True)
    )
    return general / own


def _seconds(call: ctypes._NamedFuncPointer, arguments: Sequence[object]) -> float:
    """The seconds of one call."""
    count, passed = 0, 0.0
    start = time.perf_counter()
    while passed < _LEAST_SECONDS:
        call(*arguments)
        count += 1
        passed = time.perf_counter() - start
    return passed / count


def _pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def _size(spec: MatmulSpec) -> int:
    m, n, k = (int(str(each)) for each in (spec.m, spec.n, spec.k))
    return m * n * k


def _distinct(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in found if each))
