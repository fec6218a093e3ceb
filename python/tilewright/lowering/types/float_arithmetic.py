# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic on floats, or on vectors of them, of which functions are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, nan

from tilewright.build.constants import element_of
from tilewright.build.usedef import named, replace
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.1219444005469057e-4
"""ln 2 in two parts: 9 bits, so that n times the first is exact, and the rest."""
_TO_WHOLE = 1.5 * 2.0**23
"""Added to a number below 2**22, it leaves the nearest whole number in the last bits."""
_EXP = (0.4999999701976776, 0.16666539013385773, 0.04166722297668457, 0.008367180824279785, 0.0013882393250241876)


class Numbers:
    """Arithmetic on f32, or on each element of a vector of them.

    Attributes:
        mantissa: Bits of a mantissa.
        least: The least normal number.
        root: The bits of a number near sqrt(1/2): mantissas are taken from there on.
        exp_range: Beyond these, exp is 0 or Inf, also after rounding.
        tanh_one: From here on, tanh is 1.
    """

    mantissa = 23
    least = 2.0**-126
    root = 0x3F2AAAAB  # 2/3
    exp_range = -104.5, 89.5
    tanh_one = 10.0

    def __init__(self, kind: ir.Type, target: Target | GpuTarget) -> None:
        """Takes the type of the numbers, and what computes with them."""
        self.floats = kind
        self._float = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
        self._integer = ir.IntegerType.get_signless(ir.FloatType(self._float).width)
        self.integers: ir.Type = self._integer
        if isinstance(kind, ir.VectorType):
            self.integers = ir.VectorType.get(kind.shape, self._integer, scalable=kind.scalable_dims)
        self._fused = target.fuses

    def number(self, value: float) -> ir.Value:
        """A constant, in each element."""
        return self._constant(self.floats, ir.FloatAttr.get(self._float, value))

    def integer(self, value: int) -> ir.Value:
        """The same of integers as wide as the numbers."""
        return self._constant(self.integers, ir.IntegerAttr.get(self._integer, value))

    def _constant(self, kind: ir.Type, value: ir.Attribute) -> ir.Value:
        return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, value) if kind != value.type else value)

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        """x·y + z, rounded once where the target can."""
        return math.fma(x, y, z) if self._fused else arith.addf(arith.mulf(x, y), z)

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """The sum of coefficients[i]·x**i."""
        *rest, value = (self.number(each) for each in coefficients)
        for each in reversed(rest):
            value = self.fma(value, x, each)
        return value

    def at_most(self, x: ir.Value, limit: float) -> ir.Value:
        """The smaller number; x where it is NaN."""
        return self._bounded(arith.CmpFPredicate.OGT, x, limit)

    def at_least(self, x: ir.Value, limit: float) -> ir.Value:
        """The larger number; x where it is NaN."""
        return self._bounded(arith.CmpFPredicate.OLT, x, limit)

    def _bounded(self, beyond: arith.CmpFPredicate, x: ir.Value, limit: float) -> ir.Value:
        bound = self.number(limit)
        return arith.select(arith.cmpf(beyond, x, bound), bound, x)

    def reduced(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The whole number n, as an integer, and p = exp(r) - 1."""
        shift = self.number(_TO_WHOLE)
        shifted = self.fma(x, self.number(_LOG2_E), shift)
        whole = arith.subf(shifted, shift)
        r = self.fma(whole, self.number(-LN2_LOW), self.fma(whole, self.number(-LN2_HIGH), x))
        p = self.fma(arith.mulf(r, r), self.polynomial(r, _EXP), r)
        return arith.subi(arith.bitcast(self.integers, shifted), arith.bitcast(self.integers, shift)), p

    def power(self, n: ir.Value) -> ir.Value:
        """2**n, for n from -126 to 127."""
        return arith.bitcast(self.floats, arith.shli(arith.addi(n, self.integer(127)), self.integer(23)))

    def expm1(self, x: ir.Value) -> ir.Value:
        """exp(x) - 1, for x from -87 to 87."""
        n, p = self.reduced(x)
        power = self.power(n)
        return self.fma(p, power, arith.subf(power, self.number(1.0)))

    def exp(self, x: ir.Value) -> ir.Value:
        """The exponential of x."""
        least, most = self.exp_range
        n, p = self.reduced(self.at_most(self.at_least(x, least), most))
        # In two steps, as 2**n itself may be beyond the range.
        half = arith.shrsi(n, self.integer(1))
        first, second = self.power(half), self.power(arith.subi(n, half))
        return arith.mulf(self.fma(p, first, first), second)

    def tanh(self, x: ir.Value) -> ir.Value:
        """The hyperbolic tangent of x."""
        magnitude = self.at_most(math.absf(x), self.tanh_one)
        u = self.expm1(arith.addf(magnitude, magnitude))
        return math.copysign(arith.divf(u, arith.addf(u, self.number(2.0))), x)

    def log(self, x: ir.Value, of_mantissa: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """The logarithm of x = 2**e · (1 + f), which `of_mantissa` computes from e and f."""
        zero, width = self.number(0.0), self.integer(self.mantissa)
        small = arith.cmpf(arith.CmpFPredicate.OLT, x, self.number(self.least))
        normal = arith.select(small, arith.mulf(x, self.number(2.0**self.mantissa)), x)
        bits = arith.bitcast(self.integers, normal)
        steps = arith.shrsi(arith.subi(bits, self.integer(self.root)), width)
        fraction = arith.bitcast(self.floats, arith.subi(bits, arith.shli(steps, width)))
        exponent = arith.sitofp(self.floats, steps)
        exponent = arith.select(small, arith.subf(exponent, self.number(float(self.mantissa))), exponent)
        value = of_mantissa(exponent, arith.subf(fraction, self.number(1.0)))
        # NaN and +Inf stay themselves; below zero is NaN, and zero -Inf.
        value = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, x, self.number(inf)), value, x)
        value = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, x, zero), self.number(nan), value)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, zero), self.number(-inf), value)


def write_out(
    module: ir.Operation, kind: type[ir.Type], functions: Mapping[str, Callable[[ir.Operation], ir.Value]]
) -> bool:
    """Writes out the functions of elements of one type in `module`; says whether functions of another type are left."""
    left = False
    for op in named(module, *functions):
        if not isinstance(element_of(op.operands[0]), kind):
            left = True
            continue
        with ir.InsertionPoint(op), op.location:
            replace(op, functions[op.name](op))
    return left
