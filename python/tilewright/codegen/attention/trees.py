# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a value is computed from, as a tree of tuples, and patterns of such trees."""

from __future__ import annotations

from typing import Any

from tilewright.build.usedef import body as body_of
from tilewright.build.usedef import definition, terminator
from tilewright.mlir import ir

_COMPUTED = frozenset(
    f"arith.{name}"
    for name in ("addi", "cmpi", "divui", "extui", "index_cast", "minui", "mulf", "muli", "remui", "select", "subi")
) | {"tensor.dim", "tensor.extract"}
"""Ops that are nodes: (name, operands…), of a comparison with its predicate's number before them."""
_DIVISIONS = ("arith.divui", "arith.remui")


def tree(value: ir.Value) -> Any:  # noqa: ANN401 - numbers, tuples, values
    """What a value is.

    A constant is its number; ("argument", n) one of the function, ("element", n) one of an op's body, ("index", n) the index of a loop.
    What else there is stays the value.
    """
    if isinstance(value, ir.BlockArgument):
        block = value.owner
        assert isinstance(block, ir.Block), "it is its argument"
        kind = "argument" if block.owner.operation.name == "func.func" else "element"
        return kind, value.arg_number
    op = definition(value)
    assert op is not None, "an op makes it"
    if op.name == "arith.constant":
        attribute = op.attributes["value"]
        return attribute.value if isinstance(attribute, ir.FloatAttr | ir.IntegerAttr) else value
    if op.name == "linalg.index":
        assert op.parent is not None, "it is in an op"
        return index(op.parent.operation, ir.IntegerAttr(op.attributes["dim"]).value)
    if op.name not in _COMPUTED:
        return value
    operands = tuple(map(tree, op.operands))
    if op.name == "arith.cmpi":
        return (op.name, ir.IntegerAttr(op.attributes["predicate"]).value, *operands)
    if op.name == "tensor.dim":
        return dim(op.operands[0], operands[1])
    if op.name == "arith.addi":
        return plus(*operands)
    if op.name == "arith.subi" and isinstance(operands[1], int):
        return plus(operands[0], -operands[1])
    if op.name in _DIVISIONS:
        return divided(op.name, *operands)
    return (op.name, *operands)


def index(op: ir.Operation, axis: int) -> Any:  # noqa: ANN401 - as of `tree`
    """The index of a loop of an op whose result has an axis for it."""
    return 0 if ir.RankedTensorType(op.results[0].type).shape[axis] == 1 else ("index", axis)


def divided(name: str, given: Any, by: Any) -> Any:  # noqa: ANN401 - as of `tree`
    """A quotient, or a remainder."""
    return 0 if given == 0 else (name, given, by)


def dim(tensor: ir.Value, axis: int) -> Any:  # noqa: ANN401 - as of `tree`
    """The extent of an axis."""
    size = ir.RankedTensorType(tensor.type).shape[axis]
    return ("tensor.dim", tree(tensor), axis) if size == ir.ShapedType.get_dynamic_size() else size


def plus(given: Any, number: Any) -> Any:  # noqa: ANN401 - as of `tree`
    """A sum: of a tree and a number as every sum and difference of such is told."""
    if isinstance(given, int):
        given, number = number, given
    if not isinstance(number, int):
        return "arith.addi", given, number
    if isinstance(given, int):
        return given + number
    if isinstance(given, tuple) and given[0] == "arith.addi" and isinstance(given[2], int):
        given, number = given[1], given[2] + number
    return ("arith.addi", given, number) if number else given


def yielded(op: ir.Operation) -> Any:  # noqa: ANN401 - as of `tree`
    """What the body of an op gives."""
    return tree(terminator(body_of(op)).operands[0])


def match(pattern: Any, given: Any, found: dict[str, Any]) -> bool:  # noqa: ANN401 - as of `tree`
    """Whether a tree is as a pattern says, in which "?name" stands for anything, each time for the same, which is then in `found`."""
    if isinstance(pattern, str) and pattern.startswith("?"):
        return found.setdefault(pattern[1:], given) == given
    if isinstance(pattern, tuple) and isinstance(given, tuple):
        return len(pattern) == len(given) and all(match(*pair, found) for pair in zip(pattern, given, strict=True))
    return type(pattern) is type(given) and pattern == given
