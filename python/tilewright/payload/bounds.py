# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records the limits of dynamic extents in the payload, where schedules need them."""

from __future__ import annotations

from tilewright.dims import Dim
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, arith, tensor


def deep(operand: ir.Value, dim: Dim, axis: int) -> ir.Value:
    """`operand` as a slice that is at most as long along an axis as `dim` allows, which tells the compiler that limit.

    Without it nothing in the IR says how large a packed panel can be. `axis` counts from the end: -1 is the last one.
    """
    kind = ir.RankedTensorType(operand.type)
    axis += kind.rank
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes: list[ir.Value | int] = []
    for at, size in enumerate(kind.shape):
        if size != dynamic:
            sizes.append(size)
            continue
        extent = tensor.dim(operand, arith.constant(ir.IndexType.get(), at))
        if at == axis:
            most = ir.AffineMap.get(1, 0, [ir.AffineDimExpr.get(0), ir.AffineConstantExpr.get(dim.max)])
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
