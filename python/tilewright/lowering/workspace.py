# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gathers a function's scratch buffers into one workspace, which the entry asks for once a call and can refuse cleanly.

Upstream has no pass for it: its allocations cannot fail but by crashing.
"""

from __future__ import annotations

from math import prod

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref

_ALIGNMENT = 128
"""Bytes, two cache lines: panels start on a line, whatever stands before them."""
_STAGGER = 1024
"""Bytes put between buffers, so that panels of a power-of-two size do not start in the same sets of a cache."""


def gather(function: func.FuncOp) -> int:
    """Replaces the static allocations at the top level of `function` by views of a new last argument.

    Returns the bytes that the argument, a ``memref<BYTESxi8>``, must have; 0 when there is none, and then no argument.
    """
    block = function.entry_block
    allocations = [(op, ir.MemRefType(op.memref.type)) for op in block if isinstance(op, memref.AllocOp)]
    allocations = [(op, kind) for op, kind in allocations if kind.has_static_shape]
    if not allocations:
        return 0
    offsets, total = [], 0
    for _, kind in allocations:
        offsets.append(total)
        total += -(-bytes_of(kind) // _ALIGNMENT) * _ALIGNMENT + _STAGGER
    with function.context, function.location:
        workspace_type = ir.MemRefType.get([total], ir.IntegerType.get_signless(8))
        inputs, results = function.type.inputs, function.type.results
        attributes = list(function.arg_attrs) if function.arg_attrs else [ir.DictAttr.get({})] * len(inputs)
        workspace = block.add_argument(workspace_type, function.location)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*inputs, workspace_type], results))
        function.arg_attrs = [*attributes, ir.DictAttr.get({})]
        for (op, kind), offset in zip(allocations, offsets, strict=True):
            with ir.InsertionPoint(op):
                start = arith.constant(ir.IndexType.get(), offset)
                view = memref.view(kind, workspace, start, [])
            op.memref.replace_all_uses_with(view)
            op.erase()
    return total


def bytes_of(kind: ir.MemRefType) -> int:
    """Bytes of a memref of static shape without gaps."""
    # `ir.Type` itself has no width.
    element = ir.IntegerType if isinstance(kind.element_type, ir.IntegerType) else ir.FloatType
    return prod(kind.shape) * element(kind.element_type).width // 8
