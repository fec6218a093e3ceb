# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds elementwise ``linalg.generic`` ops."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.mlir import ir
from tilewright.mlir.dialects import linalg


def generic(
    inputs: list[ir.Value],
    output: ir.Value,
    maps: list[ir.AffineMap],
    iterators: list[ir.Attribute],
    body: Callable[..., ir.Value],
) -> ir.Value:
    """Builds a ``linalg.generic`` whose region applies `body` to one element of each operand."""
    operation = linalg.GenericOp(
        [output.type],
        inputs,
        [output],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get(iterators),
    )
    elements = [ir.ShapedType(value.type).element_type for value in (*inputs, output)]
    block = ir.Block.create_at_start(operation.regions[0], elements)
    with ir.InsertionPoint(block):
        linalg.YieldOp([body(*block.arguments)])
    return operation.results[0]
