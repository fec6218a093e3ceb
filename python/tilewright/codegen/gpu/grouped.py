# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that have one element for each group of elements along K, such as scales: read by number of group.

No vector can be read from them as it lies. So the payload reads them as if they had an element for each along K, and the thread
that computes a piece of A or B looks where it really is.

Before: ``scale[k floordiv 32, n]`` in a prologue. After: ``scale[k, n]``, and in each thread ``scale[k / 32, n]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.build.index import Index, add, div, minimum, value
from tilewright.build.usedef import defined_by, operations
from tilewright.build.views import mixed
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, slots=True)
class Grouped:
    """How an operand is grouped.

    Attributes:
        axis: Which of its axes goes over groups, counted from behind: -1 for the last one.
        group: Elements along K of a group.
    """

    axis: int
    group: int


def of(spec: MatmulSpec) -> Mapping[int, Grouped]:
    """The grouped operands of a product, by their number among all."""
    further = (*spec.chain_a.operands, *spec.chain_b.operands)
    return {
        2 + number: Grouped(each.axes.index("g") - len(each.axes), each.group)
        for number, each in enumerate(further)
        if each.group
    }


def read_one_by_one(module: ir.Module) -> None:
    """Lets prologues read grouped operands as if there were an element for each along K."""
    for op in operations(module.operation):
        if op.name != "linalg.generic":
            continue
        maps = [ir.AffineMapAttr(each).value for each in ir.ArrayAttr(op.attributes["indexing_maps"])]
        plain = [
            ir.AffineMap.get(each.n_dims, 0, [_undivided(result) for result in each.results], context=module.context)
            for each in maps
        ]
        with module.context:
            op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in plain])


def _undivided(expression: ir.AffineExpr) -> ir.AffineExpr:
    try:
        return ir.AffineFloorDivExpr(expression).lhs
    except ValueError:
        return expression


def number_of(view: ir.Value) -> int | None:
    """Which operand of the kernel a view in a block is of; None for others."""
    subview = defined_by(view, "memref.subview")
    if subview is not None:
        return number_of(subview.operands[0])
    return ir.BlockArgument(view).arg_number if isinstance(view.owner, ir.Block) else None


def element(view: ir.Value, at: list[Index], grouped: Grouped, of_block: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """The element of a grouped operand for a place of a view of it; within the operand, where the place is not.

    Args:
        view: The view in the block.
        at: The place, as if there were an element for each along K.
        grouped: How the operand is grouped.
        of_block: Gives the value of a thread for one of the block.
    """
    root, place = _rooted(view, at, of_block)
    place[grouped.axis] = div(place[grouped.axis], grouped.group)
    inside = [minimum(index, arith.subi(memref.dim(root, value(axis)), value(1))) for axis, index in enumerate(place)]
    return memref.load(root, [value(each) for each in inside])


def _rooted(view: ir.Value, at: list[Index], of_block: Callable[[ir.Value], ir.Value]) -> tuple[ir.Value, list[Index]]:
    """The operand that a view is of, and a place of the view there."""
    subview = defined_by(view, "memref.subview")
    if subview is None:
        return of_block(view), at
    offsets = mixed(subview.attributes["static_offsets"], map(of_block, list(subview.operands)[1:]))
    dropped = len(offsets) - len(at)  # Axes of a batch, which come first.
    place = [*offsets[:dropped], *(add(start, index) for start, index in zip(offsets[dropped:], at, strict=True))]
    return _rooted(subview.operands[0], place, of_block)
