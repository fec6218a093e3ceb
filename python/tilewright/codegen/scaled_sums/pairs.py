# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Codes of four bits as bf16, those of two rows side by side, for an instruction that adds two products.

Halves of words of two rows are interleaved as VPUNPCKLWD and VPUNPCKHWD do, in each 128 bits; each is then an index as it is, shifted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import integer, numbers
from tilewright.build.vectors import bits_as, intrinsic
from tilewright.codegen.scaled_sums.quantized import Bytes, Multiplier, Read, Words
from tilewright.codegen.scaled_sums.registers import Order
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.models.codes import Codes
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot
from tilewright.targets.lookups import lookup

_CODES, _WAYS = 8, 4
"""In a word, and in half of one."""


class Pairs:
    """Codes that have no zero points of their own."""

    depth = 2
    spread = 0

    def __init__(self, codes: Codes, dot: Dot, name: str, lanes: int) -> None:
        """Takes the instruction, and the name of the look-up of 16 bits."""
        self._codes, self._dot, self._name, self._lanes, self._halves = codes, dot, name, lanes, 2 * lanes
        self.order: Order = [
            [32 * (lane // 4) + 16 * half + 4 * (lane % 4) + way for lane in range(lanes)]
            for half in (0, 1)
            for way in range(_WAYS)
        ]

    def elements(self, read: Read, row: int, part: Sequence[int], zeros: Sequence[ir.Value] | None) -> list[ir.Value]:
        """As the protocol says."""
        words = self._words(read, row, part)
        table = self._table([float(each) for each in self._codes.values])
        return [self._looked_up(table, words[each // _WAYS], 4 * (each % _WAYS)) for each in part]

    def _words(self, read: Read, row: int, part: Sequence[int]) -> dict[int, ir.Value]:
        """Halves of words of two rows, side by side: their lower parts, their upper ones, or both."""
        count = self._halves
        upper, lower = (bits_as(read(row + each, 0, _CODES * self._lanes), integer(16)) for each in (0, 1))
        found = {}
        for half in sorted({each // _WAYS for each in part}):
            lanes = [8 * p + 4 * half + d + count * r for p in range(count // 8) for d in range(4) for r in (0, 1)]
            found[half] = vector.shuffle(upper, lower, lanes)
        return found

    def _table(self, values: Sequence[float]) -> ir.Value:
        return bits_as(numbers(ir.BF16Type.get(), [*values] * (self._halves // len(values))), integer(16))

    def _looked_up(self, table: ir.Value, words: ir.Value, shift: int) -> ir.Value:
        if shift:
            words = arith.shrui(words, numbers(integer(16), [shift] * self._halves))
        return bits_as(intrinsic(self._name, table.type, table, words), ir.BF16Type.get())

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """None."""
        return []

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As the protocol says."""
        return intrinsic(self._dot.intrinsic, total.type, total, left, right)


class PairsLessZeros(Pairs):
    """Codes less zero points that are codes themselves: from -15 to 15, which five bits of an index tell apart.

    Every other code of a word is a byte of its own, from which a byte of zero points is subtracted.
    """

    spread = 2

    def elements(self, read: Read, row: int, part: Sequence[int], zeros: Sequence[ir.Value] | None) -> list[ir.Value]:
        """As the protocol says."""
        assert zeros is not None
        words, less = self._words(read, row, part), {}
        for half, odd in sorted({(each // _WAYS, each % 2) for each in part}):
            source = words[half]
            if odd:
                source = arith.shrui(source, numbers(integer(16), [4] * self._halves))
            codes = arith.andi(source, numbers(integer(16), [0x0F0F] * self._halves))
            if self._codes.signed:  # 8 more
                codes = arith.xori(codes, numbers(integer(16), [0x0808] * self._halves))
            difference = arith.subi(bits_as(codes, integer(8)), zeros[2 * half + odd])
            less[half, odd] = bits_as(difference, integer(16))
        table = self._table([float(each if each < 16 else each - 32) for each in range(32)])
        return [self._looked_up(table, less[each // _WAYS, each % 2], 8 if each % _WAYS > 1 else 0) for each in part]

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """As the protocol says."""
        whole = more(read(0, 0, _CODES * self._lanes), self._codes)
        found = []
        for half in (0, 1):
            for odd in (0, 1):
                columns = [32 * (w // 8) + 16 * half + 4 * (w % 8 // 2) + odd for w in range(self._halves)]
                found.append(vector.shuffle(whole, whole, [column + by for column in columns for by in (0, 2)]))
        return found


def more(zeros: ir.Value, codes: Codes) -> ir.Value:
    """Zero points as bytes, of codes with a sign 8 more: those that are codes are then below 16."""
    count = ir.VectorType(zeros.type).shape[0]
    return arith.addi(zeros, numbers(integer(8), [8] * count)) if codes.signed else zeros


def multiplier(
    codes: Codes, stored: DType, multiplied: DType, target: Target, lanes: int, registers: int
) -> Multiplier:
    """How rows of codes are multiplied by elements of type `multiplied` best."""
    if codes.bits == 8:
        return Bytes(codes, stored, lanes, registers)
    found = _pairs(codes, multiplied, target)
    if found is not None and codes.in_bf16 and codes.zero_point is None:
        return Pairs(codes, *found, lanes)
    return Words(codes, target, lanes)


def quicker(codes: Codes, multiplied: DType, target: Target, lanes: int) -> Multiplier | None:
    """The same where all zero points of an operand are codes; None where that is no better."""
    found = _pairs(codes, multiplied, target)
    if found is None or codes.zero_point is None or (codes.signed and codes.zero_point.type != "i8"):
        return None
    return PairsLessZeros(codes, *found, lanes)


def _pairs(codes: Codes, multiplied: DType, target: Target) -> tuple[Dot, str] | None:
    """The instruction for pairs of bf16, of which two are an f16, and the name of the look-up."""
    dot, found = target.dot_along_k("bf16", "bf16"), lookup(target, 16)
    if multiplied.name not in ("bf16", "f16"):
        return None
    if codes.bits != 4 or found is None or dot is None or dot.depth != 2 or not dot.adds:
        return None
    return dot, found.intrinsic
