# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the prologues of a product: elementwise ops on its operands."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.expressions import Program
from tilewright.mlir import ir
from tilewright.payload.modules import contractions, programs
from tilewright.payload.modules.contractions import Contraction


@dataclass(frozen=True, slots=True)
class Start:
    """What is done to an operand of a product.

    Attributes:
        op: The ``linalg.generic`` that does it.
        matrix: What it is done to.
        axes: The dimensions of the product that the axes of that go along.
        element: The name of its element type.
        operands: Further operands.
        further: Of each, the dimensions of the product that it has.
        types: Of each, the name of its element type.
        program: What is done, in terms of an element and of one of each operand.
    """

    op: ir.Operation
    matrix: ir.Value
    axes: tuple[int, ...]
    element: str
    operands: tuple[ir.Value, ...]
    further: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    program: Program

    @property
    def copies(self) -> bool:
        """Whether elements are only moved, or widened."""
        return self.program.steps[-1].op == "value"


Starts = tuple[Start | None, Start | None]
"""What is done to the first operand of a product, and to the second."""


def find(product: ir.Operation, contraction: Contraction) -> Starts:
    """Finds elementwise ops before a product whose result nothing else uses."""
    first, second = (_start(product, contraction, side) for side in (0, 1))
    return first, second


def _start(product: ir.Operation, contraction: Contraction, side: int) -> Start | None:
    value = product.operands[side]
    if not isinstance(value, ir.OpResult) or sum(1 for _ in value.uses) != 1:
        return None
    op = value.owner.operation
    name = (contraction.a, contraction.b)[side]
    if (
        op.name != "linalg.generic"
        or len(op.results) != 1
        or not is_parallel(op)
        or name not in ("f32", "f64", *_NARROW)
    ):
        return None
    *inputs, _ = op.operands
    maps = [contractions.axes(each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
    block = op.regions[0].blocks[0]
    if any(each is None for each in maps) or any(True for _ in block.arguments[len(inputs)].uses):
        return None
    dimensions = {loop: contraction.maps[side][axis] for axis, loop in enumerate(maps[-1] or ())}
    if len(dimensions) != len(maps[-1] or ()) or any(loop not in dimensions for each in maps for loop in each or ()):
        return None
    placed = [tuple(dimensions[loop] for loop in each or ()) for each in maps[:-1]]
    whole = next((at for at, axes in enumerate(placed) if sorted(axes) == sorted(dimensions.values())), None)
    if whole is None:
        return None
    others = [at for at in range(len(inputs)) if at != whole]
    types = [element(op, at) for at in (whole, *others)]
    if any(each is None for each in types):
        return None
    order = [others.index(at) if at != whole else -1 for at in range(len(inputs))]
    try:
        program = programs.program(op, order, "f64" if name == "f64" else "f32")
    except programs.Untold:
        return None
    stored, *further = map(str, types)
    operands = tuple(inputs[at] for at in others)
    return Start(
        op, inputs[whole], placed[whole], stored, operands, tuple(placed[at] for at in others), tuple(further), program
    )


_NARROW = ("bf16", "f16")


def is_parallel(op: ir.Operation) -> bool:
    """Whether a linalg op sums nothing."""
    return all("parallel" in str(each) for each in ir.ArrayAttr(op.attributes["iterator_types"]))


_UNSIGNED, _SIGNED = ("arith.extui", "arith.uitofp"), ("arith.extsi", "arith.sitofp")


def element(op: ir.Operation, index: int) -> str | None:
    """The name of an input's element type; the sign of integers is told by what is done with them."""
    uses = {use.owner.operation.name for use in op.regions[0].blocks[0].arguments[index].uses}
    unsigned = bool(uses & set(_UNSIGNED))
    if unsigned and uses & set(_SIGNED):
        return None
    return contractions.element_name(op.operands[index].type, unsigned=unsigned)
