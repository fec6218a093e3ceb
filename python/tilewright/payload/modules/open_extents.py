# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic extents of a module: how Python and MLIR express them, and ops that ask for them."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.dims import MAX_EXTENT, Dim, Extent
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, tensor

OPEN = ir.ShapedType.get_dynamic_size()
"""The marker of a dynamic extent in MLIR's shapes."""


def known(size: int) -> Extent:
    """An extent of a shape of MLIR's."""
    return Dim() if size == OPEN else size


def shaped(extent: Extent) -> int:
    """An extent as shapes of MLIR's have it."""
    return OPEN if isinstance(extent, Dim) else extent


def product(extents: Iterable[Extent]) -> Extent:
    """The product of several extents; if one is dynamic, all that is known is what divides the product."""
    number, multiple, is_open = 1, 1, False
    for each in extents:
        is_open = is_open or isinstance(each, Dim)
        number *= 1 if isinstance(each, Dim) else each
        multiple *= each.multiple if isinstance(each, Dim) else each
    if not is_open or not number:
        return number
    return Dim(multiple=multiple) if multiple <= MAX_EXTENT else Dim()


def size(value: ir.Value, axis: int) -> int | ir.Value:
    """The extent of a tensor along an axis: a number, or the result of a dim op."""
    extent = ir.ShapedType(value.type).shape[axis]
    return tensor.dim(value, arith.constant(ir.IndexType.get(), axis)) if extent == OPEN else extent


def empty_like(value: ir.Value, element: ir.Type) -> ir.Value:
    """An uninitialized tensor with the extents of `value`."""
    return tensor.empty([size(value, axis) for axis in range(ir.ShapedType(value.type).rank)], element)
