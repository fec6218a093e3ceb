# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels that ops find missing: static ones for the first shapes, and then one whose extents are dynamic.

The registry keeps a kernel under the text of its problem. Ops look for their own text first, then for that of a kernel with dynamic rows,
and last for that of one with dynamic extents, and find it for other shapes from then on.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewright.errors import SpecError, TilewrightError
from tilewright.runtime.compile import compile
from tilewright.torch import native, registry
from tilewright.torch.problems import Problem

_STATIC_ROWS = 4
"""Numbers of rows (of keys, in attention) for which problems that are else the same have static kernels: a model's few batch sizes."""
_STATIC_OTHERS = 64
"""Of their other extents, likewise: a large model has some dozen weights."""
_DECODED = 16
"""Queries up to which attention has kernels of its own for them, with any number of keys: a decoder's steps."""

_ROWS: Mapping[str, tuple[str, ...]] = MappingProxyType({"product": ("m",), "attention": ("keys",), "conv2d": ()})
_ALL: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"product": ("m", "n", "k", "batch", "a_batch", "b_batch"), "attention": ("queries", "keys"), "conv2d": ()}
)


class Compiler:
    """Compiles kernels for problems, and decides which have dynamic extents."""

    def __init__(self) -> None:
        """Knows no problem yet."""
        self._lock = threading.Lock()
        self._rows: dict[str, set[str]] = defaultdict(set)
        self._others: dict[str, set[str]] = defaultdict(set)

    def serve(self, text: str) -> None:
        """Registers a kernel under a problem's text, or under that of one with dynamic extents.

        Raises:
            TilewrightError: None can be compiled.
        """
        problem = Problem.read(text)
        with self._lock:
            for each in self._wanted(problem):
                try:
                    self._add(each)
                    return
                except SpecError:
                    if each == problem:
                        raise

    def _wanted(self, problem: Problem) -> tuple[Problem, ...]:
        """The problems whose kernels serve this one, best first; the last one is itself."""
        by_rows, by_all = problem.opened(*_ROWS[problem.kind]), problem.opened(*_all(problem))
        rows, others = self._rows[by_rows.text], self._others[by_all.text]
        if by_all != by_rows and len(others) >= _STATIC_OTHERS and by_rows.text not in others:
            return by_all, problem
        others.add(by_rows.text)
        if by_rows != problem and len(rows) >= _STATIC_ROWS and problem.text not in rows:
            return by_rows, problem
        rows.add(problem.text)
        return (problem,)

    def _add(self, problem: Problem) -> None:
        if problem.text not in registry.names():
            registry.register(compile(problem.spec, threads=problem.threads), problem.text)


def start() -> None:
    """Has ops ask this process's Python for kernels from now on.

    Raises:
        TilewrightError: The ops cannot be loaded.
    """
    native.library().tilewright_torch_set_resolver(_RESOLVER)


def stop() -> None:
    """Has ops ask nobody: Python ends."""
    native.library().tilewright_torch_set_resolver(native.RESOLVER())


def _all(problem: Problem) -> tuple[str, ...]:
    names = _ALL[problem.kind]
    if problem.kind == "attention" and int(problem.fields["queries"]) <= _DECODED:
        return ("keys",)
    # The codes of quantized weights have a row of half bytes for each K.
    return tuple(name for name in names if name != "k" or problem.fields["prologue"] == "-")


def _resolve(text: bytes, error: Any, room: int) -> int:  # noqa: ANN401 - a pointer to char
    """What the ops call: compiles the kernel for a problem."""
    try:
        _COMPILER.serve(text.decode())
    except TilewrightError as problem:
        said = str(problem)
    except Exception as problem:  # Nothing may go through C++.
        said = f"{type(problem).__name__}: {problem}"
    else:
        return 0
    told = said.encode()[: room - 1] + b"\0"
    ctypes.memmove(error, told, len(told))
    return 1


_COMPILER = Compiler()
_RESOLVER = native.RESOLVER(_resolve)
