# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the bodies of attention's ops: products of widened elements, scale and mask, the last key that a query sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf

from tilewright.build.affine import terms
from tilewright.build.usedef import body, defined_by, definition, terminator
from tilewright.errors import ScheduleError
from tilewright.mlir import ir

_NE, _SLE = 1, 3
"""Numbers of arith.cmpi's predicates."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What is done to the scores before the softmax.

    Attributes:
        scale: What they are multiplied by.
        masked: Whether a mask is added, or hides keys.
        last: The last key that query number "query" sees, as a sum: factors of "query", "queries" and "keys", and under "" a number.
            None: all keys are seen.
    """

    scale: float
    masked: bool
    last: Mapping[str, int] | None


def refused(what: str, op: ir.Operation) -> ScheduleError:
    """The error of a chain that an online softmax does not compute."""
    return ScheduleError(
        what,
        where="online_softmax",
        payload_op=op.name,
        expected="softmax(scale · Q·Kᵀ + mask) · V as attention's payload writes it",
        remedy="Decide on the linalg.softmax before other steps change the ops around it",
    )


def check_product(op: ir.Operation) -> None:
    """Checks that the body is ``sum + x·y``, of elements that are widened to f32.

    Raises:
        ScheduleError: It is not.
    """
    block = body(op)
    x, y, total = block.arguments
    added = _made(_yielded(op), "arith.addf")
    products = [each for each in (_made(term, "arith.mulf") for term in added or ()) if each is not None]
    factors = [_unwidened(each) for each in products[0]] if len(products) == 1 else []
    if added is None or total not in added or factors not in ([x, y], [y, x]):
        raise refused("expected a sum of products of elements in f32", op)


def check_zero(value: ir.Value, op: ir.Operation) -> None:
    """Checks that an op's sums start from zeros.

    Raises:
        ScheduleError: They do not.
    """
    fill = defined_by(value, "linalg.fill")
    if fill is None or _constant(fill.operands[0]) != 0:
        raise refused("the sums do not start from a linalg.fill of zero", op)


def narrowed(op: ir.Operation) -> str:
    """The type to which an elementwise op rounds its first operand.

    Raises:
        ScheduleError: It does something else.
    """
    block, value = body(op), _yielded(op)
    made = _made(value, "arith.truncf")
    if len(op.operands) != 2 or made is None or made[0] != block.arguments[0]:
        raise refused("the result is changed by more than a conversion to its type", op)
    return str(value.type)


def scores(op: ir.Operation, order: list[int], extents: Mapping[tuple[ir.Value, int], str]) -> Scores:
    """What the op between the first product and the softmax does.

    Args:
        op: The op, whose output is the first product.
        order: Its loop dimensions in the order of the scores' axes.
        extents: What axes of which operands "queries" and "keys" are the extents of.

    Raises:
        ScheduleError: It does something else.
    """
    *given, score = body(op).arguments
    value, last, masked = _yielded(op), None, False
    hidden = _hidden(value)
    if hidden is not None and hidden[0] == _SLE:
        _, key, end, value = hidden
        if _index(key) != order[-1]:
            raise refused("keys are hidden by something else than their number", op)
        last = _sum(end, {order[-2]: "query"}, extents, op)
        hidden = _hidden(value)
    if given and hidden is not None and hidden[0] == _NE:
        _, byte, zero, value = hidden
        masked = byte == given[0] and _constant(zero) == 0
    elif given and (added := _made(value, "arith.addf")) is not None:
        masks = [each for each in added if _unwidened(each) == given[0]]
        masked, value = len(masks) == 1, next((each for each in added if each not in masks), value)
    scale = 1.0
    if value != score:
        factors = _made(value, "arith.mulf") or ()
        constants = [number for each in factors if (number := _constant(each)) is not None]
        if score not in factors or len(constants) != 1:
            raise refused("scores are changed by more than a scale, a mask and a last key", op)
        (scale,) = constants
    return Scores(float(scale), masked, last)


def _sum(
    value: ir.Value, indices: Mapping[int, str], extents: Mapping[tuple[ir.Value, int], str], op: ir.Operation
) -> dict[str, int]:
    """A value as a sum of what `indices` and `extents` name, with factors, and of a number, which is under ""."""
    first, *others = terms(value)
    if others or isinstance(first, int):
        parts = [first, *others]
        return _added([{"": each} if isinstance(each, int) else _sum(each, indices, extents, op) for each in parts])
    value = first
    index, made = _index(value), definition(value)
    if index is not None and index in indices:
        return {indices[index]: 1}
    if made is not None and made.name == "tensor.dim":
        name = extents.get((made.operands[0], int(_constant(made.operands[1]) or 0)))
        if name is not None:
            return {name: 1}
    if made is None or made.name not in ("arith.addi", "arith.subi"):
        raise refused("the last key that a query sees is no sum of its number and of extents", op)
    left, right = (_sum(each, indices, extents, op) for each in made.operands)
    sign = 1 if made.name == "arith.addi" else -1
    return _added([left, {name: sign * factor for name, factor in right.items()}])


def _added(sums: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of sums."""
    return {name: sum(each.get(name, 0) for each in sums) for name in {name for each in sums for name in each}}


def _hidden(value: ir.Value) -> tuple[int, ir.Value, ir.Value, ir.Value] | None:
    """Of ``x if a <> b else -Inf`` the predicate's number, a, b and x."""
    select = _made(value, "arith.select")
    compared = None if select is None else defined_by(select[0], "arith.cmpi")
    if select is None or compared is None:
        return None
    lowest = _constant(select[2])
    if lowest is None or not isinf(lowest) or lowest > 0:
        return None
    left, right = compared.operands
    return ir.IntegerAttr(compared.attributes["predicate"]).value, left, right, select[1]


def _made(value: ir.Value, name: str) -> list[ir.Value] | None:
    """The operands of the op called `name` that makes a value; None of others."""
    made = defined_by(value, name)
    return None if made is None else list(made.operands)


def _unwidened(value: ir.Value) -> ir.Value:
    """What a value is before it was widened."""
    made = _made(value, "arith.extf")
    return value if made is None else made[0]


def _constant(value: ir.Value) -> float | int | None:
    """The number that a value is; None of others."""
    made = defined_by(value, "arith.constant")
    if made is None:
        return None
    attribute = made.attributes["value"]
    return attribute.value if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) else None


def _index(value: ir.Value) -> int | None:
    """The loop dimension whose index a value is; None of others."""
    (value, *others) = terms(value)
    if others or isinstance(value, int):
        return None
    made = defined_by(value, "linalg.index")
    return None if made is None else ir.IntegerAttr(made.attributes["dim"]).value


def _yielded(op: ir.Operation) -> ir.Value:
    """What the body of an op gives."""
    return terminator(body(op)).operands[0]
