# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: D105 - what operators do needs no words
"""Traces Python functions of one element: calls them with placeholders that record what is done to them.

The result is a value, `Program`: it compares, hashes, pickles and prints by what it computes, however the function was written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NoReturn

from tilewright.dtypes import dtype
from tilewright.errors import SpecError

ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
"""Two numbers of one type, integers or floats, to one of that type."""
COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
"""Two numbers of one type to a truth value."""
FUNCTIONS = ("sqrt", "exp", "log", "tanh", "erf", "floor", "round")
"""A float to a float; an integer is converted first."""
_LOGIC = ("and", "or", "not")
_MOST_STEPS = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a program.

    Attributes:
        op: "value" (the element), "operand", "constant", "convert", "where", "divide", "negative", "absolute", or a name in
            `ARITHMETIC`, `COMPARISONS`, `FUNCTIONS`, or "and", "or", "not".
        arguments: The numbers of the steps that it takes.
        detail: Of an operand its number; of a constant its text ("3", or a float in hexadecimal); of a conversion the type.
    """

    op: str
    arguments: tuple[int, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        """As in a program's text: ``multiply(%0, %1)``."""
        if not self.arguments:
            return f"{self.op} {self.detail}".strip()
        detail = f" to {self.detail}" if self.detail else ""
        return f"{self.op}({', '.join(f'%{each}' for each in self.arguments)}){detail}"


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in an order in which they can be done; the last one's result is the program's.

    Attributes:
        steps: The operations.
    """

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """All steps on one line."""
        return "; ".join(f"%{number} = {step}" for number, step in enumerate(self.steps))


class Traced:
    """A placeholder for a number or a truth value, which records the operations on it.

    It takes ``+ - * /``, comparisons, ``abs``, and the functions of `tilewright.math`, together with numbers.
    """

    __slots__ = ("arguments", "detail", "op", "truth")
    __hash__ = object.__hash__
    # NumPy's own operators leave these to ours.
    __array_ufunc__ = None

    def __init__(self, op: str, arguments: Sequence[Traced] = (), detail: str = "", *, truth: bool = False) -> None:
        """As for `Step`, with placeholders for arguments; `truth` says that it is a truth value."""
        self.op = op
        self.arguments = tuple(arguments)
        self.detail = detail
        self.truth = truth

    def __add__(self, other: Any) -> Traced:  # noqa: ANN401 - numbers of any kind, here and below
        return apply("add", self, other)

    def __radd__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("add", other, self)

    def __sub__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("divide", other, self)

    def __neg__(self) -> Traced:
        return apply("negative", self)

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Traced:
        return apply("absolute", self)

    def __lt__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("less", self, other)

    def __le__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("greater", self, other)

    def __ge__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("greater_equal", self, other)

    def __eq__(self, other: object) -> Traced:  # type: ignore[override]
        return apply("equal", self, other)

    def __ne__(self, other: object) -> Traced:  # type: ignore[override]
        return apply("not_equal", self, other)

    def __and__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("and", self, other)

    def __or__(self, other: Any) -> Traced:  # noqa: ANN401
        return apply("or", self, other)

    def __invert__(self) -> Traced:
        return apply("not", self)

    def __bool__(self) -> NoReturn:
        """Refuses: there is no number yet to decide by."""
        raise _error("a traced value decides a branch", "Choose with tw.math.where(condition, x, y)")

    def __float__(self) -> NoReturn:
        """Refuses: there is no number yet."""
        raise _error("a traced value is made a number", "Call functions of tw.math, not of math or numpy")

    __int__ = __float__
    __index__ = __float__

    def __repr__(self) -> str:
        """What computes it."""
        return f"<traced {self.op}>"


def apply(op: str, *arguments: Any) -> Traced:  # noqa: ANN401
    """The placeholder for the result of `op`.

    Raises:
        SpecError: An argument is no number, or a truth value where a number is wanted, or the other way round.
    """
    traced = [each if isinstance(each, Traced) else constant(each) for each in arguments]
    wants_truth = [op in _LOGIC] * len(traced)
    if op == "where":
        wants_truth = [True, False, False]
    for each, wanted in zip(traced, wants_truth, strict=True):
        if each.truth != wanted:
            found, right = ("a number", "a comparison") if wanted else ("a comparison", "a number")
            raise _error(f"{op} of {found}", f"Give it {right}")
    return Traced(op, traced, truth=op in COMPARISONS or op in _LOGIC)


def convert(value: Any, element: str) -> Traced:  # noqa: ANN401
    """The placeholder for `value` as an element of type `element`.

    Raises:
        SpecError: There is no such type, or `value` is no number.
    """
    return Traced("convert", [value if isinstance(value, Traced) else constant(value)], dtype(element).name)


def constant(value: Any) -> Traced:  # noqa: ANN401
    """The placeholder for a number.

    Raises:
        SpecError: It is none.
    """
    if not isinstance(value, bool | str | bytes):
        try:
            return Traced("constant", detail=str(operator.index(value)))
        except TypeError:
            pass
        try:
            if not isnan(float(value)):
                return Traced("constant", detail=float(value).hex())
        except (TypeError, ValueError, OverflowError):
            pass
    raise SpecError(
        f"{value!r} is no number", where="epilogue", expected="a number, or what is computed from the operands"
    )


def number(detail: str) -> int | float:
    """The number of a constant's detail."""
    return float.fromhex(detail) if set(detail) & set("x.infa") else int(detail)


def trace(function: Callable[..., Any], operands: int) -> Program:
    """What `function` does to an element, and to one of each of `operands` further operands.

    Raises:
        SpecError: It returns no number, decides by one, or does too much.
    """
    result = function(Traced("value"), *(Traced("operand", detail=str(each)) for each in range(operands)))
    result = result if isinstance(result, Traced) else constant(result)
    if result.truth:
        raise _error("it returns a comparison", "Return tw.math.where(comparison, 1, 0)")
    return Program(tuple(_ordered(result)))


def joined(program: Program, further: Step, op: str) -> Program:
    """`program`, and `op` of its result and of one further step."""
    steps = (*program.steps, further)
    last = len(steps) - 1
    return Program((*steps, Step(op, (last - 1, last))))


def _ordered(result: Traced) -> list[Step]:
    """The steps to `result`, each once, arguments first."""
    steps: dict[Step, int] = {}
    numbers: dict[int, int] = {}
    open_: list[Traced] = [result]
    while open_:
        each = open_[-1]
        missing = [argument for argument in each.arguments if id(argument) not in numbers]
        if missing:
            open_.extend(reversed(missing))
            continue
        open_.pop()
        step = Step(each.op, tuple(numbers[id(argument)] for argument in each.arguments), each.detail)
        numbers[id(each)] = steps.setdefault(step, len(steps))
        if len(steps) > _MOST_STEPS:
            raise SpecError(f"more than {_MOST_STEPS} operations", where="epilogue", remedy="Split the function")
    # No step is part of itself: that of the result came last.
    return list(steps)


def _error(what: str, remedy: str) -> SpecError:
    return SpecError(what, where="epilogue", remedy=remedy)
