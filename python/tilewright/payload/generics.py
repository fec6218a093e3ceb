# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds ``linalg.generic`` ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import linalg


def generic(
    inputs: Sequence[ir.Value],
    output: ir.Value,
    maps: Sequence[ir.AffineMap],
    body: Callable[..., ir.Value],
    reduced: Collection[int] = (),
) -> ir.Value:
    """Builds a ``linalg.generic`` whose region applies `body` to one element of each operand; the loops in `reduced` are reductions."""
    kinds = ["reduction" if each in reduced else "parallel" for each in range(maps[0].n_dims)]
    operation = linalg.GenericOp(
        [output.type],
        inputs,
        [output],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{each}>") for each in kinds]),
    )
    elements = [ir.ShapedType(value.type).element_type for value in (*inputs, output)]
    block = ir.Block.create_at_start(operation.regions[0], elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*block.arguments)])
    return operation.results[0]
