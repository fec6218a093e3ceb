# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums of products of codes by numbers from -127 to 127, by instructions that multiply bytes."""

from __future__ import annotations

from tilewright.build.constants import constant, integer, zero
from tilewright.build.vectors import bits_as, fixed, intrinsic
from tilewright.codegen.scaled_sums.registers import Order
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.schedules.models.codes import Codes
from tilewright.targets.code_dots import DEPTH, CodeDot

_LOW = 0x0F
_SIGN, _SIGNS = 0x80, 0x88
"""The sign of a code of eight bits, and those of two codes of four bits in a byte."""
_IN_16 = 8
"""Sums of two products of codes of four bits, 2 · 15 · 127 each, that may be added up in 16 bits."""


class CodeSums:
    """How codes are multiplied as bytes: a code, less its zero point, is such a byte less `offset`.

    A register of codes in memory becomes `ways` registers of bytes: one of codes of eight bits; of four bits those in lower halves of
    bytes, and those in upper halves. Each word of 32 bits, of whose products one lane is the sum, then has neighbors along K.

    Attributes:
        bytes: Of a register.
        ways: Registers of bytes that one of codes becomes.
        block: Codes of one.
        in_word: Codes of a word of 32 bits.
        offset: What bytes are more than codes less their zero point, but for an operand of zero points.
    """

    def __init__(self, codes: Codes, dot: CodeDot, lanes: int) -> None:
        """Takes how codes are stored, the instruction, and the sums of a register."""
        self._dot, self._lanes = dot, lanes
        self._is_byte = codes.bits == 8
        self.bytes, self.ways = DEPTH * lanes, 8 // codes.bits
        self.block, self.in_word = self.bytes * self.ways, DEPTH * self.ways
        from_zero = dot.unsigned and not dot.sign if self._is_byte else True
        self._flipped = (_SIGN if self._is_byte else _SIGNS) if codes.signed == from_zero else 0
        turned = (1 << codes.bits - 1) if self._flipped else 0
        self.offset = codes.zero + (turned if from_zero else -turned)

    @property
    def order(self) -> Order:
        """Of each register of bytes, the numbers of its codes in the block."""
        return [range(way, self.block, self.ways) for way in range(self.ways)]

    @property
    def is_exact(self) -> bool:
        """Whether `add` takes up sums of 32 bits."""
        return not self._dot.pairs

    @property
    def at_once(self) -> int:
        """Products that `add` takes up before `whole` is asked, at most."""
        return _IN_16

    def of(self, stored: ir.Value) -> list[ir.Value]:
        """A register of codes as registers of bytes."""
        kind = stored.type
        if self._flipped:
            stored = arith.xori(stored, constant(kind, self._flipped - 256))
        if self._is_byte:
            return [stored]
        pairs = bits_as(stored, integer(16))
        upper = bits_as(arith.shrui(pairs, constant(pairs.type, 4)), integer(8))
        return [arith.andi(each, constant(kind, _LOW)) for each in (stored, upper)]

    def add(self, held: ir.Value | None, codes: ir.Value, rounded: ir.Value) -> ir.Value:
        """Products added to what is held, if anything is yet."""
        dot, sums = self._dot, fixed(self._lanes, integer(32))
        if not dot.pairs:
            return intrinsic(dot.intrinsic, sums, zero(sums) if held is None else held, codes, rounded)
        if self._is_byte:
            # Magnitudes of codes, to 128, by numbers with their signs: 2 * 128 * 127 is less than 2**15.
            size = intrinsic(dot.sign, codes.type, codes, codes)
            rounded, codes = intrinsic(dot.sign, codes.type, rounded, codes), size
        some = intrinsic(dot.intrinsic, fixed(2 * self._lanes, integer(16)), codes, rounded)
        if self._is_byte:
            some = self._in_pairs(some)
        return some if held is None else arith.addi(held, some)

    def whole(self, held: ir.Value, total: ir.Value | None = None) -> ir.Value:
        """What is held as sums of 32 bits, added to others."""
        if self._dot.pairs and not self._is_byte:
            held = self._in_pairs(held)
        return held if total is None else arith.addi(total, held)

    def _in_pairs(self, products: ir.Value) -> ir.Value:
        return intrinsic(self._dot.pairs, fixed(self._lanes, integer(32)), products, constant(products.type, 1))

    def of_ones(self, rounded: ir.Value, held: ir.Value | None) -> ir.Value:
        """The sums of `rounded` themselves, as if codes were ones, added to what is held."""
        return self.add(held, constant(rounded.type, 1), rounded)
