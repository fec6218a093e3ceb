# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gathers a function's scratch buffers into one workspace, which the entry asks for once a call and can refuse cleanly.

Upstream has no pass for it: its allocations cannot fail but by crashing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref

ALIGNMENT = 128
"""Bytes, two cache lines: panels start on a line, whatever stands before them."""
STAGGER = 1024
"""Bytes put between buffers, so that panels of a power-of-two size do not start in the same sets of a cache."""


def gather(function: func.FuncOp, *, reuse: bool = False, start: int = 0) -> int:
    """Replaces the static allocations at the top level of `function` by views of a new last argument.

    With `reuse`, buffers that are not in use at the same time may share their bytes. The first one starts at byte `start`, such as
    `STAGGER`: the argument starts with a page, as operands may.

    Returns the bytes that the argument, a ``memref<BYTESxi8>``, must have; 0 when there is none, and then no argument.
    """
    block = function.entry_block
    allocations = [(op, ir.MemRefType(op.memref.type)) for op in block if isinstance(op, memref.AllocOp)]
    allocations = [(op, kind) for op, kind in allocations if kind.has_static_shape]
    if not allocations:
        return 0
    sizes = [padded_bytes_of(kind) for _, kind in allocations]
    used = times(block, [op.memref for op, _ in allocations]) if reuse else [(0, 1)] * len(sizes)
    starts = offsets(sizes, used, start)
    total = max(offset + size for offset, size in zip(starts, sizes, strict=True))
    with function.context, function.location:
        workspace_type = ir.MemRefType.get([total], ir.IntegerType.get_signless(8))
        inputs, results = function.type.inputs, function.type.results
        attributes = list(function.arg_attrs) if function.arg_attrs else [ir.DictAttr.get({})] * len(inputs)
        workspace = block.add_argument(workspace_type, function.location)
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*inputs, workspace_type], results))
        function.arg_attrs = [*attributes, ir.DictAttr.get({})]
        for (op, kind), offset in zip(allocations, starts, strict=True):
            with ir.InsertionPoint(op):
                start = arith.constant(ir.IndexType.get(), offset)
                view = memref.view(kind, workspace, start, [])
            op.memref.replace_all_uses_with(view)
            op.erase()
    return total


def offsets(sizes: Sequence[int], times: Sequence[tuple[int, int]], least: int = 0) -> list[int]:
    """Where each buffer starts: at the first place from `least` on where none lies that is in use at the same time."""
    offsets: list[int] = []
    for number, (size, (first, last)) in enumerate(zip(sizes, times, strict=True)):
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in range(number)
            if times[other][0] <= last and first <= times[other][1]
        )
        offset = least
        for start, end in taken:
            if offset + size <= start:
                break
            offset = max(offset, end)
        offsets.append(offset)
    return offsets


def times(block: ir.Block, buffers: Sequence[ir.Value]) -> list[tuple[int, int]]:
    """For each buffer the first and the last op of `block` that uses it, or what is made of it."""
    order = {op.operation: number for number, op in enumerate(block.operations)}
    found = []
    for buffer in buffers:
        uses: list[int] = []
        values = [buffer]
        while values:
            for use in values.pop().uses:
                op = use.owner.operation
                values += [each for each in op.results if isinstance(each.type, ir.MemRefType)]
                while op not in order:
                    op = op.parent.operation  # type: ignore[union-attr] - `block` is around it
                uses.append(order[op])
        found.append((min(uses, default=0), max(uses, default=0)))
    return found


def padded_bytes_of(kind: ir.MemRefType) -> int:
    """Bytes from one buffer to the next."""
    return -(-bytes_of(kind) // ALIGNMENT) * ALIGNMENT + STAGGER


def bytes_of(kind: ir.MemRefType) -> int:
    """Bytes of a memref of static shape without gaps; a bit has a byte of its own."""
    # `ir.Type` itself has no width.
    element = ir.IntegerType if isinstance(kind.element_type, ir.IntegerType) else ir.FloatType
    return prod(kind.shape) * max(element(kind.element_type).width, 8) // 8
