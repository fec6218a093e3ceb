# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of one element for epilogues that are written in Python.

    spec = tw.MatmulSpec(m, n, k, epilogue=(lambda c, s: tw.math.tanh(c * s),))

How exact they are in f32 and f64 is in docs/reference/epilogues.md.
"""

from __future__ import annotations

from typing import Any

from tilewright.expressions import Traced, apply, convert

__all__ = ["abs", "cast", "erf", "exp", "floor", "log", "max", "min", "round", "sigmoid", "sqrt", "tanh", "where"]

Number = Any
"""A number, or what is computed from an element or an operand."""


def exp(x: Number) -> Traced:
    """Gives e to the power of x."""
    return apply("exp", x)


def log(x: Number) -> Traced:
    """The natural logarithm: -inf for zeros, NaN below."""
    return apply("log", x)


def tanh(x: Number) -> Traced:
    """The hyperbolic tangent."""
    return apply("tanh", x)


def erf(x: Number) -> Traced:
    """The error function, 2/√π times the integral of exp(-t²) from 0 to x."""
    return apply("erf", x)


def sqrt(x: Number) -> Traced:
    """The square root: NaN below zero."""
    return apply("sqrt", x)


def sigmoid(x: Number) -> Traced:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x))


def floor(x: Number) -> Traced:
    """The largest whole number that is not above x."""
    return apply("floor", x)


def round(x: Number) -> Traced:
    """The nearest whole number; of two that are equally near, the even one."""
    return apply("round", x)


def abs(x: Number) -> Traced:
    """The magnitude."""
    return apply("absolute", x)


def max(x: Number, y: Number) -> Traced:
    """The larger number; NaN where one is."""
    return apply("maximum", x, y)


def min(x: Number, y: Number) -> Traced:
    """The smaller number; NaN where one is."""
    return apply("minimum", x, y)


def where(condition: Traced, x: Number, y: Number) -> Traced:
    """Gives x where the condition, a comparison, holds, and y elsewhere. Conditions are joined with ``&``, ``|`` and ``~``."""
    return apply("where", condition, x, y)


def cast(x: Number, type: str) -> Traced:
    """Gives x rounded to a type ("bf16"); i8 and u8 are rounded to, the nearest even of two, and saturated: NaN to the least."""
    return convert(x, type)
