# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process of one BLAS: calls its C interface in a loop of machine code, so that nothing of Python is in the time.

Started by peer_process.py; the name is that of a peer, or the file of a BLAS that is ours.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.blas.cases import Case
from tilewright.bench.libraries import Mkl, Numpy, mkl_path
from tilewright.bench.machine import version
from tilewright.bench.peak import load
from tilewright.bench.peer_worker import serve
from tilewright.bench.timing import calibrate
from tilewright.targets import resolve

_NAMES = ("scipy_cblas_{}64_", "cblas_{}")
"""What libraries call a routine of C; all take integers that are passed as 64 bits."""
_LOOP = """
define void @calls(i64 %count, ptr %entry, ptr %data) {{
start:
{loads}
  br label %loop
loop:
  %left = phi i64 [ %count, %start ], [ %less, %loop ]
  call void %entry({passed})
  %less = sub i64 %left, 1
  %more = icmp ne i64 %less, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


class Caller:
    """A BLAS in this process, as `PeerProcess` wants it."""

    def __init__(self, name: str) -> None:
        """Loads a peer's BLAS, or that of a file."""
        if name == "mkl":
            self.version, file = Mkl().version, str(mkl_path())
        elif name.startswith("numpy"):
            self.version, file = Numpy().version, _loaded("openblas")
        else:
            self.version, file = version(), name
        self._library = ctypes.CDLL(file)
        self._clock = time.perf_counter_ns
        self.unload()

    def load(self, case: Case, asked: str, threads: int) -> None:
        """Makes the operands and the loop. One thread is measured in processor time, which other programs do not lengthen."""
        self.unload()
        self._clock = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        self._case, self._asked, self._operands = case, asked, case.operands(asked)
        self._arguments = case.arguments(asked, self._operands)
        slots = np.zeros(len(self._arguments), np.uint64)
        kinds = [kind for kind, _, _ in self._arguments]
        for number, (kind, value, _) in enumerate(self._arguments):
            numpy_kind = {"float": np.float32, "double": np.float64}.get(kind, np.int64)
            slots[number : number + 1].view(numpy_kind)[0] = value
        loads = [
            f"  %at{n} = getelementptr i64, ptr %data, i64 {n}\n  %v{n} = load {kind}, ptr %at{n}"
            for n, kind in enumerate(kinds)
        ]
        passed = ", ".join(f"{kind} %v{n}" for n, kind in enumerate(kinds))
        self._code = load(_LOOP.format(loads="\n".join(loads), passed=passed), resolve("host"), "calls")
        loop = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(self._code.address)
        entry = ctypes.cast(self._function(case.name(asked)), ctypes.c_void_p)
        self._slots = slots
        self._call = lambda count: loop(count, entry, slots.ctypes.data)

    def result(self) -> np.ndarray:
        """What one call makes of fresh operands."""
        fresh = self._case.operands(self._asked)
        self._operands.c[...] = fresh.c
        self._call(1)
        return self._operands.c.copy()

    def calibrate(self, min_seconds: float) -> int:
        """How many calls last that long."""
        return calibrate(self._seconds, min_seconds)

    def sample(self, count: int) -> float:
        """Seconds of a call, the mean of `count` after a tenth as many untimed ones."""
        self._seconds(-(-count // 10))
        return self._seconds(count) / count

    def unload(self) -> None:
        """Drops the operands."""
        self._arguments, self._slots, self._call = [], None, lambda _: None

    def _seconds(self, count: int) -> float:
        start = self._clock()
        self._call(count)
        return (self._clock() - start) * 1e-9

    def _function(self, routine: str) -> Any:  # noqa: ANN401 - ctypes has no name for it
        for name in _NAMES:
            if found := getattr(self._library, name.format(routine), None):
                return found
        raise AttributeError(f"no {routine} in {self._library._name}")


def _loaded(part: str) -> str:
    """The file of a library of this process."""
    found = [line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()]
    return next(file for file in found if part in os.path.basename(file))


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1:], Caller))
