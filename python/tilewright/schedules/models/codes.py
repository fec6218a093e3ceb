# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers in few bits that stand for floats, as a prologue of B dequantizes them: an element is (code - zero point) · scale."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import dtype
from tilewright.entries import Operand
from tilewright.spec import MatmulSpec

_MOST_ZERO = 255
"""A zero point of eight bits at most: a code less such a one is exact in f32, and so is its sum with a power of two."""
_ZERO_TYPES = ("i4", "u4", "i8", "u8")
_FRACTIONS = ("f32", "f16", "bf16")
"""Types of zero points that no code less such a one is exact with."""
_EXACT_IN_BF16 = 256


@dataclass(frozen=True, slots=True)
class Codes:
    """How elements of B are dequantized.

    Attributes:
        bits: Of a code.
        signed: Whether codes have a sign.
        scale: The operand of scales.
        zero: What is taken from each code, where that is one number.
        zero_point: The operand of zero points; None where there is none.
    """

    bits: int
    signed: bool
    scale: Operand
    zero: int = 0
    zero_point: Operand | None = None

    @property
    def group(self) -> int:
        """Elements along K that have one scale; 0: all of a column."""
        return self.scale.group

    @property
    def has_fractions(self) -> bool:
        """Whether zero points are floats."""
        return self.zero_point is not None and self.zero_point.type in _FRACTIONS

    @property
    def values(self) -> tuple[int, ...]:
        """What each code stands for, but for the scale and the operand of zero points, in the order of their bits."""
        count = 1 << self.bits
        return tuple(code - (count if self.signed and 2 * code >= count else 0) - self.zero for code in range(count))

    @property
    def zeros(self) -> tuple[int, int]:
        """The least and the largest zero point that an operand can have; without one 0."""
        if self.zero_point is None:
            return (0, 0)
        bits = dtype(str(self.zero_point.type)).bits
        return (
            (0, (1 << bits) - 1)
            if dtype(str(self.zero_point.type)).kind == "uint"
            else (-1 << bits - 1, (1 << bits - 1) - 1)
        )

    @property
    def in_bf16(self) -> bool:
        """Whether bf16 holds each code less its zero point."""
        least, most = self.zeros
        return min(self.values) - most >= -_EXACT_IN_BF16 and max(self.values) - least <= _EXACT_IN_BF16


def of(spec: MatmulSpec) -> Codes | None:
    """How the prologue of `spec` dequantizes B; None where it does something else, or there is none.

    The scale is of a column, or of the elements of one that form a group: it may multiply their sum.
    """
    entries, stored = spec.chain_b.entries, spec.b_stored
    if (
        len(entries) != 1
        or stored.kind not in ("int", "uint")
        or stored.bits not in (4, 8)
        or entries[0].entry.form != "each"
    ):
        return None
    steps, operands = entries[0].entry.program.steps, entries[0].operands
    texts = [str(each) for each in steps]
    if texts and steps[-1].op == "convert" and steps[-1].arguments == (len(steps) - 2,):
        texts.pop()
    signed = stored.kind == "int"
    if texts == ["value", "operand 0", "multiply(%0, %1)"]:
        found = Codes(stored.bits, signed, operands[0])
    elif texts == ["value", "operand 1", "subtract(%0, %1)", "operand 0", "multiply(%2, %3)"]:
        found = Codes(stored.bits, signed, operands[0], zero_point=operands[1])
    elif len(texts) > 1 and texts == ["value", texts[1], "subtract(%0, %1)", "operand 0", "multiply(%2, %3)"]:
        number = steps[1].detail
        if steps[1].op != "constant" or not number.lstrip("-").isdigit() or abs(int(number)) > _MOST_ZERO:
            return None
        found = Codes(stored.bits, signed, operands[0], zero=int(number))
    else:
        return None
    zero = found.zero_point
    alike = zero is None or (
        zero.type in (*_ZERO_TYPES, *_FRACTIONS) and (zero.axes, zero.group) == (found.scale.axes, found.group)
    )
    return found if alike and found.scale.axes in ("gn", "n") else None
