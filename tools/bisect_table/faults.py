# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plants faults in the printed text of a schedule: a step that makes numbers wrong, one that fails, one that crashes, one that is slow."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilewright.schedules.hybrid import Text

_ANY = "!transform.any_op"
_AT = 3
"""Behind so many ops, which read the payload alone, comes a step that changes it."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A schedule with a fault.

    Attributes:
        text: The schedule.
        op: What the text of the op to blame holds.
    """

    text: str
    op: str


def wrong(text: str, *, amid: bool) -> Planted:
    """Sums start from one: a step, the fourth one, has replaced the zeros of the payload."""
    zeros = f"    %zeros = {_matched('arith.constant')} filter_result_type = f32 in %arg0 : ({_ANY}) -> {_ANY}\n"
    ones = f"    %ones = transform.structured.replace %zeros {{\n      %one = arith.constant 1.0 : f32\n    }} : ({_ANY}) -> {_ANY}\n"
    return Planted(_with(Text.of(text), _AT, zeros, ones, amid=amid), "transform.structured.replace")


def crashing(text: str, *, amid: bool) -> Planted:
    """A step in which MLIR ends its process: a tile whose size is an op of the payload that is zero."""
    parts = Text.of(text)
    at = next(n for n, op in enumerate(parts.ops, 1) if 'match ops{["linalg.matmul"]}' in op)
    ops = (
        f"    %mine = {_matched('linalg.matmul')} in %arg0 : ({_ANY}) -> {_ANY}\n",
        f"    %tile, %loop = transform.structured.tile_using_for %mine tile_sizes [4, 0, 0] : ({_ANY}) -> ({_ANY}, {_ANY})\n",
        f"    %zero = {_matched('arith.constant')} attributes{{value = 0 : index}} in %arg0 : ({_ANY}) -> {_ANY}\n",
        "    %least, %threads = transform.structured.tile_using_forall %tile tile_sizes [0, %zero, 0]"
        f" : ({_ANY}, {_ANY}) -> ({_ANY}, {_ANY})\n",
    )
    return Planted(_with(parts, at, *ops, amid=amid), "tile_using_forall")


def slow(text: str, old: str, new: str) -> Planted:
    """A step with another text for a pattern of its own, and a step without effect beside most other ones."""
    parts = Text.of(text)
    number = next(n for n, op in enumerate(parts.ops) if re.search(old, op))
    op = re.sub(old, new, parts.ops[number])
    others = replace(parts, ops=(*parts.ops[:number], *parts.ops[number + 1 :]))
    held = op.strip().split(" : ")[0].split(" = ", 1)[-1] if op.lstrip().startswith("%") else op.split()[0]
    return Planted(_with(others, number, op, amid=True), held.split(" %")[0])


def _matched(kind: str) -> str:
    return f'transform.structured.match ops{{["{kind}"]}}'


def _with(parts: Text, at: int, *planted: str, amid: bool) -> str:
    """The schedule with ops behind its first `at`, and, where they come `amid` others, with one without effect at other places too."""
    ops = [*parts.ops[:at], *planted, *parts.ops[at:]]
    for place in range(len(ops), 0, -1) if amid else ():
        if not at <= place <= at + len(planted):
            ops.insert(place, f"    %same{place} = {_matched('func.func')} in %arg0 : ({_ANY}) -> {_ANY}\n")
    return "".join((parts.head, *ops, parts.tail))
