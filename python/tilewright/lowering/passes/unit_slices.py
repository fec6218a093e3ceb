# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes slices of one element that lose dimensions as a slice and a reshape.

Why not upstream: which of several unit dimensions a slice loses is inferred, by bufferization in one way and by the verifier of the view
that it makes in another one, so that a matrix of one element out of a batch of transposed matrices is refused.
"""

from __future__ import annotations

from tilewright.build.usedef import named, replace, retyped
from tilewright.mlir import ir
from tilewright.mlir.dialects import tensor


def split(module: ir.Operation) -> None:
    """Splits every such slice of a module on tensors: the dimensions that it loses are the first ones."""
    for op in named(module, "tensor.extract_slice"):
        whole, part = (ir.RankedTensorType(each.type) for each in (op.operands[0], op.results[0]))
        lost = whole.rank - part.rank
        if lost == 0 or part.rank == 0 or any(size != 1 for size in part.shape):
            continue
        with ir.InsertionPoint(op), op.location:
            slice_ = retyped(op, ir.RankedTensorType.get([1] * whole.rank, part.element_type), list(op.operands))
            joined = [[*range(lost + 1)], *([each] for each in range(lost + 1, whole.rank))]
            replace(op, tensor.CollapseShapeOp(part, slice_, joined).result)
