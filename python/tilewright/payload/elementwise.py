# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Emits the program of an epilogue as MLIR: the body of a linalg op, one op of arith or math for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.dtypes import STORED, DType, dtype
from tilewright.entries import TRUTH, Chain, TypedEntry
from tilewright.expressions import Step, number
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, math

_Binary = Callable[[ir.Value, ir.Value], ir.Value]

_FLOATS: dict[str, _Binary] = {
    "add": arith.addf,
    "subtract": arith.subf,
    "multiply": arith.mulf,
    "divide": arith.divf,
    "maximum": arith.maximumf,
    "minimum": arith.minimumf,
}
_INTEGERS: dict[str, _Binary] = {
    "add": arith.addi,
    "subtract": arith.subi,
    "multiply": arith.muli,
    "maximum": arith.maxsi,
    "minimum": arith.minsi,
}
_FUNCTIONS: dict[str, Callable[[ir.Value], ir.Value]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "tanh": math.tanh,
    "erf": math.erf,
    "floor": math.floor,
    "round": math.roundeven,
}
_PREDICATES = {
    "less": (arith.CmpFPredicate.OLT, arith.CmpIPredicate.slt),
    "less_equal": (arith.CmpFPredicate.OLE, arith.CmpIPredicate.sle),
    "greater": (arith.CmpFPredicate.OGT, arith.CmpIPredicate.sgt),
    "greater_equal": (arith.CmpFPredicate.OGE, arith.CmpIPredicate.sge),
    "equal": (arith.CmpFPredicate.OEQ, arith.CmpIPredicate.eq),
    "not_equal": (arith.CmpFPredicate.UNE, arith.CmpIPredicate.ne),
}
_LOGIC: dict[str, _Binary] = {"and": arith.andi, "or": arith.ori}
_BOUNDS = {"i8": (-128, 127), "u8": (0, 255), "i32": (-(2**31), 2**31 - 1)}
_LARGEST_I32 = {"f32": 2.0**31 - 2**7, "f64": 2.0**31 - 1}
"""The largest number of a float type that i32 holds."""


def apply(
    chain: Chain, element: ir.Value, operands: Sequence[ir.Value], entries: Sequence[TypedEntry] | None = None
) -> ir.Value:
    """Applies all entries of `chain`, or some, to `element`, given one element of each of their operands."""
    taken = 0
    for entry in chain.entries if entries is None else entries:
        given = operands[taken : taken + len(entry.operands)]
        element = _Body(chain, entry, element, given).result()
        taken += len(entry.operands)
    return element


def widened(value: ir.Value, source: str, wide: str) -> ir.Value:
    """`value`, of type `source`, in the type `wide`: f32, f64 or i32."""
    if source == wide:
        return value
    kind = _type(wide)
    if dtype(source).kind == "float":
        return arith.extf(kind, value)
    if source != "i32":
        extend = arith.extui if dtype(source).kind == "uint" else arith.extsi
        value = extend(_type("i32"), value)
    return value if wide == "i32" else arith.sitofp(kind, value)


def held(value: ir.Value, source: str, element: str) -> ir.Value:
    """`value`, of the type `source`, in the wider type `element`."""
    if dtype(element).kind != "float":
        return (arith.extui if dtype(source).kind == "uint" else arith.extsi)(_type(element), value)
    if dtype(source).kind == "float":
        return arith.extf(_type(element), value)
    value = widened(value, source, "f32")
    return value if element == "f32" else arith.truncf(_type(element), value)


def converted(value: ir.Value, work: str, element: str, compute: str) -> ir.Value:
    """`value`, of the wide type `work`, converted to `element`: rounded to the nearest, integers saturated.

    `compute` is the type in which floats are computed.
    """
    if work == element:
        return value
    target = dtype(element)
    if target.kind == "float":
        value = widened(value, work, compute)
        return value if element == compute else arith.truncf(_type(element), value)
    lo, hi = _BOUNDS[element]
    if work == "i32":
        value = arith.minsi(arith.maxsi(value, _constant(lo, work)), _constant(hi, work))
    else:
        whole = _is_whole(value)
        most = _LARGEST_I32[work] if element == "i32" else float(hi)
        # The first comparison fails for NaN, so that it becomes the least.
        value = _select(arith.CmpFPredicate.OGT, value, _constant(float(lo), work))
        limited = _select(arith.CmpFPredicate.OLT, value, _constant(most, work))
        value = arith.fptosi(_type("i32"), limited if whole else math.roundeven(limited))
    return value if element == "i32" else arith.trunci(_type(element), value)


def _is_whole(value: ir.Value) -> bool:
    """Whether a float is surely a whole number, or no number: rounded already, and whole numbers added to it."""
    made = None if isinstance(value.owner, ir.Block) else value.owner.operation  # type: ignore[union-attr]
    if made is None:
        return False
    if made.name == "arith.constant":
        return float(made.attributes["value"].value).is_integer()  # type: ignore[attr-defined] - a number's attribute
    if made.name in ("arith.addf", "arith.subf"):
        return all(map(_is_whole, made.operands))
    return made.name in ("math.roundeven", "math.floor", "arith.sitofp")


def _select(predicate: arith.CmpFPredicate, x: ir.Value, y: ir.Value) -> ir.Value:
    """Gives x where it compares so with y, and y elsewhere: one instruction for a maximum or a minimum."""
    return arith.select(arith.cmpf(predicate, x, y), x, y)


class _Body:
    """Builds the steps of one entry."""

    def __init__(self, chain: Chain, entry: TypedEntry, element: ir.Value, operands: Sequence[ir.Value]) -> None:
        self._chain = chain
        self._entry = entry
        self._element = element
        self._operands = operands
        self._built: list[ir.Value | None] = []

    def result(self) -> ir.Value:
        """The value of the last step."""
        for index, step in enumerate(self._entry.entry.program.steps):
            self._built.append(self._build(index, step))
        last = len(self._built) - 1
        built = self._built[last]
        return self._argument(last, self._entry.result) if built is None else built

    def _build(self, index: int, step: Step) -> ir.Value | None:
        """The value of a step; None for a constant, which is made where its type is known."""
        work = self._entry.steps[index].work
        if step.op == "constant":
            return None
        if step.op == "value":
            return self._element
        if step.op == "operand":
            return self._operands[int(step.detail)]
        if step.op == "convert":
            source = self._entry.steps[step.arguments[0]].result
            given = self._built[step.arguments[0]]
            if given is not None and step.detail in STORED.get(source, ()):
                return held(given, source, step.detail)
            return converted(self._argument(step.arguments[0], work), work, step.detail, self._chain.compute)
        if step.op in _PREDICATES:
            x, y = (self._argument(each, work) for each in step.arguments)
            of_floats, of_integers = _PREDICATES[step.op]
            return arith.cmpi(of_integers, x, y) if work == "i32" else arith.cmpf(of_floats, x, y)
        if step.op == "where":
            condition, *numbers = step.arguments
            return arith.select(self._argument(condition, TRUTH), *(self._argument(each, work) for each in numbers))
        arguments = [self._argument(each, work) for each in step.arguments]
        if step.op in _LOGIC:
            return _LOGIC[step.op](*arguments)
        if step.op == "not":
            return arith.xori(arguments[0], arith.constant(ir.IntegerType.get_signless(1), 1))
        if step.op in _FUNCTIONS:
            return _FUNCTIONS[step.op](*arguments)
        return self._arithmetic(step, work, arguments)

    def _arithmetic(self, step: Step, work: str, arguments: Sequence[ir.Value]) -> ir.Value:
        if step.op == "negative":
            return arith.subi(_constant(0, work), *arguments) if work == "i32" else arith.negf(*arguments)
        if step.op == "absolute":
            return math.absi(*arguments) if work == "i32" else math.absf(*arguments)
        if work != "i32" and step.op in ("maximum", "minimum"):
            fixed = [self._built[each] is None for each in step.arguments]
            if any(fixed):
                # A NaN can only come from the other one, which stays where the comparison fails.
                known, other = arguments if fixed[0] else reversed(arguments)
                larger = step.op == "maximum"
                return _select(arith.CmpFPredicate.OGT if larger else arith.CmpFPredicate.OLT, known, other)
        return (_INTEGERS if work == "i32" else _FLOATS)[step.op](*arguments)

    def _argument(self, index: int, work: str) -> ir.Value:
        """The value of step number `index` in the type `work`."""
        built = self._built[index]
        if built is None:
            return _constant(number(self._entry.entry.program.steps[index].detail), work)
        return built if work == TRUTH else widened(built, self._entry.steps[index].result, work)


def _constant(value: float, element: str) -> ir.Value:
    row: DType = dtype(element)
    if row.kind != "float":
        # Integers wrap around.
        value = (int(value) + 2**31) % 2**32 - 2**31
    return arith.constant(_type(element), float(value) if row.kind == "float" else int(value))


def _type(element: str) -> ir.Type:
    return ir.Type.parse(dtype(element).mlir)
