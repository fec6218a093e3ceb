# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The factors alpha and beta of C = alpha·A·B + beta·C, as entries around those of an epilogue."""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar, Union

from tilewright import math
from tilewright.dtypes import dtype
from tilewright.entries import Chain, Epilogue, Operand
from tilewright.errors import SpecError
from tilewright.expressions import trace
from tilewright.operand import OperandSpec

ARG = "arg"
"""The value of a factor that calls tell."""
ROLES = ("alpha", "beta")
"""The factors, in the order of calls; also the roles of their operands."""
FORMER = "former"
"""The role of the former elements of C."""
_Value = TypeVar("_Value")
_I32 = range(-(2**31), 2**31)
Factor = Union[float, complex, str]  # noqa: UP007 - evaluated by Python 3.10
"""What a spec has of a factor."""


def checked(name: str, value: object, wide: str) -> Factor:
    """A factor as a spec has it: "arg", an int where it is 0 or 1 or `wide` is i32, and otherwise a float.

    A number with an imaginary part is complex.

    Args:
        name: "alpha" or "beta".
        value: What the user gave.
        wide: The type of what it multiplies: f32, f64, i32, c64 or c128.

    Raises:
        SpecError: It is something else.
    """
    if isinstance(value, str) and value == ARG:
        return value
    expected = f"a finite number, or {ARG!r}: calls tell it"
    if isinstance(value, complex) and dtype(wide).part is not None and isfinite(value):
        if value.imag:
            return complex(value)
        value = value.real
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        if value in (0, 1):
            return int(value)
        if wide != "i32":
            return float(value)
        if isinstance(value, int) and value in _I32:
            return value
        expected = f"an int of 32 bits, or {ARG!r}: the numbers that it multiplies are of i32"
    raise SpecError(f"{name} is {value!r}", where="MatmulSpec", expected=expected)


@lru_cache(maxsize=256)
def of_alpha(alpha: Factor) -> tuple[Epilogue, ...]:
    """The entry that multiplies a sum by `alpha`; none for 1, nor for 0, where all sums are zero.

    Where calls tell it, 0 times any sum is 0: entries for C do not read A and B then, and what else does keeps NaN out.
    """
    if alpha in (0, 1):
        return ()
    if alpha == ARG:
        program = trace(lambda c, factor: math.where(factor == 0, 0, factor * c), 1)
        return (Epilogue("alpha", (Operand("alpha", "", role="alpha"),), program),)
    return (Epilogue("alpha", (), trace(lambda c: alpha * c, 0)),)


@lru_cache(maxsize=256)
def of_beta(beta: Factor, c: str) -> tuple[Epilogue, ...]:
    """The entry that adds `beta` times the former element of C, of type `c`; none for 0."""
    if beta == 0:
        return ()
    former = Operand("former", "mn", c, role=FORMER)
    if beta == ARG:
        # Chosen before it is multiplied: 0 times an infinity would raise an exception of floating point, which numpy reports.
        program = trace(lambda c, x, factor: c + factor * math.where(factor == 0, -0.0, x), 2)
        return (Epilogue("beta", (former, Operand("beta", "", role="beta")), program),)
    return (Epilogue("beta", (former,), trace(lambda c, x: c + (x if beta == 1 else beta * x), 1)),)


def in_order(finish: Chain, scalars: Sequence[OperandSpec], given: Sequence[_Value]) -> list[_Value]:
    """The operands of `finish` in its order, given those of the epilogue, then `scalars`, and the former C last."""
    own = len(given) - len(scalars) - 1
    named = dict(zip([*(each.name for each in scalars), FORMER], given[own:], strict=True))
    rest = iter(given[:own])
    return [named[each.role] if each.role in named else next(rest) for each in finish.operands]
