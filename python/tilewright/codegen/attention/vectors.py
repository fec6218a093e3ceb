# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic on vectors of f32 that fill a register: multiply-adds, powers of two, transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build.constants import constant, integer, numbers
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math, vector
from tilewright.payload.attention_numbers import EXP2, LOWEST

_TO_WHOLE = 1.5 * 2.0**23
"""Added to a number below 2**22, it leaves the nearest whole number in the last bits."""
_MANTISSA = 23
_LEAST_POWER = -126.0


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of `lanes` numbers.

    Attributes:
        lanes: Elements of a vector.
        fused: Whether the target has a multiply-add that rounds once.
        degree: That of the polynomial for powers of two: a key of `EXP2`.
    """

    lanes: int
    fused: bool
    degree: int

    @property
    def floats(self) -> ir.Type:
        """The type of f32."""
        return self.of("f32")

    @property
    def integers(self) -> ir.Type:
        """The type of i32."""
        return self.of("i32")

    def of(self, element: str, count: int | None = None) -> ir.Type:
        """A vector type of `count` elements, by default one for each lane."""
        return ir.VectorType.get([count or self.lanes], ir.Type.parse(element))

    def number(self, value: float) -> ir.Value:
        """A constant of f32 in each lane."""
        return constant(self.floats, value)

    def integer(self, value: int) -> ir.Value:
        """A constant of i32 in each lane."""
        return constant(self.integers, value)

    def counting(self) -> ir.Value:
        """0, 1, 2, … of i32."""
        return numbers(integer(32), range(self.lanes))

    def splat(self, value: ir.Value) -> ir.Value:
        """A number broadcast to each lane."""
        return vector.broadcast(ir.VectorType.get([self.lanes], value.type), value)

    def splat_index(self, value: ir.Value) -> ir.Value:
        """An index broadcast to each lane, as i32."""
        return self.splat(arith.index_cast(ir.IntegerType.get_signless(32), value))

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x·y + z."""
        return math.fma(x, y, z) if self.fused else arith.addf(arith.mulf(x, y), z)

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger one; y where x is NaN."""
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, y), x, y)

    def power(self, difference: ir.Value, factor: float) -> ir.Value:
        """2 to the power of difference·factor, which is not above zero; exactly 0 below 2**-126, and NaN of NaN.

        With d·factor = n + r, n whole and |r| <= 1/2, a polynomial gives 2**r; n is added to its exponent.
        """
        scale, shift = self.number(factor), self.number(_TO_WHOLE)
        shifted = self.fma(difference, scale, shift)
        whole = arith.subf(shifted, shift)
        part = self.fma(difference, scale, arith.negf(whole))
        *others, value = (self.number(each) for each in EXP2[self.degree])
        for each in reversed(others):
            value = self.fma(value, part, each)
        exponent = arith.shli(arith.bitcast(self.integers, shifted), self.integer(_MANTISSA))
        power = arith.bitcast(self.floats, arith.addi(arith.bitcast(self.integers, value), exponent))
        tiny = self.number(max(_LEAST_POWER / factor, LOWEST))
        return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, difference, tiny), self.number(0.0), power)

    def pairs(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Two vectors of f32, none below zero, rounded to bf16 (halves up), as pairs: the first in the lower half of each i32.

        Rounding by the conversion instruction would want two conversions and two shuffles.
        """
        half = self.integer(0x8000)
        low, high = (arith.addi(arith.bitcast(self.integers, each), half) for each in (first, second))
        low = arith.shrui(low, self.integer(16))
        return arith.ori(low, arith.andi(high, self.integer(-0x10000)))

    def transposed(self, rows: Sequence[ir.Value]) -> list[ir.Value]:
        """A square of vectors transposed: each round interleaves the vectors of the two halves."""
        found: list[ir.Value] = list(rows)
        half = self.lanes // 2
        low = [each for lane in range(half) for each in (lane, self.lanes + lane)]
        high = [each + half for each in low]
        for _ in range(self.lanes.bit_length() - 1):
            found = [vector.shuffle(found[row], found[row + half], mask) for row in range(half) for mask in (low, high)]
        return found

    def sums_of(self, rows: Sequence[ir.Value]) -> ir.Value:
        """Of as many vectors as there are lanes, the sum of the elements of vector i in lane i.

        Each round adds the interleaved halves of two vectors that lie half of them apart.
        """
        rows = list(rows)
        low = [each for lane in range(self.lanes // 2) for each in (lane, self.lanes + lane)]
        high = [each + self.lanes // 2 for each in low]
        while len(rows) > 1:
            half = len(rows) // 2
            rows = [
                arith.addf(*(vector.shuffle(rows[row], rows[row + half], mask) for mask in (low, high)))
                for row in range(half)
            ]
        return rows[0]

    def spread(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """All lanes reduced by `join`, in each lane."""
        distance = 1
        while distance < self.lanes:
            value = join(value, vector.shuffle(value, value, [lane ^ distance for lane in range(self.lanes)]))
            distance *= 2
        return value
