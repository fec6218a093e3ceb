# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop nest of a stage, read from its text: what loops there are, how often they run, and what is in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

_FOR = re.compile(r"scf\.for %(\S+) = (\S+) to (\S+) step (\S+)")
_FORALL = re.compile(r"scf\.forall \((.*?)\) (?:= \((.*?)\) to \((.*?)\) step \((.*?)\)|in \((.*?)\))")
_OPERATION = re.compile(r"^(?:%[^=]*= )?\"?([a-z_]\w*)\.([\w.]+)")
_CONSTANT = re.compile(r"(%\S+) = arith\.constant (-?\d+) : index")
_MAP = re.compile(r"^(#\w+) = affine_map<.*-> \((.*)\)>")
_MINIMUM = re.compile(r"(%\S+) = affine\.min (#\w+|affine_map<.*-> \((.*)\)>)\(")
_SHOWN = ("linalg", "vector", "memref.copy")

_LOOPS = (("jc", "nc"), ("pc", "kc"), ("ic", "mc"), ("jr", "nr"), ("ir", "mr"))
"""BLIS's names of the loops, and the size that each steps by."""


@dataclass(slots=True)
class Loop:
    """A loop.

    Attributes:
        depth: How many loops it is in, 0 for the outermost.
        variable: The name of its induction variable.
        lower: The first value, in words.
        upper: The value it stops at, in words ("≤ 256" where the last block is smaller).
        step: The step, in words.
        trips: How often it runs, or None when that is not constant.
        name: What BLIS calls the loop that steps by this size ("jr"), or None.
        operations: How often each operation of interest occurs in it, outside of deeper loops.
    """

    depth: int
    variable: str
    lower: str
    upper: str
    step: str
    trips: int | None = None
    name: str | None = None
    operations: Counter[str] = field(default_factory=Counter)


def loops(text: str, sizes: Mapping[str, int]) -> list[Loop]:
    """The loops of MLIR text, in order, outer before inner.

    Args:
        text: A module, as MLIR prints it (indented).
        sizes: The schedule's sizes by name, which tell what a loop is for.
    """
    found: list[Loop] = []
    open_loops: list[tuple[int, Loop]] = []
    values = _values(text)
    for line in text.splitlines():
        body = line.lstrip()
        indent = len(line) - len(body)
        while body and open_loops and indent <= open_loops[-1][0]:
            open_loops.pop()
        loop = _loop(body, len(open_loops), values, sizes)
        if loop is not None:
            found.append(loop)
            open_loops.append((indent, loop))
        elif open_loops and (operation := _OPERATION.match(body)):
            name = f"{operation.group(1)}.{operation.group(2)}"
            if name.startswith(_SHOWN):
                open_loops[-1][1].operations[name] += 1
    return found


def _values(text: str) -> dict[str, str]:
    """What is known of index values: constants, and the upper limits of affine.min."""
    maps = {found.group(1): found.group(2) for line in text.splitlines() if (found := _MAP.match(line))}
    known = {found.group(1): found.group(2) for found in _CONSTANT.finditer(text)}
    for found in _MINIMUM.finditer(text):
        results = found.group(3) or maps.get(found.group(2), "")
        limits = [int(each) for each in results.split(",") if re.fullmatch(r"\s*\d+\s*", each)]
        if limits:
            known.setdefault(found.group(1), f"≤ {min(limits)}")
    return known


def _loop(body: str, depth: int, values: Mapping[str, str], sizes: Mapping[str, int]) -> Loop | None:
    """The loop that the line opens, or None."""
    if "scf.for" not in body:
        return None
    if found := _FOR.search(body):
        variable, *bounds = found.groups()
        lower, upper, step = (values.get(each, each) for each in bounds)
        return Loop(depth, variable, lower, upper, step, _trips(lower, upper, step), _name(step, sizes))
    if found := _FORALL.search(body):
        variables, lower, upper, step, extents = found.groups()
        return Loop(depth, variables, lower or "0", upper or extents, step or "1, in parallel")
    return None


def _trips(lower: str, upper: str, step: str) -> int | None:
    """How often a loop runs."""
    if not all(re.fullmatch(r"-?\d+", each) for each in (lower, upper, step)) or int(step) <= 0:
        return None
    return max(0, -(-(int(upper) - int(lower)) // int(step)))


def _name(step: str, sizes: Mapping[str, int]) -> str | None:
    """BLIS's name of the loop with that step; None when no size, or more than one, is so large."""
    names = [loop for loop, size in _LOOPS if str(sizes.get(size)) == step]
    return names[0] if len(names) == 1 and step != "1" else None
