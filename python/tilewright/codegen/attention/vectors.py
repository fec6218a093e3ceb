# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic on vectors of f32 that fill a register: multiply-adds, powers of two, transposes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.build.constants import integer, numbers
from tilewright.build.index import Index
from tilewright.build.index import value as index_value
from tilewright.build.vectors import fixed
from tilewright.lowering.types.float_arithmetic import Numbers
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import EXP2, LOWEST
from tilewright.targets.base import Target

_TO_WHOLE = 1.5 * 2.0**23
"""Added to a number below 2**22, it leaves the nearest whole number in the last bits."""
_MANTISSA = 23
_LEAST_POWER = -126.0


Values = list[ir.Value]


class Vectors(Numbers):
    """Vectors of `lanes` numbers.

    Attributes:
        lanes: Elements of a vector.
    """

    def __init__(self, lanes: int, target: Target, degree: int) -> None:
        """Takes the degree of the polynomial for powers of two, a key of `EXP2`, too."""
        super().__init__(fixed(lanes, ir.F32Type.get()), target)
        self.lanes, self._degree = lanes, degree

    def of(self, element: str) -> ir.VectorType:
        """The type of a vector with an element for each lane."""
        return fixed(self.lanes, ir.Type.parse(element))

    def counting(self) -> ir.Value:
        """0, 1, 2, … of i32."""
        return numbers(integer(32), range(self.lanes))

    def splat_index(self, value: Index) -> ir.Value:
        """An index broadcast to each lane, as i32."""
        return vector.broadcast(self.integers, arith.index_cast(integer(32), index_value(value)))

    def larger(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """The larger one; y where x is NaN."""
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, y), x, y)

    def exp2(self, difference: ir.Value, factor: float) -> ir.Value:
        """2 to the power of difference·factor, which is not above zero; exactly 0 below 2**-126, and NaN of NaN.

        With d·factor = n + r, n whole and |r| <= 1/2, a polynomial gives 2**r; n is added to its exponent.
        """
        scale, shift = self.number(factor), self.number(_TO_WHOLE)
        shifted = self.fma(difference, scale, shift)
        whole = arith.subf(shifted, shift)
        part = self.fma(difference, scale, arith.negf(whole))
        value = self.polynomial(part, EXP2[self._degree])
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

        Each round joins vectors that lie half of them apart: lanes that stay where they are are blended, which costs less than a shuffle.
        """
        rows = list(rows)
        lanes = range(self.lanes)
        while (half := len(rows) // 2) > 0:
            stay = [lane + self.lanes * bool(lane & half) for lane in lanes]
            move = [(lane ^ half) + self.lanes * bool(lane & half) for lane in lanes]
            rows = [
                arith.addf(*(vector.shuffle(rows[row], rows[row + half], mask) for mask in (stay, move)))
                for row in range(half)
            ]
        return rows[0]

    def spread(
        self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value], distances: Sequence[int]
    ) -> ir.Value:
        """Lanes whose numbers differ by sums of `distances`, powers of two, reduced by `join`, in each of them."""
        for distance in distances:
            value = join(value, vector.shuffle(value, value, [lane ^ distance for lane in range(self.lanes)]))
        return value
