# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""erf of f32 by a table of polynomials, where an instruction looks sixteen numbers up at once (AVX-512's vpermps).

The interval from 0 to where erf is 1 is cut into sixteen, |x| = i·w + r with |r| <= w / 2, and erf|x| = e_i + r·q_i(r) with q_i of
degree four: six look-ups, which other units do than multiply-adds, and half as many of these as `math_functions` takes. Of
i = 0, where erf(x) is as small as x, it is x + x·q_0(x). So the last rounding is of the result, and e_i is its only other large
error. The q_i are minimax fits (Lawson's iteration), weighted by the result; the largest error, 1.8 units in the last place, was
measured on 20 million arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from tilewright.build import constants
from tilewright.build.vectors import intrinsic
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math, vector

if TYPE_CHECKING:
    from tilewright.lowering.types.float_arithmetic import Numbers

LANES = 16
_LOOK_UP = "llvm.x86.avx512.permvar.sf.512"
_WIDTH = 261 / 1024
"""Of an interval: a few bits, so that i·w is exact."""
_MOST = 3.95
"""From here on erf is 1 in f32; less than 15.5 intervals."""
_TO_WHOLE = 1.5 * 2.0**23
"""Added to a small number, it leaves the nearest whole number in the last bits."""
_TABLE = (
    (
        0.0,
        0.2814959,
        0.5290397,
        0.7204702,
        0.850651,
        0.9285008,
        0.96943974,
        0.98837113,
        0.9960693,
        0.9988219,
        0.9996874,
        0.9999266,
        0.9999848,
        0.9999972,
        0.9999995,
        0.99999994,
    ),
    (
        0.12837917,
        1.0574042,
        0.87015945,
        0.62882334,
        0.3990527,
        0.22238415,
        0.10883017,
        0.046769924,
        0.017650457,
        0.0058494783,
        0.0017023552,
        0.00043506603,
        9.764096e-05,
        1.9243356e-05,
        3.330439e-06,
        5.061673e-07,
    ),
    (
        2.5075275e-07,
        -0.26951373,
        -0.44356236,
        -0.4808254,
        -0.40683538,
        -0.28340715,
        -0.16642402,
        -0.08344232,
        -0.035999198,
        -0.013427541,
        -0.004349798,
        -0.0012237094,
        -0.00030782842,
        -5.6485278e-05,
        1.0534e-06,
        -4.1487456e-06,
    ),
    (
        -0.37614077,
        -0.30669767,
        -0.13928965,
        0.035492808,
        0.14351484,
        0.16666032,
        0.13340974,
        0.08366616,
        0.043041173,
        0.018570855,
        0.006805373,
        0.0021348703,
        0.0005763615,
        0.00013441808,
        2.7155651e-05,
        4.599127e-06,
    ),
    (
        0.00027617798,
        0.12822503,
        0.18163897,
        0.14611126,
        0.061874058,
        -0.01151311,
        -0.04681845,
        -0.046918858,
        -0.03135343,
        -0.016318966,
        -0.0066114073,
        -0.0023712064,
        -0.0002316131,
        -0.0006484572,
        -0.0008343017,
        0.00012760746,
    ),
    (
        0.111005954,
        0.080137566,
        0.0034950967,
        -0.054735586,
        -0.06852069,
        -0.04403978,
        -0.011775278,
        0.008153924,
        0.013032486,
        0.009864073,
        0.0053426623,
        0.0022749868,
        0.00079191657,
        0.00022994452,
        5.639847e-05,
        3.1862044e-05,
    ),
)
"""By power of r, of each interval: first e_i."""


def erf(numbers: Callable[[ir.Type], Numbers], x: ir.Value) -> ir.Value | None:
    """The function of a number or of a vector of up to sixteen, the same bits for either; None for another shape.

    Args:
        numbers: Arithmetic on a type.
        x: The argument.
    """
    kind, whole = x.type, ir.VectorType.get([LANES], ir.F32Type.get())
    if not isinstance(kind, ir.VectorType):
        result = _sixteen(numbers(whole), vector.broadcast(whole, x))
        return vector.extract(result, [], [0])
    if kind.scalable or prod(kind.shape) > LANES:
        return None
    if kind.rank != 1:
        flat = vector.shape_cast(ir.VectorType.get([prod(kind.shape)], kind.element_type), x)
        result = erf(numbers, flat)
        return None if result is None else vector.shape_cast(kind, result)
    if kind == whole:
        return _sixteen(numbers(whole), x)
    placed = vector.insert_strided_slice(x, numbers(whole).number(0.0), [0], [1])
    return vector.extract_strided_slice(kind, _sixteen(numbers(whole), placed), [0], kind.shape, [1])


def _sixteen(numbers: Numbers, x: ir.Value) -> ir.Value:
    magnitude = numbers.at_most(math.absf(x), _MOST)
    shift = numbers.number(_TO_WHOLE)
    shifted = numbers.fma(magnitude, numbers.number(1 / _WIDTH), shift)
    interval = arith.subf(shifted, shift)
    r = numbers.fma(interval, numbers.number(-_WIDTH), magnitude)
    # The instruction looks at the last four bits.
    index = arith.bitcast(numbers.integers, shifted)
    start, *powers = (_looked_up(row, index, numbers) for row in _TABLE)
    value = powers[-1]
    for each in reversed(powers[:-1]):
        value = numbers.fma(value, r, each)
    first = arith.cmpf(arith.CmpFPredicate.OEQ, interval, numbers.number(0.0))
    return math.copysign(numbers.fma(value, r, arith.select(first, magnitude, start)), x)


def _looked_up(row: tuple[float, ...], index: ir.Value, numbers: Numbers) -> ir.Value:
    return intrinsic(_LOOK_UP, numbers.floats, constants.numbers(ir.F32Type.get(), row), index)
