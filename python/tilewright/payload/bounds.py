# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records the limits of dynamic extents in the payload, where schedules need them."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.dims import MAX_EXTENT, Dim, Extent
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, tensor


def within(operand: ir.Value, extents: Mapping[int, Extent]) -> ir.Value:
    """`operand` as a slice that is at most as long along some axes as their extents allow, which tells the compiler these limits.

    Without it nothing in the IR says how large a packed panel can be. Axes count from the end: -1 is the last one.
    """
    kind = ir.RankedTensorType(operand.type)
    limits = {axis + kind.rank: each.max for axis, each in extents.items() if isinstance(each, Dim)}
    limits = {axis: limit for axis, limit in limits.items() if limit < MAX_EXTENT}
    if not limits or 0 in kind.shape:
        return operand
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes: list[ir.Value | int] = []
    for at, size in enumerate(kind.shape):
        if size != dynamic:
            sizes.append(size)
            continue
        extent = tensor.dim(operand, arith.constant(ir.IndexType.get(), at))
        if at in limits:
            most = ir.AffineMap.get(1, 0, [ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(limits[at])])
            extent = affine.AffineMinOp(most, [extent]).result
        sizes.append(extent)
    values = [size for size in sizes if isinstance(size, ir.Value)]
    static = [size if isinstance(size, int) else dynamic for size in sizes]
    return tensor.extract_slice(
        ir.RankedTensorType.get(kind.shape, kind.element_type),
        operand,
        [],
        values,
        [],
        [0] * kind.rank,
        static,
        [1] * kind.rank,
    )
