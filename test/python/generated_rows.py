# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random specs whose result needs whole rows, or two products in one loop: a part of `generated`."""

from __future__ import annotations

import random
from typing import Any

import matrix
import tilewright as tw
from matrix import run

__all__ = ["draw", "run"]

_FORMS = (tw.softmax, tw.row_sum, tw.row_max)


def _epilogue(chance: random.Random, drawn: matrix.Drawn) -> tuple[Any, ...]:
    """A gated linear unit, a form of rows, or both, with up to two entries of single elements between."""
    acc = drawn["types"].acc
    gated = acc == "f32" and chance.random() < 0.4
    entries: list[Any] = [tw.glu(chance.choice(("silu", "gelu")))] if gated else []
    if acc == "i32":
        entries.append(chance.choice(matrix.DEQUANTIZE)(chance))
    entries += [each(chance) for each in chance.choices(matrix.FLOAT_ENTRIES, k=chance.randint(0, 2))]
    if not gated or chance.random() < 0.5:
        entries.append(chance.choice(_FORMS)())
    return tuple(entries)


_OWN = {"epilogue": _epilogue, "threads": lambda r, _: 2 if r.random() < 0.15 else 1}
_AXES: matrix.Axes = tuple((name, _OWN.get(name, of)) for name, of in matrix.AXES)


def draw(seed: int) -> matrix.Case:
    """The case of a seed."""
    return matrix.draw(seed, _AXES)
