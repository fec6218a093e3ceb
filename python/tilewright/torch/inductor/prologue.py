# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the elementwise ops before a product, such as the last ones of a layer norm, that can be its prologue, and makes one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.entries import Epilogue, Operand
from tilewright.errors import SpecError
from tilewright.expressions import Traced, trace
from tilewright.payload.epilogues import cast
from tilewright.torch.inductor import elementwise, fx
from tilewright.torch.inductor.call import contiguous
from tilewright.torch.inductor.region import MOST_OPERANDS, Form, Further, NoRegionError, evaluated, is_element, widens

_AXES = {"mn": "mk", "n": "k", "m": "m", "": ""}
"""Axes of a left matrix by those of a result of its shape."""
_MOST_NODES = 32
"""Nodes at most: what is more is computed again for each panel, and better once."""
_SUMS = {"f64": "f64"}
"""By element type of the matrix, the type that its elements are computed in; f32 for all others."""


@dataclass(frozen=True, slots=True)
class Prologue:
    """What is done to a left matrix before it is multiplied.

    Attributes:
        matrix: What is stored.
        operands: The further operands, in the order of the call.
        entries: What is computed.
    """

    matrix: Node
    operands: tuple[Further, ...]
    entries: tuple[Epilogue, ...]


def found(a: Node, readers: set[Node], form: Form) -> Prologue | None:
    """The prologue of a left matrix; None if there is none.

    Args:
        a: The matrix.
        readers: The products that it is for: what anything else reads too is in memory anyway, and read from there.
        form: What a result of its shape allows.
    """
    members = _members(a, readers, form)
    if all(each.target in (*elementwise.VIEWS, *elementwise.COPIES) for each in members):
        return None
    matrix: Node | None = None
    operands: dict[tuple[Node, str], Further] = {}

    def read(node: Node, shape: Sequence[Any], element: Traced) -> Traced:
        nonlocal matrix
        axes = form.classify(fx.value(node).shape, shape) or ""
        if axes == "mn" and (matrix is None or matrix is node):
            matrix = node
            return element
        operands.setdefault((node, axes), Further(node, _AXES[axes], tuple(shape)))
        return Traced("operand", detail=str(list(operands).index((node, axes))))

    def computed(element: Traced, *_: Traced) -> Any:  # noqa: ANN401
        return evaluated(members, {}, partial(read, element=element))[a]

    try:
        program = trace(computed, 0)
    except (NoRegionError, SpecError, TypeError):
        return None
    if matrix is None or len(operands) > MOST_OPERANDS:
        return None
    seen, stored = fx.value(matrix), fx.element(matrix) or ""
    if not fx.lies(seen, contiguous(seen.shape)):
        return None
    named = tuple(
        Operand(f"p{number}", each.axes, fx.element(each.node)) for number, each in enumerate(operands.values())
    )
    entries = () if len(program.steps) == 1 else (Epilogue("fused", named, program),)
    if fx.element(a) != (_SUMS.get(stored, "f32") if entries else stored):
        entries = (*entries, cast(fx.element(a) or ""))
    return Prologue(matrix, tuple(operands.values()), entries)


def _members(a: Node, readers: set[Node], form: Form) -> list[Node]:
    """The nodes that compute the matrix, in the order of the graph; conversions to a wider type are computed again."""
    inside, open_ = set[Node](), [a]
    while open_ and len(inside) < _MOST_NODES:
        node = open_.pop()
        is_alone = widens(node) or not node.users.keys() - inside - readers
        if node not in inside and is_alone and _fits(node, form):
            inside.add(node)
            open_ += node.all_input_nodes
    members: list[Node] = []
    for node in sorted(inside):
        # A view of what is no member is where the matrix is read.
        if node.target not in elementwise.VIEWS or node.args[0] in members:
            members.append(node)
    return members if a in members else []


def _fits(node: Node, form: Form) -> bool:
    """Whether the node computes elements of the matrix of what a prologue takes."""
    if not is_element(node, form):
        return False
    shape = fx.value(node).shape
    return node.target in elementwise.VIEWS or all(
        fx.element(each) is not None and form.classify(fx.value(each).shape, shape) is not None
        for each in node.all_input_nodes
    )
