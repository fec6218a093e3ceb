# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures a library: the bytes of one of many products for many targets, and what a call through it costs more than a call of the code.

Both entries are called from one loop of machine code, in turn, so that neither Python nor the clock's drift is in the difference.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any

import numpy as np

from tilewright import targets as rows
from tilewright.bench import machine
from tilewright.bench.operands import types_of
from tilewright.bench.peak import Rate, load
from tilewright.bench.suites import Shape, suite
from tilewright.dtypes import stored_numpy
from tilewright.errors import TargetError
from tilewright.libraries import build
from tilewright.payload.samples import aligned
from tilewright.runtime import compile as products
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

SHAPES = tuple(
    shape for name in ("square", "bert", "resnet50", "odd") for shape in suite(name).shapes if not shape.batch
)[:30]
"""The products of the library that is measured, where none are asked for."""
SMALL = 8
"""Each extent of the product whose calls are timed."""
_NAME = "measured"
_LOOP = """
define void @calls(i64 %n, ptr %data) {{
entry:
  %code = load ptr, ptr %data
  %a.at = getelementptr ptr, ptr %data, i64 1
  %b.at = getelementptr ptr, ptr %data, i64 2
  %c.at = getelementptr ptr, ptr %data, i64 3
  %a = load ptr, ptr %a.at
  %b = load ptr, ptr %b.at
  %c = load ptr, ptr %c.at
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %next, %loop ]
  %r = call i32 %code(i64 {e}, i64 {e}, i64 {e}, ptr %a, i64 {e}, ptr %b, i64 {e}, ptr %c, i64 {e})
  %next = sub i64 %i, 1
  %more = icmp ne i64 %next, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """A library, measured.

    Attributes:
        kernels: How many kernels it has.
        types: Of which element types.
        targets: For which targets.
        shared_bytes: Bytes of its shared library.
        code_bytes: Bytes of its different objects.
        objects: How many these are.
        direct_ns: Nanoseconds of a call of the small product's own code, the least of the samples: other work only adds to them.
        library_ns: Of a call through the library.
        dispatch_ns: What the latter takes more.
        level: The target whose code was called.
        date: When, ISO 8601 with seconds, in UTC.
        machine: What the machine is, in a line.
        version: Ours, with its commit.
    """

    kernels: int
    types: tuple[str, ...]
    targets: tuple[str, ...]
    shared_bytes: int
    code_bytes: int
    objects: int
    direct_ns: float
    library_ns: float
    dispatch_ns: float
    level: str
    date: str
    machine: str
    version: str

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {"operator": "library", **asdict(self)}

    def __str__(self) -> str:
        """Two lines for people."""
        kernels = f"{self.kernels} kernels of {', '.join(self.types)} for {', '.join(self.targets)}"
        call = f"a call of {SMALL}x{SMALL}x{SMALL} f32 for {self.level}: {self.direct_ns:.1f} ns directly"
        return (
            f"{kernels}: a shared library of {self.shared_bytes} bytes, {self.objects} different objects of {self.code_bytes}\n"
            f"{call}, {self.library_ns:.1f} ns through the library, {self.dispatch_ns:.1f} ns more"
        )


def measure(
    shapes: Sequence[Shape] = SHAPES,
    dtypes: Sequence[str] = ("f32", "bf16"),
    targets: Sequence[str | Target] = build.TARGETS,
    *,
    rounds: int = 15,
    min_seconds: float = 0.005,
    progress: Callable[[int, int], object] = lambda done, count: None,
) -> Measured:
    """Builds a library, in a folder that is removed again, and measures it.

    Args:
        shapes: The products that it has.
        dtypes: Each of them in these types.
        targets: For these targets.
        rounds: How often each of both ways to call is sampled.
        min_seconds: How long a sample takes at least.
        progress: Told how many kernels for a target are compiled, and how many there are.

    Raises:
        TargetError: This machine runs none of the targets.
        TilewrightError: The library cannot be built.
    """
    here = next((each for each in map(rows.resolve, targets) if not rows.runnable(each)), None)
    if here is None:
        raise TargetError("this machine runs none of the targets", where="bench library", expected="one that it runs")
    kernels: dict[str, build.Source] = {}
    for index, dtype in enumerate(dtypes):
        a, b, c = types_of(dtype)
        kernels |= {f"p{number}_{index}": MatmulSpec(s.m, s.n, s.k, a=a, b=b, c=c) for number, s in enumerate(shapes)}
    small = MatmulSpec(SMALL, SMALL, SMALL)
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        made = build.library(kernels, targets, _NAME, folder, progress=progress)
        shared = sum((made.folder / each).stat().st_size for each in made.files if each.endswith(".so"))
        called = build.library({"small": small}, targets, f"{_NAME}_calls", folder)
        place = called.folder / called.contents.folders[here.architecture]
        loaded = ctypes.CDLL(str(place / f"lib{called.name}.so"))
        loaded.small_selected.restype = ctypes.c_char_p
        target = rows.resolve(loaded.small_selected().decode())
        through = ctypes.cast(loaded.small, ctypes.c_void_p).value
        kernel = products.compile(small, target)
        direct, library = _nanoseconds([kernel.c_function.address, through], target, rounds, min_seconds)
    objects = {symbol: size for size, symbol in made.contents.sizes.values()}
    return Measured(
        kernels=len(kernels),
        types=tuple(dtypes),
        targets=tuple(each.name for own in made.contents.targets.values() for each in own),
        shared_bytes=shared,
        code_bytes=sum(objects.values()),
        objects=len(objects),
        direct_ns=min(direct),
        library_ns=min(library),
        dispatch_ns=min(library) - min(direct),
        level=target.name,
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        machine=machine.describe(),
        version=machine.version(),
    )


def _nanoseconds(codes: Sequence[int | None], target: Target, rounds: int, min_seconds: float) -> list[list[float]]:
    """Samples of a call of each code, in turn."""
    code = load(_LOOP.format(e=SMALL), target, "calls")
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address)
    element = MatmulSpec(SMALL, SMALL, SMALL)
    matrices = [
        aligned((SMALL, SMALL), stored_numpy(kind)) for kind in (element.a_stored, element.b_stored, element.c_type)
    ]
    for each in matrices:
        each[...] = 1
    core = min(os.sched_getaffinity(0))
    places = [np.array([each, *(matrix.ctypes.data for matrix in matrices)], np.uint64) for each in codes]
    loops = [Rate([partial(_call, function, place.ctypes.data)], 1.0, [core], time.perf_counter_ns) for place in places]
    counts = [loop.calibrate(min_seconds) for loop in loops]
    samples: list[list[float]] = [[] for _ in codes]
    for _ in range(rounds):
        for own, loop, count in zip(samples, loops, counts, strict=True):
            own.append(1e9 / loop.sample(count))
    return samples


def _call(function: Callable[[int, int], object], place: int, steps: int) -> object:
    return function(steps, place)
