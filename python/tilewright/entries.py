# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entries of epilogues and prologues as values, and the types in which a chain of them computes.

Numbers are kept in the accumulator's type; an i32 sum becomes f32 at the first operation on floats.
Narrower values (a bf16 operand, the result of a cast to i8) are widened before anything is computed with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tilewright.dtypes import SMALL_FLOATS, dtype
from tilewright.errors import SpecError
from tilewright.expressions import ARITHMETIC, COMPARISONS, Program, convert, trace

EPILOGUE_AXES = ("mn", "n", "m", "")
"""What a further operand has an extent for: every element, each column, each row, or nothing (one number for all)."""
A_AXES, B_AXES = ("mk", "m", "k", "mg", ""), ("kn", "k", "n", "gn", "")
"""The same for operands of a prologue, of A and of B; g is a group of elements along K."""
AXES = tuple(dict.fromkeys((*EPILOGUE_AXES, *A_AXES, *B_AXES)))
FLOAT = "float"
"""The name of the type in which an epilogue computes with floats: f64 for an accumulator of f64, and otherwise f32."""
TRUTH = "truth"
"""The name of the type of a comparison."""
INDEX_TYPES = ("i32", "i64")
"""The types of an index of rows."""
ROW_FORMS = ("softmax", "row_sum", "row_max")
"""Forms of entries that need a whole row of C."""
REDUCTIONS = ("row_sum", "row_max")
"""Those of them that give one number for each row."""
_RESERVED = ("a", "b", "c", "out")
_INTEGERS = ("i4", "u4", "i8", "u8", "i32")
_COMPUTED = ("f64", "c64", "c128")
"""Accumulators in whose own type what is done to a sum is computed; otherwise that is f32."""
_SCALES = ("f8E8M0FNU",)
"""Types of operands that nothing is converted to."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A further operand of an epilogue or a prologue.

    Attributes:
        name: Its name in errors.
        axes: One of `AXES`.
        type: Its element type; "float" for the one that floats are computed in; None for that of what it meets.
        role: "" for numbers that the program is given as they are. "b" for a matrix like B: the program is given elements of
            A times it, of the accumulator's type. "index" for the numbers of rows, which no program sees. "former", "alpha" and
            "beta" are those of `scaling`.
        group: With axes that have a g, how many elements along K share one of its elements.
    """

    name: str
    axes: str = "n"
    type: str | None = None
    role: str = ""
    group: int = 0

    def __post_init__(self) -> None:
        """Checks the fields.

        Raises:
            SpecError: One is wrong.
        """
        if self.axes not in AXES:
            known = ", ".join(map(repr, AXES))
            raise SpecError(f"operand {self.name} has axes {self.axes!r}", where="epilogue", expected=f"one of {known}")
        if self.role != "index" and self.type not in (None, FLOAT):
            dtype(self.type)
        if ("g" in self.axes) != (self.group > 0):
            expected = "a group of elements for the axes that have a g, and for no others"
            raise SpecError(
                f"operand {self.name} has axes {self.axes!r} and group {self.group}",
                where="prologue",
                expected=expected,
            )


@dataclass(frozen=True, slots=True)
class Epilogue:
    """One entry of `MatmulSpec.epilogue`, or of a prologue.

    Attributes:
        name: How it is written, for people: 'bias("n")'.
        operands: What calls pass for it.
        program: What it does to each element.
        form: "each": the program, and nothing else. One of `ROW_FORMS`: what is made of each row. "gather": rows of A are taken
            by their numbers, from a table.
        rows: With "gather", the rows of the table.
        follows: Whether, as the last entry of a prologue, it leaves what `MatmulSpec` says is multiplied.
    """

    name: str
    operands: tuple[Operand, ...]
    program: Program
    form: str = "each"
    rows: int = 0
    follows: bool = False

    def __str__(self) -> str:
        """The name."""
        return self.name

    def __repr__(self) -> str:
        """The name: the program would be longer than a screen."""
        return f"<tilewright.Epilogue {self.name}>"


@dataclass(frozen=True, slots=True)
class TypedStep:
    """The types of one step of a program.

    Attributes:
        work: In which its numbers are when it is done.
        result: Of what it gives; TRUTH for a comparison; "" for a constant, which is of whatever type is wanted.
    """

    work: str
    result: str


@dataclass(frozen=True, slots=True)
class TypedEntry:
    """An entry where it stands in a chain.

    Attributes:
        entry: The entry.
        operands: Its operands, their types known and their names those of the whole chain.
        steps: The types of its program's steps.
        source: The type of what it is given.
        result: The type of what it gives.
    """

    entry: Epilogue
    operands: tuple[Operand, ...]
    steps: tuple[TypedStep, ...]
    source: str
    result: str


@dataclass(frozen=True, slots=True)
class Chain:
    """All entries of an epilogue.

    Attributes:
        accumulator: The type of what the first one is given.
        compute: The type in which floats are computed.
        entries: The entries.
    """

    accumulator: str
    compute: str
    entries: tuple[TypedEntry, ...]

    @property
    def result(self) -> str:
        """The type of what the last one gives."""
        return self.entries[-1].result if self.entries else self.accumulator

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All further operands, in the order of the call."""
        return tuple(each for entry in self.entries for each in entry.operands)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the further operands."""
        return tuple(each.name for each in self.operands)

    @property
    def types(self) -> frozenset[str]:
        """The types of all that is read and computed."""
        return frozenset(step.result for entry in self.entries for step in entry.steps)

    def wide(self, element: str) -> str:
        """The type in which numbers of type `element` are computed with."""
        return "i32" if element in _INTEGERS else self.compute

    def results(self) -> tuple[str, ...]:
        """The types that the result C may have: floats are rounded to it."""
        if self.result in _INTEGERS:
            return (self.result,)
        return ("f64", "f32") if self.compute == "f64" else ("f32", "bf16", "f16", *SMALL_FLOATS)


def entry(value: object, field: str = "epilogue") -> Epilogue:
    """An entry as the user may write it: one that is made, or a function of an element and of one of each operand.

    Operands of a function have the axis of B's and C's columns, in a prologue of A that of A's.

    Raises:
        SpecError: It is neither.
    """
    if isinstance(value, Epilogue):
        return value
    if callable(value):
        return of_function(value, {}, "k" if field == "prologue_a" else "n")
    raise SpecError(
        f"an entry of {'the epilogue' if field == 'epilogue' else field} is {value!r}",
        where="MatmulSpec",
        expected='entries such as tw.bias("n") or tw.relu(), and Python functions',
    )


def of_function(function: Callable[..., Any], axes: dict[str, str | tuple[str, str]], default: str = "n") -> Epilogue:
    """The entry for a Python function, whose further parameters are operands.

    Args:
        function: Takes the element, and one of each operand.
        axes: By parameter, its axes, or axes and type; `default` and "float" for those left out.
        default: The axes of those left out.

    Raises:
        SpecError: The parameters are not such, or what it does cannot be traced.
    """
    name = str(getattr(function, "__name__", "")).strip("<>")
    name = name if name.isidentifier() else "function"
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise SpecError(
            f"{function!r} does not tell its parameters", where="epilogue", expected="a def or lambda"
        ) from None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters]
    if not names or any(each.kind not in plain for each in parameters):
        raise SpecError(
            f"{name} takes ({', '.join(map(str, parameters))})",
            where="epilogue",
            expected="the element, and then each operand by its own parameter",
        )
    unknown = sorted(set(axes) - set(names[1:]))
    if unknown:
        raise SpecError(
            f"{name} has no operand {unknown[0]}", where="epilogue", expected=f"one of {', '.join(names[1:]) or 'none'}"
        )
    operands = []
    for each in names[1:]:
        given = axes.get(each, default)
        if isinstance(given, tuple) and len(given) != 2:
            raise SpecError(f"operand {each} is {given!r}", where="epilogue", expected="axes, or (axes, type)")
        operands.append(Operand(each, *given) if isinstance(given, tuple) else Operand(each, given, FLOAT))
    return Epilogue(f"{name}({', '.join(names)})", tuple(operands), trace(function, len(operands)))


@lru_cache(maxsize=256)
def chain(accumulator: str, epilogue: tuple[Epilogue, ...], taken: tuple[str, ...] = ()) -> Chain:
    """The entries of `epilogue`, or of a prologue, with their types.

    Args:
        accumulator: The type of what the first one is given.
        epilogue: The entries.
        taken: Names that operands before have.

    Raises:
        SpecError: A program converts to a type that it cannot convert to, or an operand is of such a type.
    """
    compute = accumulator if accumulator in _COMPUTED else "f32"
    whole = Chain(accumulator, compute, ())
    names: set[str] = {*_RESERVED, *taken}
    for each in epilogue:
        source = whole.result
        operands = []
        for operand in each.operands:
            element = str({None: whole.wide(source), FLOAT: compute}.get(operand.type, operand.type))
            element = accumulator if operand.role == "b" else element
            element = element if operand.role == "index" or element in _SCALES else _converted(element, whole)
            operands.append(replace(operand, name=_free(operand.name, names), type=element))
        steps = _types(each.program, whole, source, [str(operand.type) for operand in operands])
        result = {"softmax": compute, **dict.fromkeys(REDUCTIONS, whole.wide(source))}.get(each.form)
        typed = TypedEntry(each, tuple(operands), steps, source, result or steps[-1].result or compute)
        whole = Chain(accumulator, compute, (*whole.entries, typed))
    return whole


def check_place(typed: TypedEntry, field: str, axes: tuple[str, ...], forms: tuple[str, ...]) -> None:
    """Checks an entry of the field `field`, where `axes` are known and entries of `forms` can be.

    Raises:
        SpecError: It cannot stand there, or an operand has other axes.
    """
    if typed.entry.form not in forms:
        place = "the first entry of prologue_a" if typed.entry.form == "gather" else "an entry of the epilogue"
        raise SpecError(f"{typed.entry} in {field}", where="MatmulSpec", expected=place)
    for operand in typed.operands:
        if operand.role == "b" and field != "epilogue":
            raise SpecError(f"{typed.entry} in {field}", where="MatmulSpec", expected="an entry of the epilogue")
        if operand.axes not in axes:
            known = ", ".join(map(repr, axes))
            raise SpecError(
                f"operand {operand.name} of {typed.entry} has axes {operand.axes!r} in {field}",
                where="MatmulSpec",
                expected=f"one of {known}",
            )


def converting(element: str) -> Epilogue:
    """An entry that only converts to `element`."""
    return Epilogue(f"cast({element!r})", (), trace(lambda c: convert(c, element), 0))


def _free(name: str, taken: set[str]) -> str:
    """`name`, with a number where it is taken; it is taken then."""
    number, free = 2, name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    taken.add(free)
    return free


def _types(program: Program, whole: Chain, source: str, operands: Sequence[str]) -> tuple[TypedStep, ...]:
    """The types of the steps of `program`, given elements of type `source`."""
    found: list[TypedStep] = []
    for step in program.steps:
        given = [found[each].result for each in step.arguments]
        if step.op in ("value", "operand"):
            element = source if step.op == "value" else operands[int(step.detail)]
            found.append(TypedStep(element, element))
        elif step.op == "constant":
            found.append(TypedStep("", "" if step.detail.lstrip("-").isdigit() else whole.compute))
        elif step.op in ("and", "or", "not"):
            found.append(TypedStep(TRUTH, TRUTH))
        elif step.op == "convert":
            found.append(TypedStep(_common(whole, source, given), _converted(step.detail, whole)))
        elif step.op in (*ARITHMETIC, *COMPARISONS, "where", "negative", "absolute"):
            work = _common(whole, source, [each for each in given if each != TRUTH])
            found.append(TypedStep(work, TRUTH if step.op in COMPARISONS else work))
        else:
            found.append(TypedStep(whole.compute, whole.compute))
    return tuple(found)


def _common(whole: Chain, source: str, given: Sequence[str]) -> str:
    """The type in which numbers of these types meet: i32 when all are integers."""
    known = [each for each in given if each] or [source]
    return "i32" if all(each in _INTEGERS for each in known) else whole.compute


def _converted(element: str, whole: Chain) -> str:
    """The type `element`, when numbers can be converted to it and from it: not f64 and 16-bit floats in one epilogue."""
    floats = ("f64", "f32") if whole.compute == "f64" else ("f32", "bf16", "f16", *SMALL_FLOATS)
    known = (*floats, "i8", "u8", "i32")
    if element not in known:
        raise SpecError(
            f"{element} in an epilogue that computes in {whole.compute}",
            where="epilogue",
            expected=f"one of {', '.join(known)}",
        )
    return element
