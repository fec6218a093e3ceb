# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the operands of a product map to the loops of its payload: those over the batch, then m, n and k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.mlir import ir
from tilewright.spec import MatmulSpec, OperandSpec


def shape(operand: OperandSpec, spec: MatmulSpec, *, transposed: bool = False) -> tuple[Any, ...]:
    """The extents of an operand in the payload: without axes of the batch that have one entry, and as it is multiplied."""
    extents = [operand.shape[axis] for axis in operand.looped(spec.batch)]
    return (*extents[:-2], extents[-1], extents[-2]) if transposed else tuple(extents)


def strides(rank: int, *, transposed: bool = False) -> list[int]:
    """The strides of an operand in the payload, in elements: rows are contiguous (transposed: columns), the others are dynamic."""
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    steps = [*[dynamic] * (rank - 1), 1][-rank:] if rank else []
    return [*steps[:-2], steps[-1], steps[-2]] if transposed else steps


def map_of(loops: Sequence[int], axes: str, spec: MatmulSpec, *, over: str = "mn") -> ir.AffineMap:
    """Where the elements of an operand are, over the loops of the batch and those of `over`.

    Args:
        loops: The axes of the batch along which it has an entry for each.
        axes: Its other axes: "mk".
        spec: The product.
        over: The loops after those of the batch: "mnk".
    """
    position = {axis: number for number, axis in enumerate(spec.batch_axes)}
    named = {name: len(position) + number for number, name in enumerate(over)}
    results = [ir.AffineDimExpr.get(each) for each in (*(position[a] for a in loops), *(named[a] for a in axes))]
    return ir.AffineMap.get(len(position) + len(over), 0, results)


def product_maps(spec: MatmulSpec) -> list[ir.AffineMap]:
    """Those of A, B and C in a product, over (batch..., m, n, k)."""
    operands = ((spec.a_axes, "mk"), (spec.b_axes, "kn"), (spec.batch_axes, "mn"))
    return [map_of(loops, axes, spec, over="mnk") for loops, axes in operands]
