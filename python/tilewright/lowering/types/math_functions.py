# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""exp, log, tanh and erf of f32, on vectors and scalars, written out as polynomials; those of f64 are in `double_functions`.

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

from tilewright.lowering.types import double_functions, table_functions
from tilewright.lowering.types.float_arithmetic import LN2_HIGH, LN2_LOW, Numbers, write_out
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

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
_MOST_ERF = 4.0
"""From here on, erf is 1 in f32."""


def expand(module: ir.Operation, target: Target | GpuTarget) -> bool:
    """Writes out the functions in `module`; says whether some are left, as those of f64 on a GPU without integers of 64 bits."""
    of_type = {name: partial(_written, function, target) for name, function in FUNCTIONS.items()}
    left = write_out(module, ir.F32Type, of_type)
    if left and not (isinstance(target, GpuTarget) and target.least_bits > 8):
        left = double_functions.expand(module, target)
    return left


def _written(
    function: Callable[[Numbers, ir.Value], ir.Value], target: Target | GpuTarget, op: ir.Operation
) -> ir.Value:
    x, value = op.operands[0], None
    if op.name == "math.erf" and "avx512f" in target.features:
        value = table_functions.erf(partial(Numbers, target=target), x)
    return value or function(Numbers(x.type, target), x)


def _erf(numbers: Numbers, x: ir.Value) -> ir.Value:
    magnitude = numbers.at_most(math.absf(x), _MOST_ERF)
    minus = arith.negf(magnitude)
    g = numbers.fma(minus, numbers.polynomial(magnitude, _ERF), minus)
    return math.copysign(numbers.expm1(g), x)


def _log(numbers: Numbers, x: ir.Value) -> ir.Value:
    def of_mantissa(exponent: ir.Value, f: ir.Value) -> ir.Value:
        square = arith.mulf(f, f)
        rest = arith.mulf(arith.mulf(square, f), numbers.polynomial(f, _LOG))
        rest = numbers.fma(exponent, numbers.number(LN2_LOW), rest)
        rest = numbers.fma(square, numbers.number(-0.5), rest)
        return numbers.fma(exponent, numbers.number(LN2_HIGH), arith.addf(f, rest))

    return numbers.log(x, of_mantissa)


FUNCTIONS: dict[str, Callable[[Numbers, ir.Value], ir.Value]] = {
    "math.exp": Numbers.exp,
    "math.log": _log,
    "math.tanh": Numbers.tanh,
    "math.erf": _erf,
}
