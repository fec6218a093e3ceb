# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the ops of attention's payload that say, by tables, how long entries are and where their rows lie (`payload.attention_tables`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.build.usedef import body, defined_by, definition, users
from tilewright.codegen.attention.bodies import check_zero, refused
from tilewright.codegen.attention.trees import dim, divided, index, match, plus, tree, yielded
from tilewright.mlir import ir

_SLT, _SLE = 2, 3
"""Numbers of arith.cmpi's predicates."""
_HIDDEN = float("-inf")
_HEAD_AXES = 3
"""Of a head's matrix, and the head."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of an operand are.

    Attributes:
        argument: The number of the function's argument that has them.
        table: The number of the argument that says where those of an entry are; None where they lie as they are multiplied.
        page: Rows of a page; 0 where those of an entry lie together.
    """

    argument: int
    table: int | None = None
    page: int = 0


@dataclass(frozen=True, slots=True)
class Lengths:
    """What the scores of entries of different lengths say.

    Attributes:
        scale: What they are multiplied by.
        count: The number of the argument that tells how many keys an entry has, or where those of a sequence start.
        starts: Whether it is the latter.
        causal: False, "upper_left" or "lower_right".
    """

    scale: float
    count: int
    starts: bool
    causal: bool | str


def rows(value: ir.Value, op: ir.Operation) -> Rows:
    """The rows of an operand of `op`: an argument, or what brings rows of one to where they are multiplied.

    Raises:
        ScheduleError: It is neither.
    """
    if isinstance(value, ir.BlockArgument):
        return Rows(value.arg_number)
    made = definition(value)
    if made is None or made.name != "linalg.generic" or len(made.operands) != 1:
        raise refused("an operand is no argument of the function", op)
    given, entries = yielded(made), ir.RankedTensorType(value.type).rank - _HEAD_AXES
    *outer, head, row, column = (index(made, axis) for axis in range(entries + _HEAD_AXES))
    found: dict[str, Any] = {}
    start = plus(_number("?table", *outer), row)
    if match(("tensor.extract", "?of", head, ("arith.minui", start, "?last"), column), given, found):
        of = _argument(found["of"], made)
        if found["last"] == plus(dim(_given(made, of), 1), -1):
            return Rows(of, _argument(found["table"], made))
    found = {}
    page = ("arith.minui", _number("?table", *outer, divided("arith.divui", row, "?page")), "?last")
    within = divided("arith.remui", row, "?page")
    if match(("tensor.extract", "?of", page, head, within, column), given, found) and isinstance(found["page"], int):
        of = _argument(found["of"], made)
        if found["last"] == plus(dim(_given(made, of), 0), -1):
            return Rows(of, _argument(found["table"], made), found["page"])
    raise refused("rows of an operand are brought by something else than a table of starts or of pages", made)


def lengths(op: ir.Operation, q: Rows, queries: object) -> Lengths | None:
    """What the op between the first product and the softmax says, given the queries' rows and, if known, how many there are.

    Returns None where no table says how many keys an entry has.

    Raises:
        ScheduleError: It says something else.
    """
    given, rank = yielded(op), ir.RankedTensorType(op.results[0].type).rank
    if "tensor.extract" not in str(op):
        return None
    *outer, query, key = (index(op, axis) for axis in (*range(rank - _HEAD_AXES), rank - 2, rank - 1))
    own: object = ("tensor.dim", ("argument", q.argument), rank - 2) if queries is None else queries
    if q.table is not None:
        own = _between(("argument", q.table), *outer)
    for starts in (False, True):
        count = _between("?count", *outer) if starts else _number("?count", *outer)
        there = ("arith.mulf", ("element", 0), "?scale")
        there = ("arith.select", ("arith.cmpi", _SLT, key, count), there, _HIDDEN)
        more = plus(count, -own) if isinstance(own, int) else ("arith.subi", count, own)
        later = plus(query, more)
        for causal, last in ((False, None), ("upper_left", query), ("lower_right", later)):
            pattern = there if last is None else ("arith.select", ("arith.cmpi", _SLE, key, last), there, _HIDDEN)
            found: dict[str, Any] = {}
            if match(pattern, given, found) and isinstance(found["scale"], float):
                return Lengths(found["scale"], _argument(found["count"], op), starts, causal)
    raise refused("keys are hidden by something else than an entry's length and the last one that a query sees", op)


def placed(value: ir.Value, q: Rows, op: ir.Operation) -> ir.Value:
    """The result whose rows lie as those of the queries, given `value`, whose rows are by entries.

    Raises:
        ScheduleError: They are not brought to such places.
    """
    if q.table is None:
        return value
    (user, *others) = users(value)
    made = user.parent
    if others or made is None or made.operation.name != "linalg.generic" or len(made.operation.operands) != 2:
        raise refused("the result's rows are not brought to where those of the queries lie", op)
    made = made.operation
    starts = ("argument", q.table)
    last = plus(dim(_given(made, q.table), 0), -2)
    sequence = ("arith.minui", ("arith.index_cast", ("element", 0)), last)
    inside = plus(dim(_given(made, q.argument), 1), -1)
    row = ("arith.minui", ("arith.subi", index(made, 1), _number(starts, sequence)), inside)
    found: dict[str, Any] = {}
    wanted = ("tensor.extract", "?value", sequence, index(made, 0), row, index(made, 2))
    if not match(wanted, yielded(made), found) or found["value"] != value:
        raise refused("the result's rows are not brought to where those of the queries lie", made)
    _check_numbers(made.operands[0], starts, made)
    return made.results[0]


def _check_numbers(value: ir.Value, starts: tuple[str, int], op: ir.Operation) -> None:
    """Checks that a value has the number of each row's sequence: of those after the first one, how many start at it or before."""
    counted = defined_by(value, "linalg.generic")
    if counted is None or len(counted.results) != 1:
        raise refused("rows are not counted by the starts of sequences", op)
    past = ("arith.cmpi", _SLE, ("element", 0), ("arith.index_cast", index(counted, 0)))
    if not match(("arith.addi", ("element", 1), ("arith.extui", past)), yielded(counted), {}):
        raise refused("rows are not counted by the starts of sequences", op)
    ends = defined_by(counted.operands[0], "tensor.extract_slice")
    if (
        ends is None
        or tree(ends.operands[0]) != starts
        or list(ir.DenseI64ArrayAttr(ends.attributes["static_offsets"])) != [1]
    ):
        raise refused("sequences are not counted from the second one on", op)
    check_zero(counted.operands[1], counted)


def _number(table: Any, *place: Any) -> Any:  # noqa: ANN401 - patterns
    """A number of a table, as an index."""
    return "arith.index_cast", ("tensor.extract", table, *place)


def _between(table: Any, *place: Any) -> Any:  # noqa: ANN401 - patterns
    """How far it is from a number of a table to the next one."""
    return "arith.subi", _number(table, *(plus(each, 1) for each in place)), _number(table, *place)


def _given(op: ir.Operation, number: int) -> ir.Value:
    """An argument of the function around an op."""
    assert op.parent is not None, "it is in a function"
    return body(op.parent).arguments[number]


def _argument(given: Any, op: ir.Operation) -> int:  # noqa: ANN401 - a tree
    """The number of the function's argument that a tree is."""
    if isinstance(given, tuple) and len(given) == 2 and given[0] == "argument":
        return given[1]
    raise refused("a table is no argument of the function", op)
