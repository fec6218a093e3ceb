# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of elements along K that share a scale and a zero point, for prologues that dequantize.

Group g of a column of B, or of a row of A, has the elements k with k // group == g; the last one may be short. An operand with
an element for each group follows its matrix: it is stored transposed where that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.dims import Dim, Extent
from tilewright.dtypes import dtype
from tilewright.entries import Epilogue, Operand
from tilewright.errors import SpecError
from tilewright.expressions import Program, Step

UNIT = 16
"""Every group is a multiple of it: so many elements of a vector, along K, then have one scale."""
NARROW = "bf16"
"""The default type of multiplication if A is stored in eight bits or less."""


def count(k: Extent, group: int) -> Extent:
    """How many groups `k` elements are, the last of which may be short."""
    return Dim() if isinstance(k, Dim) else -(-k // group)


def settled(entries: Sequence[Epilogue], other: str) -> tuple[Epilogue, ...]:
    """A prologue of which the last entry leaves `other`, when it is one that follows what is multiplied.

    Where `other` is no float of at least 16 bits, it leaves `NARROW`.
    """
    if not entries or not entries[-1].follows:
        return tuple(entries)
    row = dtype(other)
    element = other if row.kind == "float" and row.bits >= 16 else NARROW
    *before, last = entries
    steps = last.program.steps
    program = Program((*steps, Step("convert", (len(steps) - 1,), element)))
    return (*before, replace(last, program=program, follows=False))


def grouped(operands: Sequence[Operand]) -> bool:
    """Whether any of them has an element for each group."""
    return any(each.group for each in operands)


def check(operands: Sequence[Operand], k: Any, where: str) -> None:  # noqa: ANN401 - an extent
    """Checks that K can be split into the groups of `operands`.

    Raises:
        SpecError: K is dynamic, or a group is not a multiple of `UNIT`.
    """
    for each in operands:
        if each.group and isinstance(k, Dim):
            remedy = "Compile one kernel for each K"
            raise SpecError("groups along a dynamic k", where=where, expected="a size", remedy=remedy)
        if each.group % UNIT:
            raise SpecError(f"groups of {each.group} elements", where=where, expected=f"a multiple of {UNIT}")
