# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures a product over processes beside ScaLAPACK's and beside threads of one process: the program of each process of mpiexec.

`measuring` starts it. The first process prints a line of JSON for each contender.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.distributed import implementation, product, scalapack
from tilewright.distributed.grid import Grid
from tilewright.dtypes import to_numpy
from tilewright.spec import MatmulSpec
from tilewright.tuning.calls import compile as compile_one

_SAMPLES = 8
"""Rows and columns of a process's C that are compared."""


def _a(i: np.ndarray[Any, Any], k: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Small whole numbers, so that every order of sums is exact."""
    return (i[:, None] * 7 + k[None, :] * 3) % 5


def _b(k: np.ndarray[Any, Any], j: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (k[:, None] * 5 + j[None, :] * 11) % 7 - 3


class Measured:
    """The contenders of one product, on all processes of MPI."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        """Takes what `measuring` wants to know: "shape", "dtype", "grid", "schedule", "panels", "threads", "rounds", "blocks"."""
        self.comm = implementation.module().COMM_WORLD
        self.wanted = wanted
        m, n, k = wanted["shape"]
        self.spec = MatmulSpec.from_dtypes(m, n, k, wanted["dtype"])
        self.contenders: dict[str, tuple[Callable[[], object], bool]] = {}
        self.right: dict[str, bool] = {}

    def add_ours(self) -> None:
        """Our product over processes."""
        grid = Grid(self.comm, tuple(self.wanted["grid"]))
        schedule = self.wanted["schedule"]
        made = product.compile(self.spec, comm=grid, schedule=schedule, panels=self.wanted["panels"])
        sharding = product.named(schedule)
        place = np.unravel_index(self.comm.Get_rank(), grid.shape)

        def along(extent: int, axes: tuple[int, ...]) -> np.ndarray[Any, Any]:
            """The indices along a dimension that this process has."""
            number = 0
            for axis in axes:
                number = number * grid.shape[axis] + int(place[axis])
            return np.arange(extent)[number * (extent // grid.count(axes)) :][: extent // grid.count(axes)]

        m, n, k = self.wanted["shape"]
        types = [to_numpy(each) for each in (self.spec.a_type, self.spec.b_type, self.spec.c_type)]
        a = _a(along(m, sharding.a[0]), along(k, sharding.a[1])).astype(types[0])
        b = _b(along(k, sharding.b[0]), along(n, sharding.b[1])).astype(types[1])
        c = np.zeros(made.shapes["c"], types[2])
        self._add(f"{self.comm.Get_size()} processes", lambda: made(a, b, out=c))
        self._compare(c, along(m, sharding.c[0]), along(n, sharding.c[1]))

    def add_scalapack(self, block: int) -> None:
        """ScaLAPACK's, in blocks of so many rows and columns."""
        rows, columns = ([*self.wanted["grid"], 1])[:2]
        library = scalapack.load(implementation.loaded())
        m, n, k = self.wanted["shape"]
        made = scalapack.Gemm(library, (m, n, k), self.wanted["dtype"], (rows, columns), block)
        made.a[0][:] = _a(made.rows(m, 0), made.rows(k, 1))
        made.b[0][:] = _b(made.rows(k, 0), made.rows(n, 1))
        self._add(f"ScaLAPACK, blocks of {block}", made)
        self._compare(made.c[0], made.rows(m, 0), made.rows(n, 1))

    def add_threads(self) -> None:
        """Our product on threads of the first process, while others sleep."""
        m, n, k = (np.arange(each) for each in self.wanted["shape"])
        alone: Callable[[], object] = lambda: None  # noqa: E731 - of processes that only wait
        if self.comm.Get_rank() == 0:
            types = [to_numpy(each) for each in (self.spec.a_type, self.spec.b_type, self.spec.c_type)]
            a, b = _a(m, k).astype(types[0]), _b(k, n).astype(types[1])
            c = np.zeros((len(m), len(n)), types[2])
            kernel = compile_one(self.spec, threads=self.wanted["threads"])
            alone = lambda: kernel(a, b, out=c)  # noqa: E731
        else:
            c = np.zeros((0, 0))
        self._add(f"{self.wanted['threads']} threads", alone, alone=True)
        self._compare(c, m[: len(c)], n[: c.shape[1]])

    def _add(self, name: str, call: Callable[[], object], *, alone: bool = False) -> None:
        self.contenders[name] = call, alone
        self._timed(name)

    def _compare(self, c: np.ndarray[Any, Any], rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any]) -> None:
        """Whether some elements of this process's C, of the contender that was added last, are right."""
        rng, k = np.random.default_rng(self.comm.Get_rank()), np.arange(self.wanted["shape"][2])
        i, j = (rng.integers(0, max(len(each), 1), _SAMPLES if len(each) else 0) for each in (rows, columns))
        expected = (_a(rows[i], k) @ _b(k, columns[j])).astype(c.dtype)
        fine = bool((c[np.ix_(i, j)] == expected).all())
        name = next(reversed(self.contenders))
        self.right[name] = all(self.comm.allgather(fine))

    def _timed(self, name: str) -> float:
        """Seconds of a call, from when all processes start to when the last one has its block."""
        call, alone = self.contenders[name]
        if alone:
            self.comm.Barrier()
            start = time.perf_counter()
            call()
            seconds = time.perf_counter() - start
            # Processes that wait in MPI keep a core busy.
            request = self.comm.Ibarrier()
            while not request.Test():
                time.sleep(0.001)
            return self.comm.bcast(seconds)
        self.comm.Barrier()
        start = time.perf_counter()
        call()
        return max(self.comm.allgather(time.perf_counter() - start))

    def run(self) -> list[dict[str, Any]]:
        """The results, after so many rounds in which each contender has its turn."""
        seconds: dict[str, list[float]] = {name: [] for name in self.contenders}
        for _ in range(self.wanted["rounds"]):
            for name, each in seconds.items():
                each.append(self._timed(name))
        return [
            {
                "name": name,
                "seconds": statistics.median(each),
                "gflops": self.spec.flops / statistics.median(each) / 1e9,
                "samples": each,
                "right": self.right[name],
            }
            for name, each in seconds.items()
        ]


def main() -> None:
    """Measures what the argument asks for, and prints it."""
    measured = Measured(json.loads(sys.argv[1]))
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # mpiexec may have bound this process to one core
    measured.add_ours()
    for block in measured.wanted["blocks"]:
        measured.add_scalapack(block)
    if measured.wanted["threads"]:
        measured.add_threads()
    results = measured.run()
    if measured.comm.Get_rank() == 0:
        for each in results:
            sys.stdout.write(json.dumps(each) + "\n")


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # The others would wait for this process for ever.
        traceback.print_exc()
        implementation.module().COMM_WORLD.Abort(1)
