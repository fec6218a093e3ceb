# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels that ops find missing: static ones for the first shapes, and then one whose extents are dynamic.

An op says what it needs in a text, "product 128x3072x768 f32,f32,f32 nt batch=- a_batch=- b_batch=- epilogue=bias:n:f32,gelu threads=1".
The registry keeps the kernel under this text, or under that with open extents ("?x3072x768"), which the op finds for other
shapes from then on.
"""

from __future__ import annotations

import ctypes
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tilewright.entries import Epilogue
from tilewright.errors import SpecError, TilewrightError
from tilewright.payload import epilogues
from tilewright.runtime.compile import compile
from tilewright.spec import MatmulSpec
from tilewright.torch import native, registry

_STATIC_ROWS = 4
"""Numbers of rows for which products with the same N and K have static kernels: a model's few batch sizes, and no more."""
_STATIC_WEIGHTS = 64
"""Pairs of N and K for which products of the same types and entries have them: a large model has some dozen."""

_ENTRIES: Mapping[str, Callable[..., Epilogue]] = MappingProxyType(
    {
        "bias": epilogues.bias,
        "residual": epilogues.residual,
        "gelu": epilogues.gelu,
        "gelu_tanh": lambda: epilogues.gelu("tanh"),
        "silu": epilogues.silu,
        "relu": epilogues.relu,
        "sigmoid": epilogues.sigmoid,
        "tanh": epilogues.tanh,
        "hardswish": epilogues.hardswish,
        **{
            f"glu-{each}": (lambda *_, each=each: epilogues.glu(each))
            for each in ("silu", "gelu", "sigmoid", "relu", "tanh")
        },
    }
)
ACTIVATIONS = tuple(name for name in _ENTRIES if name not in ("bias", "residual") and not name.startswith("glu-"))
"""What `linear` applies to its sums."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A product that an op has to compute.

    Attributes:
        m: Rows of A; "?" where a kernel takes any.
        n: Columns of B, likewise.
        k: Columns of A, likewise.
        fields: The rest of the text, by name.
    """

    m: str
    n: str
    k: str
    fields: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> Problem:
        """The problem of a text.

        Raises:
            SpecError: It is none.
        """
        kind, _, rest = text.partition(" ")
        words = rest.split()
        if kind != "product" or len(words) < 3:
            raise SpecError(f"{text!r} is no problem of an op", where="tilewright.torch", expected="product MxNxK ...")
        m, n, k = words[0].split("x")
        named = dict(word.split("=", 1) for word in words[3:])
        return cls(m, n, k, {"types": words[1], "layout": words[2], **named})

    @property
    def text(self) -> str:
        """The text, which `read` reads."""
        fields = dict(self.fields)
        head = f"product {self.m}x{self.n}x{self.k} {fields.pop('types')} {fields.pop('layout')}"
        return " ".join((head, *(f"{name}={value}" for name, value in fields.items())))

    @property
    def rows_open(self) -> Problem:
        """The same for any number of rows."""
        return replace(self, m="?")

    @property
    def all_open(self) -> Problem:
        """The same for any extents, those of the batch included."""
        batches = {name: _opened(self.fields[name]) for name in ("batch", "a_batch", "b_batch")}
        return Problem("?", "?", "?", {**self.fields, **batches})

    @property
    def spec(self) -> MatmulSpec:
        """What is computed.

        Raises:
            SpecError: No kernel computes it.
        """
        a, b, c = self.fields["types"].split(",")
        batch, a_batch, b_batch = (_sizes(self.fields[name]) for name in ("batch", "a_batch", "b_batch"))
        m, n, k = (_size(each) for each in (self.m, self.n, self.k))
        own = {"a_batch": a_batch, "b_batch": b_batch, "epilogue": _epilogue(self.fields["epilogue"])}
        return MatmulSpec(m, n, k, a=a, b=b, c=c, layout=self.fields["layout"], batch=batch, **own)

    @property
    def threads(self) -> int:
        """Most threads that a call uses."""
        return int(self.fields["threads"])


class Compiler:
    """Compiles kernels for problems, and decides which have dynamic extents."""

    def __init__(self) -> None:
        """Knows no problem yet."""
        self._lock = threading.Lock()
        self._rows: dict[str, set[str]] = defaultdict(set)
        self._weights: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def serve(self, text: str) -> None:
        """Registers a kernel under a problem's text, or under that of one with open extents.

        Raises:
            TilewrightError: None can be compiled.
        """
        problem = Problem.read(text)
        with self._lock:
            wanted = self._wanted(problem)
            try:
                self._add(wanted)
            except SpecError:
                if wanted == problem:
                    raise
                self._add(problem)  # What is refused with open extents, such as long rows of K.

    def _wanted(self, problem: Problem) -> Problem:
        """The problem whose kernel serves this one: the same, or with open extents, where too many have been seen."""
        rows, weights = self._rows[problem.rows_open.text], self._weights[problem.all_open.text]
        if len(weights) >= _STATIC_WEIGHTS and (problem.n, problem.k) not in weights:
            return problem.all_open
        weights.add((problem.n, problem.k))
        if len(rows) >= _STATIC_ROWS and problem.m not in rows:
            return problem.rows_open
        rows.add(problem.m)
        return problem

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
    ctypes.memmove(error, said.encode()[: room - 1] + b"\0", min(len(said.encode()), room - 1) + 1)
    return 1


_COMPILER = Compiler()
_RESOLVER = native.RESOLVER(_resolve)


def _size(text: str) -> int | None:
    return None if text == "?" else int(text)


def _sizes(text: str) -> tuple[int | None, ...]:
    return () if text == "-" else tuple(_size(each) for each in text.split("x"))


def _opened(text: str) -> str:
    return text if text == "-" else "x".join(each if each == "1" else "?" for each in text.split("x"))


def _epilogue(text: str) -> tuple[Epilogue, ...]:
    return () if text == "-" else tuple(_entry(each) for each in text.split(","))


def _entry(text: str) -> Epilogue:
    """An entry, "gelu", or one with the axes and the type of its operand, "bias:n:f32".

    Raises:
        SpecError: None is called so.
    """
    name, *operand = text.split(":")
    if name not in _ENTRIES:
        raise SpecError(
            f"no activation is called {name.removeprefix('glu-')!r}",
            where="tilewright.torch",
            expected=f"one of {', '.join(('none', *ACTIVATIONS))}",
        )
    return _ENTRIES[name](*operand)
