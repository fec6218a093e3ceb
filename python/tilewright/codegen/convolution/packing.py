# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds what packs the first operand of a bufferized product: which rows and columns are moved to which panels, and what reads these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tilewright.build.affine import terms
from tilewright.build.index import Number, known
from tilewright.build.usedef import accesses, defined_by, parent, upwards
from tilewright.build.views import offsets_of
from tilewright.mlir import ir
from tilewright.mlir.dialects import func

_BUFFERS = ("memref.alloc", "memref.view")
"""What makes a buffer of the function's own."""


@dataclass(frozen=True, slots=True)
class Packing:
    """What packs an operand.

    Attributes:
        buffer: The panels: of so many rows each, and so many elements of K.
        roots: The outermost ops that pack: the first one moves elements, others may fill panels up with zeros.
        rows: What the first row is the sum of: variables of loops around them, and numbers.
        parts: The variables of loops around them that the first column is the sum of.
        reads: What reads the panels.
    """

    buffer: ir.Value
    roots: tuple[ir.Operation, ...]
    rows: tuple[Number, ...]
    parts: tuple[Number, ...]
    reads: tuple[ir.Operation, ...]


def found(function: func.FuncOp) -> Packing | None:
    """The packing of the first operand, if all that it does is to move vectors; otherwise None."""
    copies = list(_copies(function.arguments[0], (), ()))
    if not copies or any(write.name != "vector.transfer_write" for write, _, _ in copies):
        return None
    buffer, *others = [_buffer(write.operands[1]) for write, _, _ in copies]
    if buffer is None or any(each is None or each != buffer for each in others):
        return None
    touching = [op for op, _ in accesses(buffer)]
    reads, writes = ([op for op in touching if op.name == f"vector.transfer_{name}"] for name in ("read", "write"))
    if len(reads) + len(writes) != len(touching):
        return None
    roots = {_outermost(write, reads): None for write, _, _ in copies}
    if len(roots) != 1:
        return None
    (root,) = roots
    roots |= {_outermost(write, reads): None for write in writes}
    _, rows, columns = copies[0]
    # The last vector of a row may start at a known column.
    parts = (each for each in columns if known(each) is None)
    return Packing(buffer, tuple(roots), _outside(rows, root), _outside(parts, root), tuple(reads))


_Copy = tuple[ir.Operation, tuple[Number, ...], tuple[Number, ...]]
"""What uses a vector, and the row and the column that this was read from, which are sums of what is listed."""


def _copies(view: ir.Value, rows: tuple[Number, ...], columns: tuple[Number, ...]) -> Iterator[_Copy]:
    """The uses of vectors that are read from a view which starts at this row and column."""
    for use in view.uses:
        op = use.owner.operation
        if op.name == "memref.subview":
            down, right = offsets_of(op)
            yield from _copies(op.results[0], (*rows, *terms(down)), (*columns, *terms(right)))
        elif op.name == "vector.transfer_read":
            down, right = (terms(op.operands[number]) for number in (1, 2))
            for taken in op.results[0].uses:
                yield taken.owner.operation, (*rows, *down), (*columns, *right)


def _buffer(written: ir.Value) -> ir.Value | None:
    """The buffer that a write goes to; None where it is none of the function's own."""
    while (slice_ := defined_by(written, "memref.subview")) is not None:
        written = slice_.operands[0]
    return written if any(defined_by(written, name) is not None for name in _BUFFERS) else None


def _outermost(write: ir.Operation, reads: list[ir.Operation]) -> ir.Operation:
    """The outermost op around a write that none of `reads` is in."""
    around = {op for each in reads for op in upwards(parent(each))}
    return next(op for op in list(upwards(write))[::-1] if op not in around)


def _outside(numbers: Iterable[Number], root: ir.Operation) -> tuple[Number, ...]:
    """Those that no loop in `root` counts."""
    return tuple(each for each in numbers if not _is_counted_in(each, root))


def _is_counted_in(number: Number, root: ir.Operation) -> bool:
    """Whether a loop in `root` counts a number."""
    if not isinstance(number, ir.Value) or not isinstance(number.owner, ir.Block):
        return False
    return any(op == root for op in upwards(number.owner.owner.operation))
