# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns a linalg op into the program of an epilogue: the inverse of `payload.elementwise`.

A program computes with widened numbers, so rounding to narrow floats is an explicit step after each operation
that has it. An op that no program expresses exactly (unsigned comparisons, 8-bit integers that wrap around) stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.errors import SpecError
from tilewright.expressions import Program, Traced, apply, constant, convert, trace
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith

_BINARY = {
    "arith.addf": "add",
    "arith.subf": "subtract",
    "arith.mulf": "multiply",
    "arith.divf": "divide",
    "arith.maximumf": "maximum",
    "arith.minimumf": "minimum",
    "arith.addi": "add",
    "arith.subi": "subtract",
    "arith.muli": "multiply",
    "arith.maxsi": "maximum",
    "arith.minsi": "minimum",
}
_UNARY = {
    "arith.negf": "negative",
    "math.absf": "absolute",
    "math.absi": "absolute",
    "math.sqrt": "sqrt",
    "math.exp": "exp",
    "math.log": "log",
    "math.tanh": "tanh",
    "math.erf": "erf",
    "math.floor": "floor",
    "math.roundeven": "round",
}
_FLOAT_PREDICATES = {
    arith.CmpFPredicate.OLT: ("less", False),
    arith.CmpFPredicate.OLE: ("less_equal", False),
    arith.CmpFPredicate.OGT: ("greater", False),
    arith.CmpFPredicate.OGE: ("greater_equal", False),
    arith.CmpFPredicate.OEQ: ("equal", False),
    arith.CmpFPredicate.UNE: ("not_equal", False),
    arith.CmpFPredicate.UGE: ("less", True),
    arith.CmpFPredicate.UGT: ("less_equal", True),
    arith.CmpFPredicate.ULE: ("greater", True),
    arith.CmpFPredicate.ULT: ("greater_equal", True),
}
"""By predicate, the comparison and whether it is negated: for NaN, only a negated comparison holds."""
_INTEGER_PREDICATES = {
    arith.CmpIPredicate.slt: "less",
    arith.CmpIPredicate.sle: "less_equal",
    arith.CmpIPredicate.sgt: "greater",
    arith.CmpIPredicate.sge: "greater_equal",
    arith.CmpIPredicate.eq: "equal",
    arith.CmpIPredicate.ne: "not_equal",
}
_LOGIC = {"arith.andi": "and", "arith.ori": "or"}
_NARROW_FLOATS = ("f16", "bf16")


class Untold(Exception):  # noqa: N818 - no error: what is not told stays a linalg op
    """There is no program for it."""


def program(op: ir.Operation, order: Sequence[int], compute: str) -> Program:
    """What `op` makes of an element of each of its operands.

    Args:
        op: An elementwise ``linalg.generic`` with one result.
        order: For each of its inputs, which operand of the program it is; -1 for the element itself.
        compute: The type in which the program computes with floats: f32 or f64.

    Raises:
        Untold: No program says it.
    """
    block = op.regions[0].blocks[0]

    def body(element: Traced, *operands: Traced) -> Traced:
        given: dict[ir.Value, Traced] = {}
        given |= {block.arguments[index]: element if each < 0 else operands[each] for index, each in enumerate(order)}
        return _Body(given, compute).result(block)

    try:
        return trace(body, max(order, default=-1) + 1)
    except SpecError as error:
        raise Untold(str(error)) from None


class _Body:
    """Translates one region; keeps what each of its values is."""

    def __init__(self, given: dict[ir.Value, Traced], compute: str) -> None:
        self._values = given
        self._narrow = (*_NARROW_FLOATS, "f32") if compute == "f64" else _NARROW_FLOATS
        self._known = (*self._narrow, compute, "i32")

    def result(self, block: ir.Block) -> Traced:
        *ops, last = [each.operation for each in block.operations]
        for op in ops:
            self._values[op.results[0]] = self._op(op)
        return self._value(last.operands[0])

    def _value(self, value: ir.Value) -> Traced:
        if value in self._values:
            return self._values[value]
        if isinstance(value, ir.OpResult) and value.owner.name == "arith.constant":
            return _constant(value.owner.attributes["value"])
        raise Untold(f"a value from outside: {value}")

    def _op(self, op: ir.Operation) -> Traced:
        if op.name == "arith.constant":
            return _constant(op.attributes["value"])
        operands = [self._value(each) for each in op.operands]
        kind = str(op.results[0].type)
        if kind == "i1" and op.name in _LOGIC:
            return apply(_LOGIC[op.name], *operands)
        if kind not in (*self._known, "i1", "i8"):
            raise Untold(f"{op.name} to {kind}")
        special = _SPECIAL.get(op.name)
        if special is not None:
            return special(op, operands)
        name = (_BINARY | _UNARY).get(op.name)
        if name is None or kind not in self._known:
            raise Untold(op.name)
        value = apply(name, *operands)
        # Numbers are kept in wide types.
        return convert(value, kind) if kind in self._narrow else value


def _constant(value: ir.Attribute) -> Traced:
    if isinstance(value, ir.FloatAttr):
        return constant(float(value.value))
    if isinstance(value, ir.IntegerAttr) and str(value.type) != "i1":
        return constant(int(value.value))
    raise Untold(f"the constant {value}")


def _compare_floats(op: ir.Operation, operands: list[Traced]) -> Traced:
    found = _FLOAT_PREDICATES.get(arith.CmpFPredicate(ir.IntegerAttr(op.attributes["predicate"]).value))
    if found is None:
        raise Untold(op.name)
    compared = apply(found[0], *operands)
    return apply("not", compared) if found[1] else compared


def _compare_integers(op: ir.Operation, operands: list[Traced]) -> Traced:
    name = _INTEGER_PREDICATES.get(arith.CmpIPredicate(ir.IntegerAttr(op.attributes["predicate"]).value))
    if name is None or str(op.operands[0].type) != "i32":
        raise Untold(op.name)
    return apply(name, *operands)


def _select(op: ir.Operation, operands: list[Traced]) -> Traced:
    if str(op.results[0].type) in ("i1", "i8"):
        raise Untold(op.name)
    return apply("where", *operands)


def _reciprocal_root(op: ir.Operation, operands: list[Traced]) -> Traced:
    kind = str(op.results[0].type)
    value = apply("divide", constant(1.0), apply("sqrt", *operands))
    return convert(value, kind) if kind in _NARROW_FLOATS else value


def _same(_op: ir.Operation, operands: list[Traced]) -> Traced:
    """A wider type holds the same number."""
    return operands[0]


def _extend(op: ir.Operation, operands: list[Traced]) -> Traced:
    """The same for integers; a byte that the program made has the signedness with which it was made."""
    unsigned, value = op.name in ("arith.extui", "arith.uitofp"), operands[0]
    made = value.detail if value.op == "convert" else ""
    if str(op.operands[0].type) != "i8" or (made and (made == "u8") != unsigned):
        raise Untold(op.name)
    if not made and value.op not in ("value", "operand"):
        raise Untold(op.name)
    return value


def _narrow(op: ir.Operation, operands: list[Traced]) -> Traced:
    return convert(operands[0], str(op.results[0].type))


def _to_float(op: ir.Operation, operands: list[Traced]) -> Traced:
    value = operands[0]
    if str(op.operands[0].type) != "i32" or op.name == "arith.uitofp":
        value = _extend(op, operands)
    return convert(value, str(op.results[0].type))


def _to_integer(op: ir.Operation, operands: list[Traced]) -> Traced:
    """Towards zero; beyond the type's range MLIR says nothing, and conversions saturate."""
    kind = str(op.results[0].type)
    if op.name == "arith.fptoui":
        if kind != "i8":
            raise Untold(op.name)
        kind = "u8"
    value = operands[0]
    if value.op not in ("floor", "round"):
        towards_zero = apply("negative", apply("floor", apply("negative", value)))
        value = apply("where", apply("less", value, constant(0.0)), towards_zero, apply("floor", value))
    return convert(value, kind)


def _truncate(op: ir.Operation, operands: list[Traced]) -> Traced:
    """The last bits of an integer are the integer where it was clamped to the range before."""
    if str(op.operands[0].type) != "i32" or str(op.results[0].type) != "i8":
        raise Untold(op.name)
    low, high = _clamped(operands[0])
    for kind, least, most in (("i8", -128, 127), ("u8", 0, 255)):
        if low is not None and high is not None and low >= least and high <= most:
            return convert(operands[0], kind)
    raise Untold(op.name)


def _clamped(value: Traced) -> tuple[int | None, int | None]:
    """The least and the most that a value can be, as far as its last two operations tell."""
    low = high = None
    for _ in range(2):
        if value.op not in ("maximum", "minimum"):
            break
        bounds = [each for each in value.arguments if each.op == "constant"]
        others = [each for each in value.arguments if each.op != "constant"]
        if len(bounds) != 1 or not bounds[0].detail.lstrip("-").isdigit():
            break
        bound = int(bounds[0].detail)
        if value.op == "maximum":
            low, high = bound if low is None else max(low, bound), high
        else:
            high = bound if high is None else min(high, bound)
        value = others[0]
    return low, high


_SPECIAL: dict[str, Callable[[ir.Operation, list[Traced]], Traced]] = {
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.select": _select,
    "math.rsqrt": _reciprocal_root,
    "arith.extf": _same,
    "arith.extsi": _extend,
    "arith.extui": _extend,
    "arith.truncf": _narrow,
    "arith.sitofp": _to_float,
    "arith.uitofp": _to_float,
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.trunci": _truncate,
}
