# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options of the command line that say what product is computed, for files that say how to make something happen again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.spec import MatmulSpec

_FLAGS = ("b_packed", "deterministic", "tf32")
_ENTRIES = ("epilogue", "prologue_a", "prologue_b")


def of(spec: MatmulSpec, target: str, threads: int = 1) -> Iterator[str]:
    """The options, one string each: of a product, the name of a target, and how many threads a call uses."""
    m, n, k = ("?" if each is None else str(each) for each in (spec.m, spec.n, spec.k))
    types = dict.fromkeys((spec.a, spec.b, spec.c))
    yield from ("--shape", f"{m}x{n}x{k}")
    yield from ("--dtype", spec.a if [*types] == ["f32"] else f"{spec.a},{spec.b},{spec.c}")
    yield from ("--layout", spec.layout)
    if spec.batch:
        yield from ("--batch", "x".join("?" if each is None else str(each) for each in spec.batch))
    for name, usual in (("alpha", 1), ("beta", 0), ("precision", None)):
        if getattr(spec, name) != usual:
            yield from (f"--{name}", str(getattr(spec, name)))
    for name in _FLAGS:
        if getattr(spec, name):
            yield f"--{name.replace('_', '-')}"
    for name in _ENTRIES:
        if entries := getattr(spec, name):
            yield f"--{name.replace('_', '-')}"
            yield ",".join(_entry(each.name) for each in entries)
    if threads > 1:
        yield from ("--threads", str(threads))
    yield from ("--target", target)


def _entry(name: str) -> str:
    """An entry of an epilogue as the command line takes it: ``bias:n`` for ``bias('n')``. It refuses the name of a user's function."""
    called = re.fullmatch(r"(\w+)\((.*)\)", name)
    return ":".join((called[1], *re.findall(r"[^', ]+", called[2]))) if called else name
