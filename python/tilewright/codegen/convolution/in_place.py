# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets a bufferized product read its A where it lies, where packing would make panels in the order that A has already.

Panels of all of K, of an A without gaps, are its rows one after the other. Upstream folds a copy whose source is not written, but not
one that loops and vectors were made of.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.build.affine import terms
from tilewright.build.index import Number, mul, total, value
from tilewright.build.usedef import accesses, defined_by, erase, parent, upwards
from tilewright.build.views import DYNAMIC, offsets_of, reinterpreted
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY
from tilewright.spec import MatmulSpec


def read(module: ir.Module, spec: MatmulSpec) -> bool:
    """Lets the product of `module` read A, which has no gaps, in place; returns whether it does.

    Before: ``for ir: for i: for k: panels[ir / mr][i][k:k+L] = A[ic + ir + i][k:k+L]``, and reads of ``panels``. After, with no such
    loop, ``panels`` is A from row ic on, of the shape [rows / mr][mr][K].

    Nothing is changed where panels are anything else: of a part of K, of more rows than A has, in another order, or computed.
    """
    function = next(op for op in module.body if isinstance(op, func.FuncOp) and op.name.value == ENTRY)
    copies = list(_copies(function.arguments[0], ()))
    if not copies or any(write.name != "vector.transfer_write" for _, write, _ in copies):
        return False
    buffer, *others = [_panels(write.operands[1]) for _, write, _ in copies]
    if buffer is None or any(each is None or each != buffer for each in others):
        return False
    kind = ir.MemRefType(buffer.type)
    _, rows, depth = kind.shape if kind.rank == 3 else (0, 1, 0)
    if depth != spec.k or spec.m % rows:
        return False
    writes = [write for _, write, _ in copies]
    touching = [op for op, _ in accesses(buffer)]
    reads = [op for op in touching if op.name == "vector.transfer_read"]
    if len(reads) + len(writes) != len(touching):
        return False
    roots = [_outermost(write, reads) for write in writes]
    if any(root != roots[0] for root in roots):
        return False
    with function.context, function.location:
        first = [each for each in copies[0][2] if not _is_counted_in(each, roots[0])]
        with ir.InsertionPoint(roots[0]):
            start = value(mul(total(first), spec.k))
            layout = ir.StridedLayoutAttr.get(DYNAMIC, [rows * depth, depth, 1])
            lies = ir.MemRefType.get(kind.shape, kind.element_type, layout)
            buffer.replace_all_uses_with(reinterpreted(lies, function.arguments[0], [start]))
        erase(roots[0])
    return True


_Copy = tuple[ir.Operation, ir.Operation, tuple[Number, ...]]
"""A read of a vector, a use of it, which may write it elsewhere, and the rows that it is of: the sum of what is listed."""


def _copies(view: ir.Value, rows: tuple[Number, ...]) -> Iterator[_Copy]:
    """The reads of vectors of rows of a view, each with what uses it."""
    for use in view.uses:
        op = use.owner.operation
        if op.name == "memref.subview":
            yield from _copies(op.results[0], (*rows, *terms(offsets_of(op)[0])))
        elif op.name == "vector.transfer_read":
            found = (*rows, *terms(op.operands[1]))
            for taken in op.results[0].uses:
                yield op, taken.owner.operation, found


def _panels(written: ir.Value) -> ir.Value | None:
    """The buffer that a write goes to; None where it is no view of the workspace."""
    while (slice_ := defined_by(written, "memref.subview")) is not None:
        written = slice_.operands[0]
    return written if defined_by(written, "memref.view") is not None else None


def _outermost(write: ir.Operation, reads: list[ir.Operation]) -> ir.Operation:
    """The outermost op around a write that none of `reads` is in."""
    around = {op for each in reads for op in upwards(parent(each))}
    return next(op for op in list(upwards(write))[::-1] if op not in around)


def _is_counted_in(number: Number, root: ir.Operation) -> bool:
    """Whether a loop in `root` counts a number."""
    if not isinstance(number, ir.Value) or not isinstance(number.owner, ir.Block):
        return False
    return any(op == root for op in upwards(number.owner.owner.operation))
