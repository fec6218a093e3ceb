# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Codes of several columns, a word of each in a lane, as what is multiplied, and A in the order that they have in their words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tilewright.build.constants import integer, numbers
from tilewright.build.vectors import bits_as, intrinsic
from tilewright.codegen.scaled_sums.quantized import Words
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.models.codes import Codes
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot
from tilewright.targets.lookups import lookup

_NIBBLES, _LOW = 0x0F0F, 15
_EVERY_BYTE = 0x01010101
_SIGNS_16 = 0x8888 - (1 << 16)


class Multiplicands(Protocol):
    """How words of codes are multiplied.

    Attributes:
        order: Of the codes of a word, their numbers in the order in which A has what they are multiplied by.
        per_way: How many of those one multiplication takes.
        element: The type as which A is multiplied.
        parts: Of how many numbers of it an element of A is the sum.
        zero_element: The type of what `zeros` gives.
        least, most: The zero points that `elements` takes; others are as near as these are.
    """

    order: Sequence[int]
    per_way: int
    element: ir.Type
    parts: int
    zero_element: ir.Type
    least: int
    most: int

    def elements(self, words: ir.Value, zeros: ir.Value | None) -> list[ir.Value]:
        """What stands for the codes of a register of words, less what `zeros` made of its zero points, in the order of `order`."""
        ...

    def zeros(self, given: ir.Value) -> ir.Value:
        """What `elements` takes for zero points, one i32 for each column."""
        ...

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """The sums and the products."""
        ...


class _Sums:
    """Sums of products by an instruction for single numbers."""

    per_way = parts = 1
    least, most = -(1 << 31), (1 << 31) - 1

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self.order: Sequence[int] = range(32 // codes.bits)
        self.element: ir.Type = ir.F32Type.get()
        self.zero_element: ir.Type = ir.F32Type.get()

    def zeros(self, given: ir.Value) -> ir.Value:
        kind = ir.VectorType.get(ir.VectorType(given.type).shape, ir.F32Type.get())
        return arith.sitofp(kind, given)

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        return vector.fma(left, right, total)


class Nibbles(_Sums):
    """Codes of four bits as f32."""

    def __init__(self, codes: Codes, target: Target, lanes: int) -> None:
        """Makes the constants that all words share."""
        super().__init__(codes)
        self._words = Words(codes, target, lanes)

    def elements(self, words: ir.Value, zeros: ir.Value | None) -> list[ir.Value]:
        """As the protocol says."""
        if zeros is not None and self._words.by_table:
            plain = self._words.elements(lambda *_: words, 0, self.order)
            return [arith.subf(each, zeros) for each in plain]
        given = None if zeros is None else self._words.for_zeros([zeros] * len(self.order))
        return self._words.elements(lambda *_: words, 0, self.order, given)


class Bytes(_Sums):
    """Codes of eight bits as f32."""

    def elements(self, words: ir.Value, zeros: ir.Value | None) -> list[ir.Value]:
        """As the protocol says."""
        shape = ir.VectorType(words.type).shape
        floats = ir.VectorType.get(shape, ir.F32Type.get())
        found = []
        for place in self.order:
            code = self._code(words, 8 * place, shape[0])
            if self._codes.zero:
                code = arith.subi(code, numbers(integer(32), [self._codes.zero] * shape[0]))
            each = arith.sitofp(floats, code)
            found.append(each if zeros is None else arith.subf(each, zeros))
        return found

    def _code(self, words: ir.Value, shift: int, lanes: int) -> ir.Value:
        if self._codes.signed:
            if shift < 24:
                words = arith.shli(words, numbers(integer(32), [24 - shift] * lanes))
            return arith.shrsi(words, numbers(integer(32), [24] * lanes))
        if shift:
            words = arith.shrui(words, numbers(integer(32), [shift] * lanes))
        return words if shift == 24 else arith.andi(words, numbers(integer(32), [255] * lanes))


class PairsOfBytes(Bytes):
    """Codes of eight bits, less a zero point, as bf16 in pairs of neighbors: bf16 holds them, so it is the upper half of f32."""

    per_way = 2

    def __init__(self, codes: Codes, dot: Dot) -> None:
        """Takes the instruction."""
        super().__init__(codes)
        self._dot = dot
        self.element: ir.Type = ir.BF16Type.get()

    def elements(self, words: ir.Value, zeros: ir.Value | None) -> list[ir.Value]:
        """As the protocol says."""
        bits = [bits_as(each, integer(32)) for each in super().elements(words, zeros)]
        half = numbers(integer(32), [16] * ir.VectorType(words.type).shape[0])
        pairs = zip(bits[::2], bits[1::2], strict=True)
        return [bits_as(arith.ori(upper, arith.shrui(lower, half)), self.element) for lower, upper in pairs]

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As the protocol says."""
        return intrinsic(self._dot.intrinsic, total.type, total, left, right)


class PairsOfNibbles:
    """Codes of four bits as bf16, in pairs: those at the same place in both halves of a word.

    Less zero points that are codes they are from -15 to 15, which five bits of an index tell apart.
    """

    order: Sequence[int] = (0, 4, 1, 5, 2, 6, 3, 7)
    per_way = 2
    least, most = 0, _LOW

    def __init__(self, codes: Codes, dot: Dot, name: str, lanes: int, parts: int) -> None:
        """Takes the instruction, the name of the look-up of 16 bits, and of how many numbers an element of A is the sum."""
        self._codes, self._dot, self._name, self._halves, self.parts = codes, dot, name, 2 * lanes, parts
        self.element: ir.Type = ir.BF16Type.get()
        self.zero_element: ir.Type = integer(32)
        if codes.signed:
            self.least, self.most = -8, 7

    def elements(self, words: ir.Value, zeros: ir.Value | None) -> list[ir.Value]:
        """As the protocol says."""
        halves = bits_as(words, integer(16))
        if zeros is None:
            table = self._table([float(each) for each in self._codes.values])
            return [self._looked_up(table, self._shifted(halves, 4 * way)) for way in range(4)]
        table = self._table([float(each if each < 16 else each - 32) for each in range(32)])
        less = []
        for odd in (0, 1):
            codes = arith.andi(self._shifted(halves, 4 * odd), self._every(_NIBBLES))
            if self._codes.signed:  # 8 more, as zero points are.
                codes = arith.xori(codes, self._every(0x0808))
            difference = arith.subi(bits_as(codes, integer(8)), bits_as(zeros, integer(8)))
            less.append(bits_as(difference, integer(16)))
        return [self._looked_up(table, self._shifted(less[way % 2], 8 * (way // 2))) for way in range(4)]

    def zeros(self, given: ir.Value) -> ir.Value:
        """As the protocol says: each in all bytes of a word."""
        lanes = ir.VectorType(given.type).shape[0]
        codes = arith.subi(given, numbers(integer(32), [self.least] * lanes)) if self.least else given
        return arith.muli(codes, numbers(integer(32), [_EVERY_BYTE] * lanes))

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As the protocol says."""
        return intrinsic(self._dot.intrinsic, total.type, total, left, right)

    def _table(self, values: Sequence[float]) -> ir.Value:
        return bits_as(numbers(ir.BF16Type.get(), [*values] * (self._halves // len(values))), integer(16))

    def _every(self, number: int) -> ir.Value:
        return numbers(integer(16), [number] * self._halves)

    def _shifted(self, halves: ir.Value, by: int) -> ir.Value:
        return arith.shrui(halves, self._every(by)) if by else halves

    def _looked_up(self, table: ir.Value, index: ir.Value) -> ir.Value:
        return bits_as(intrinsic(self._name, table.type, table, index), ir.BF16Type.get())


def multiplicands(codes: Codes, spec: MatmulSpec, target: Target, lanes: int) -> Multiplicands:
    """How codes are multiplied by A best."""
    dot, found = target.dot_along_k("bf16", "bf16"), lookup(target, 16)
    in_pairs = dot is not None and dot.depth == 2 and dot.adds
    if codes.bits == 8:
        # An f16 is two numbers of bf16: as many multiplications as of f32.
        if dot is not None and in_pairs and spec.a == "bf16" and codes.in_bf16:
            return PairsOfBytes(codes, dot)
        return Bytes(codes)
    own = codes.zero_point is not None or codes.in_bf16
    if dot is not None and found is not None and in_pairs and own and spec.a in ("bf16", "f16"):
        return PairsOfNibbles(codes, dot, found.intrinsic, lanes, 1 if spec.a == "bf16" else 2)
    return Nibbles(codes, target, lanes)
