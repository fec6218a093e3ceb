# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scratch buffers that each entry of a batch has for itself: so that threads may compute several entries at once.

A loop over tensors hands on from step to step what it carries, and nothing else. One over entries of a batch carries C. What it
keeps in other buffers, that nothing outside of it uses, no step can have from another. Of memrefs that can no longer be told:
buffers are allocated outside of all loops, once. So the loops are marked while they are of tensors.
"""

from __future__ import annotations

from tilewright.build.usedef import operations, replace, upwards
from tilewright.lowering.passes import workspace
from tilewright.lowering.passes.slices import constant
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref
from tilewright.schedules.models.sizes import ceil_div
from tilewright.schedules.models.threads import take_parts
from tilewright.schedules.steps.marked_loops import BLOCKS, ENTRIES, PARTS, STRIPS, attribute

_MARK = "carries_c"
"""Attribute of a loop over entries of a batch, parts of K or strips of A that carries nothing but C, or their sums."""


def mark(function: func.FuncOp, threads: int, *, entries: bool) -> None:
    """Marks the loops of a scheduled function on tensors whose steps have nothing to do with each other but by C.

    They are those over parts of K, and over strips of A and the blocks of B that these meet, where there are enough for all threads,
    those over blocks of C of their own, where each has one, and with `entries` those over entries of a batch.

    What such a loop carries leads to the function's result: were it in a buffer of its own, that would be copied into C after
    the loop, and so be used outside of it.
    """
    for op in operations(function.operation):
        if op.name != "scf.for" or len(op.results) != 1:
            continue
        steps = ceil_div(constant(op.operands[1]) or 1, constant(op.operands[2]) or 1)
        enough = take_parts(steps, threads) and any(attribute(name) in op.attributes for name in (PARTS, STRIPS))
        enough = enough or (steps >= threads and attribute(BLOCKS) in op.attributes)
        if enough or (entries and attribute(ENTRIES) in op.attributes):
            op.attributes[_MARK] = ir.UnitAttr.get(function.context)


def is_taken_in_turn(loop: ir.Operation) -> bool:
    """Whether it is a loop over entries of a batch, or parts of K, that threads are to take one after the other, and share each."""
    return any(attribute(name) in loop.attributes for name in (ENTRIES, PARTS)) and _MARK not in loop.attributes


def is_own(alloc: ir.Operation, loop: ir.Operation) -> bool:
    """Whether each step of `loop` has an allocation for itself, which is used nowhere but in `loop`."""
    return _MARK in loop.attributes and all(loop in upwards(use.owner.operation) for use in alloc.results[0].uses)


def divide(alloc: ir.Operation, parts: int, part: ir.Value) -> None:
    """Makes an allocation `parts` times as large, of which what comes after the insertion point uses number `part`.

    Before: ``p = alloc``. After: ``q = alloc of as many bytes for each part``, ``p = view of q at part``.
    """
    kind = ir.MemRefType(alloc.results[0].type)
    size = workspace.padded_bytes_of(kind)
    bytes_ = ir.MemRefType.get([parts * size], ir.IntegerType.get_signless(8))
    index = ir.IndexType.get()
    with ir.InsertionPoint(alloc), alloc.location:
        whole = memref.alloc(bytes_, [], [])
    own = memref.view(kind, whole, arith.muli(part, arith.constant(index, size)), [])
    replace(alloc, own)
