# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Moves what is read and computed to where it is used, so that what follows the sums of a tile goes through them a few rows at a time.

Vectors of a whole tile are unrolled op by op: all reads come before all conversions, and those before all writes. LLVM keeps the order of
reads and writes, as it does not know that they meet nowhere. A block of tile registers has more rows than there are vector registers: of
32 x 32 sums that become bf16, half were spilled.
"""

from __future__ import annotations

from tilewright.build.usedef import VIEWS, accesses, defined_by, definition, in_block, named, operations, upwards
from tilewright.mlir import ir

_READS, _WRITES = ("vector.load", "vector.transfer_read"), ("vector.store", "vector.transfer_write")
_HARMLESS = (*_READS, "memref.load", "memref.prefetch")
_PURE = ("arith.", "math.", "vector.", "affine.apply", "ub.poison")
_IMPURE = (*_WRITES, "vector.maskedload", "vector.maskedstore", "vector.gather", "vector.scatter")
_AT_ONCE = 8
"""Writes for which all is computed together: a core has something to do while it waits. Measured on one core of a virtual Granite Rapids
(2026-11-30), times the speed of all at once, with 1, 4, 8 and 16, the geometric mean of five products each: bf16 to bf16 1.06, 1.05, 1.05,
1.06, with bias and gelu 0.98, 1.01, 1.04, 1.03, with bias and residual 1.05, 1.08, 1.11, 1.09; u8 by i8 to f32 with a scale and silu, 4 to
16, 1.13, 1.13, 1.08. Sums in vector registers gain nothing."""


def move(function: ir.Operation) -> None:
    """Moves reads, and what is computed from them, to the writes that use them, in the blocks of `function` that read tiles' sums.

    Before::

        for each row: v[row] = tile[row];  for each row: w[row] = f(v[row]);  for each row: C[row] = w[row]

    After::

        for each few rows: v[row] = tile[row] of each;  w[row] = f(v[row]) of each;  C[row] = w[row] of each

    Moved are reads of the stack that nothing in their block writes later, and of operands that nothing writes: a result overlaps none.
    """
    for block in _blocks(function):
        *order, end = _by_use(in_block(block))
        for op in order:
            op.move_before(end)


def _blocks(function: ir.Operation) -> list[ir.Block]:
    """The blocks that read from the stack."""
    found: list[ir.Block] = []
    for buffer in named(function, "memref.alloca"):
        found += [op.block for op, _ in accesses(buffer.results[0]) if op.name in _READS and op.block not in found]
    return found


def _by_use(ops: list[ir.Operation]) -> list[ir.Operation]:
    """The ops of a block in an order in which what can move comes right before its first use, or before a group of writes."""
    places = {op: place for place, op in enumerate(ops)}
    waiting = {op for op in ops if _can_move(op, places)}
    order: list[ir.Operation] = []
    for group in _groups([each for each in ops if each not in waiting]):
        needed = _needed(group, waiting)
        waiting -= needed
        order += sorted(needed, key=places.__getitem__)
        order += group
    return order


def _groups(ops: list[ir.Operation]) -> list[list[ir.Operation]]:
    """The ops one by one, and writes that follow each other by `_AT_ONCE`."""
    groups: list[list[ir.Operation]] = []
    for op in ops:
        if op.name in _WRITES and groups and groups[-1][0].name in _WRITES and len(groups[-1]) < _AT_ONCE:
            groups[-1].append(op)
        else:
            groups.append([op])
    return groups


def _needed(group: list[ir.Operation], waiting: set[ir.Operation]) -> set[ir.Operation]:
    """Those of the ops that wait which it takes to run a group."""
    needed: set[ir.Operation] = set()
    work = list(group)
    while work:
        for each in operations(work.pop()):
            for made in map(definition, each.operands):
                if made is not None and made in waiting and made not in needed:
                    needed.add(made)
                    work.append(made)
    return needed


def _can_move(op: ir.Operation, places: dict[ir.Operation, int]) -> bool:
    """Whether an op may come later in its block than it does."""
    used = any(True for result in op.results for _ in result.uses)
    if not used or op.regions:
        return False
    if op.name in _READS:
        return _is_read_only(op.operands[0], places[op], places)
    return op.name.startswith(_PURE) and op.name not in _IMPURE


def _is_read_only(base: ir.Value, since: int, places: dict[ir.Operation, int]) -> bool:
    """Whether nothing writes memory from some place in the block on: a buffer on the stack, or an operand."""
    while (made := definition(base)) is not None and made.name in VIEWS:
        base = made.operands[0]
    stack = defined_by(base, "memref.alloca") is not None
    if not stack and not (isinstance(base.owner, ir.Block) and base.owner.owner.operation.name == "func.func"):
        return False
    others = [op for op, _ in accesses(base) if op.name not in _HARMLESS]
    # One in another block runs before this one, or after it.
    within = [places[around] for op in others for around in (op, *upwards(op)) if around in places]
    return all(place < since for place in within) if stack else not others
