# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""exp, log, tanh and erf of f64, written out on vectors and scalars: the C library has them for one number at a time, and GPUs have none.

As those of f32 (`math_functions`), with longer polynomials:

- exp(r) - 1 for |r| <= ln 2 / 2 is Taylor's polynomial of degree 13, which leaves 2**-57 of it;
- log(1 + f) for 1 + f from 1/sqrt(2) to sqrt(2), with s = f / (2 + f), is f - (h - s·(h + R)) with h = f²/2 and
  R = 2·(s²/3 + s⁴/5 + ...), the series of 2·artanh(s), of which twelve terms leave 2**-60;
- erf(x) is x + x·P(x²) up to 1, and 1 - exp(-x²)·Q(t) with t = (x - 3)/(x + 3) from there to 6, after which it is 1. P and Q interpolate
  at Chebyshev's nodes, computed with 70 digits, and leave 2**-55 of erf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import factorial
from types import MappingProxyType

from tilewright.lowering.types.float_arithmetic import Numbers, write_out
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_STEPS = frozenset({"exp", "log", "tanh", "erf"})
_LOG2_E = 1.4426950408889634
# ln 2 in two parts: 32 bits, so that n times the first is exact, and the rest.
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_TO_WHOLE = 1.5 * 2.0**52
"""Added to a number below 2**51, it leaves the nearest whole number in the last bits."""
_EXP = tuple(1 / factorial(k) for k in range(2, 14))
_LOG = tuple(2 / (2 * k + 1) for k in range(1, 13))
_ERF_NEAR = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
_ERF_FAR = (
    0.17900115118138996,
    -0.3262335600430372,
    0.2456038017123309,
    -0.15011593650077742,
    0.07166583719797347,
    -0.024392499318655416,
    0.004269136333148302,
    0.0007077464385177353,
    -0.0005970619586158305,
    4.5255298034073955e-05,
    6.405673342206844e-05,
    -1.2860318447907675e-05,
    -7.979817704348727e-06,
    2.1169509641489688e-06,
    1.2598817267482604e-06,
    -2.7269500546476834e-07,
    -2.389387463474792e-07,
    -2.5925894581233316e-08,
)
_NEAR, _MIDDLE, _MOST_ERF = 1.0, 3.0, 6.0


class Doubles(Numbers):
    """Arithmetic on f64, or on each element of a vector of them."""

    mantissa = 52
    least = 2.0**-1022
    root = 0x3FE6A09E667F3BCD  # 1/sqrt(2)
    exp_range = -746.0, 710.0
    tanh_one = 20.0

    def reduced(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The whole number n, as an integer, and p = exp(r) - 1."""
        shift = self.number(_TO_WHOLE)
        shifted = self.fma(x, self.number(_LOG2_E), shift)
        whole = arith.subf(shifted, shift)
        r = self.fma(whole, self.number(-_LN2_LOW), self.fma(whole, self.number(-_LN2_HIGH), x))
        p = self.fma(arith.mulf(r, r), self.polynomial(r, _EXP), r)
        return arith.subi(arith.bitcast(self.integers, shifted), arith.bitcast(self.integers, shift)), p

    def power(self, n: ir.Value) -> ir.Value:
        """2**n, for n from -1022 to 1023."""
        return arith.bitcast(self.floats, arith.shli(arith.addi(n, self.integer(1023)), self.integer(52)))


def _erf(numbers: Numbers, x: ir.Value) -> ir.Value:
    magnitude = numbers.at_most(math.absf(x), _MOST_ERF)
    square, middle = arith.mulf(magnitude, magnitude), numbers.number(_MIDDLE)
    near = numbers.fma(magnitude, numbers.polynomial(square, _ERF_NEAR), magnitude)
    t = arith.divf(arith.subf(magnitude, middle), arith.addf(magnitude, middle))
    n, p = numbers.reduced(arith.negf(square))
    power = numbers.power(n)
    fall = numbers.fma(p, power, power)
    one = numbers.number(1.0)
    far = numbers.fma(arith.negf(fall), numbers.polynomial(t, _ERF_FAR), one)
    is_near = arith.cmpf(arith.CmpFPredicate.OLT, magnitude, numbers.number(_NEAR))
    # Beyond the last one nothing is left; NaN is below no number.
    return math.copysign(arith.select(is_near, near, far), x)


def _log(numbers: Numbers, x: ir.Value) -> ir.Value:
    def of_mantissa(exponent: ir.Value, f: ir.Value) -> ir.Value:
        s = arith.divf(f, arith.addf(f, numbers.number(2.0)))
        square = arith.mulf(s, s)
        half = arith.mulf(arith.mulf(f, f), numbers.number(0.5))
        series = arith.mulf(square, numbers.polynomial(square, _LOG))
        rest = numbers.fma(s, arith.addf(half, series), arith.mulf(exponent, numbers.number(_LN2_LOW)))
        return numbers.fma(exponent, numbers.number(_LN2_HIGH), arith.subf(f, arith.subf(half, rest)))

    return numbers.log(x, of_mantissa)


FUNCTIONS: Mapping[str, Callable[[Numbers, ir.Value], ir.Value]] = MappingProxyType(
    {"math.exp": Numbers.exp, "math.log": _log, "math.tanh": Numbers.tanh, "math.erf": _erf}
)


def of(spec: MatmulSpec) -> bool:
    """Whether an epilogue or a prologue computes functions of f64."""
    return any(
        each.compute == "f64"
        and any(
            entry.entry.form == "softmax" or _STEPS & {step.op for step in entry.entry.program.steps}
            for entry in each.entries
        )
        for each in (spec.chain_a, spec.chain_b, spec.chain)
    )


def expand(module: ir.Operation, target: Target | GpuTarget) -> bool:
    """Writes out the functions of f64 in `module`; says whether functions of another type are left."""

    def written(function: Callable[[Numbers, ir.Value], ir.Value], op: ir.Operation) -> ir.Value:
        return function(Doubles(op.operands[0].type, target), op.operands[0])

    return write_out(module, ir.F64Type, {name: partial(written, each) for name, each in FUNCTIONS.items()})
