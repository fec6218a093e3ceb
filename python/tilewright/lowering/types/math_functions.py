# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""exp, log, tanh and erf of f32, on vectors and scalars, written out as polynomials; those of f64 stay for the C library.

Upstream's approximations (``populateMathPolynomialApproximationPatterns``) can be had from C++ only, without a pass, and flush
or saturate some arguments. These are right for all: NaN, infinities, subnormal numbers, and everything beyond the range.

All rest on one reduction (W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", 1980): x = n·ln 2 + r, n
whole and |r| <= ln 2 / 2, so that exp(x) = 2**n · (1 + p) with p = exp(r) - 1 = r + r²·q(r). Then exp(x) - 1 is
2**n · p + (2**n - 1), accurate for small x too, and

- tanh(x) = u / (u + 2) with u = exp(2|x|) - 1, and the sign of x;
- erf(x) = 1 - exp(-g) with g = -log(1 - erf|x|) = |x| + |x|·h(|x|), a smooth function, and the sign of x, but with AVX-512: see
  `table_functions`;
- log(x) = e·ln 2 + log(1 + f), with x = 2**e · (1 + f) and -1/3 <= f < 1/3.

The polynomials q, h and that of log are minimax fits (Lawson's iteration), weighted by what each counts in the result: their own
error is below a tenth of half a unit in the last place. docs/reference/epilogues.md has the errors measured over all arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, nan

from tilewright.build.usedef import replace
from tilewright.lowering.types import table_functions
from tilewright.lowering.types.float_arithmetic import LN2_HIGH, LN2_LOW, Numbers
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

F64 = "builtin.module(convert-math-to-libm)"
"""What is left of f64: calls of the C library, one for each element."""

_LOG = (
    0.3333321213722229,
    -0.24999792873859406,
    0.20010609924793243,
    -0.16680759191513062,
    0.1400212198495865,
    -0.12180018424987793,
    0.1400463730096817,
    -0.12912163138389587,
)
_ERF = (
    0.1283791670955126,
    0.6366193890571594,
    0.10277783125638962,
    -0.019153060391545296,
    -0.00016040184709709138,
    0.0016670336481183767,
    -0.0006328404997475445,
    0.00011764235387090594,
    -9.256392331735697e-06,
)
_LEAST_EXP, _MOST_EXP = -104.5, 89.5
"""Beyond these, exp is 0 or Inf in f32, also after rounding."""
_MOST_TANH, _MOST_ERF = 10.0, 4.0
"""From here on, tanh and erf are 1 in f32."""


def expand(module: ir.Operation, target: Target | GpuTarget) -> bool:
    """Writes out the functions of f32 in `module`; says whether functions of f64 are left, for `F64`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in FUNCTIONS:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    left = False
    for op in found:
        element = op.operands[0].type
        element = ir.VectorType(element).element_type if isinstance(element, ir.VectorType) else element
        if not isinstance(element, ir.F32Type):
            left = True
            continue
        with ir.InsertionPoint(op), op.location:
            value = None
            if op.name == "math.erf" and "avx512f" in target.features:
                value = table_functions.erf(partial(Numbers, target=target), op.operands[0])
            if value is None:
                value = FUNCTIONS[op.name](Numbers(op.operands[0].type, target), op.operands[0])
        replace(op, value)
    return left


def _exp(numbers: Numbers, x: ir.Value) -> ir.Value:
    n, p = numbers.reduced(numbers.at_most(numbers.at_least(x, _LEAST_EXP), _MOST_EXP))
    # In two steps, as 2**n itself may be beyond the range.
    half = arith.shrsi(n, numbers.integer(1))
    first, second = numbers.power(half), numbers.power(arith.subi(n, half))
    return arith.mulf(numbers.fma(p, first, first), second)


def _tanh(numbers: Numbers, x: ir.Value) -> ir.Value:
    magnitude = numbers.at_most(math.absf(x), _MOST_TANH)
    u = numbers.expm1(arith.addf(magnitude, magnitude))
    return math.copysign(arith.divf(u, arith.addf(u, numbers.number(2.0))), x)


def _erf(numbers: Numbers, x: ir.Value) -> ir.Value:
    magnitude = numbers.at_most(math.absf(x), _MOST_ERF)
    minus = arith.negf(magnitude)
    g = numbers.fma(minus, numbers.polynomial(magnitude, _ERF), minus)
    return math.copysign(numbers.expm1(g), x)


def _log(numbers: Numbers, x: ir.Value) -> ir.Value:
    zero = numbers.number(0.0)
    small = arith.cmpf(arith.CmpFPredicate.OLT, x, numbers.number(2.0**-126))
    normal = arith.select(small, arith.mulf(x, numbers.number(2.0**23)), x)
    bits = arith.bitcast(numbers.integers, normal)
    # The exponent of the power of two nearest below x·3/2: 2/3 has these bits.
    steps = arith.shrsi(arith.subi(bits, numbers.integer(0x3F2AAAAB)), numbers.integer(23))
    fraction = arith.bitcast(numbers.floats, arith.subi(bits, arith.shli(steps, numbers.integer(23))))
    exponent = arith.sitofp(numbers.floats, steps)
    exponent = arith.select(small, arith.subf(exponent, numbers.number(23.0)), exponent)
    f = arith.subf(fraction, numbers.number(1.0))
    square = arith.mulf(f, f)
    rest = arith.mulf(arith.mulf(square, f), numbers.polynomial(f, _LOG))
    rest = numbers.fma(exponent, numbers.number(LN2_LOW), rest)
    rest = numbers.fma(square, numbers.number(-0.5), rest)
    value = numbers.fma(exponent, numbers.number(LN2_HIGH), arith.addf(f, rest))
    # NaN and +Inf stay themselves; below zero is NaN, and zero -Inf.
    value = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, x, numbers.number(inf)), value, x)
    value = arith.select(arith.cmpf(arith.CmpFPredicate.OLT, x, zero), numbers.number(nan), value)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, zero), numbers.number(-inf), value)


FUNCTIONS: dict[str, Callable[[Numbers, ir.Value], ir.Value]] = {
    "math.exp": _exp,
    "math.log": _log,
    "math.tanh": _tanh,
    "math.erf": _erf,
}
