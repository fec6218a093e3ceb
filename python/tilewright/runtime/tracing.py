# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the calls of kernels for ``TILEWRIGHT_TRACE``: what a program computes, of which shapes, and how often."""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from tilewright import knobs
from tilewright.operator_specs import OperatorSpec
from tilewright.payload import spec_tables
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec

Kind = TypeVar("Kind", bound=type[Kernel])
_Shapes = tuple[tuple[int, ...] | None, ...]


class _Trace:
    """The calls of a process that are not yet in the file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._counts: Counter[tuple[Any, int, _Shapes]] = Counter()
        atexit.register(self.write)
        os.register_at_fork(after_in_child=self._forked)

    def count(self, kernel: Kernel, shapes: _Shapes) -> None:
        """Counts a call."""
        with self._lock:
            self._counts[kernel.spec, kernel.metadata.threads, shapes] += 1

    def write(self) -> None:
        """Appends a line for each kernel and shapes, and starts anew. What cannot be written is said, and ends nothing."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        lines = [json.dumps(line(*what, calls)) + "\n" for what, calls in counts.items()]
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(lines))  # one write, so that lines of several processes do not mix
        except OSError as error:
            sys.stderr.write(f"tilewright: cannot write the trace {self._path}: {error.strerror}\n")

    def _forked(self) -> None:
        """Leaves what the parent counted to it."""
        self._lock, self._counts = threading.Lock(), Counter()


def line(spec: Any, threads: int, shapes: Sequence[Sequence[Any] | None], calls: Any) -> dict[str, Any]:  # noqa: ANN401 - of any kernel
    """What one line of the file says, as JSON."""
    known = isinstance(spec, MatmulSpec | OperatorSpec)
    return {
        "spec": spec_tables.table(spec) if known else None,
        "computes": str(spec) if known else "a module",
        "threads": threads,
        "shapes": [None if each is None else list(each) for each in shapes],
        "calls": calls,
    }


@functools.cache
def _trace(path: Path) -> _Trace:
    return _Trace(path)


def counted(kind: Kind) -> Kind:
    """The class of kernels of a kind whose calls are counted; the kind itself where the environment names no trace."""
    path = knobs.load().trace
    return kind if path is None else _counted(kind, path)


@functools.cache
def _counted(kind: Kind, path: Path) -> Kind:
    trace = _trace(path)

    class Counted(kind):
        __slots__ = ()

        def __call__(self, *operands: Any, out: Any = None, **named: Any) -> Any:  # noqa: ANN401 - the kind's
            result = super().__call__(*operands, out=out, **named)
            trace.count(self, tuple(getattr(each, "shape", None) for each in (*operands, *named.values())))
            return result

    Counted.__name__, Counted.__qualname__ = kind.__name__, kind.__qualname__
    return Counted  # pyright: ignore[reportReturnType] - a subclass
