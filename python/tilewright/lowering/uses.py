# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What in a function uses what: the uses of a buffer, what an op needs, what is around it, and how the rest is erased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilewright.mlir import ir

VIEWS = frozenset(
    {"memref.subview", "memref.cast", "memref.expand_shape", "memref.collapse_shape", "memref.reinterpret_cast"}
)
"""Ops whose result is another view of their first operand."""


def accesses(buffer: ir.Value) -> Iterator[tuple[ir.Operation, int]]:
    """The ops that use `buffer` or a view of it, each with the operand that it is."""
    for use in buffer.uses:
        op = use.owner.operation
        if op.name in VIEWS:
            yield from accesses(op.results[0])
        else:
            yield op, use.operand_number


def backward(roots: Iterable[ir.Operation], function: ir.Operation) -> tuple[set[ir.Operation], set[ir.Value]]:
    """The ops of `function` that it takes to run `roots`, and the block arguments that those use."""
    needed: set[ir.Operation] = set()
    arguments: set[ir.Value] = set()
    work = list(roots)
    while work:
        op = work.pop()
        if op in needed or op == function:
            continue
        needed.add(op)
        work.append(parent(op))
        for value in op.operands:
            owner = value.owner
            if isinstance(owner, ir.Block):
                arguments.add(value)
            else:
                work.append(owner.operation)
        for region in op.regions:
            # The last op of a block hands on the results.
            work += [block.operations[len(block.operations) - 1].operation for block in region.blocks]
    return needed, arguments


def sweep(block: ir.Block, kept: set[ir.Operation]) -> None:
    """Erases the ops in `block` and below that are not to be kept; users go before what they use."""
    for op in reversed([op.operation for op in block]):
        if op not in kept:
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                sweep(inner, kept)


def erase(op: ir.Operation) -> None:
    """Erases `op` with all that is in it, inner ops first.

    Of ops that went with the one around them Python still has what it knew, and takes new ones at their address for them.
    """
    for region in op.regions:
        for block in region.blocks:
            for inner in reversed([each.operation for each in block.operations]):
                erase(inner)
    op.erase()


def is_innermost(loop: ir.Operation) -> bool:
    """Whether an op is an scf.for without results, whose body has no ops with regions: one that can be copied op by op."""
    if loop.name != "scf.for" or len(loop.results):
        return False
    return not any(len(op.operation.regions) for op in loop.regions[0].blocks[0].operations)


def is_dead(op: ir.Operation, needed: set[ir.Operation]) -> bool:
    """Whether nothing uses the results of `op`, which has some, or regions, and all that is in it was `needed` for what is gone."""
    if not op.results and not op.regions:
        return False
    inner = inside(op)[1:]
    return needed.issuperset(inner) and not any(list(result.uses) for result in op.results)


def in_order(function: ir.Operation) -> list[ir.Operation]:
    """The ops in `function`, each before those in it."""
    return [op for each in function.regions[0].blocks[0] for op in inside(each.operation)]


def inside(op: ir.Operation) -> list[ir.Operation]:
    """An op and those in it, each before those in it."""
    ops: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        ops.append(op)
        return ir.WalkResult.ADVANCE

    op.walk(note, ir.WalkOrder.PRE_ORDER)
    return ops


def parent(op: ir.Operation) -> ir.Operation:
    """The op around `op`, which is in a function."""
    assert op.parent is not None, "it is in a function"
    return op.parent.operation


def upwards(op: ir.Operation) -> Iterator[ir.Operation]:
    """`op` and the ops around it, innermost first, up to the function."""
    while op.name != "func.func":
        yield op
        op = parent(op)


def common(ops: Iterable[ir.Operation], function: ir.Operation) -> ir.Operation:
    """The innermost op around all of `ops`."""
    chains = [[*list(upwards(parent(op)))[::-1]] for op in ops]
    around = function
    for level in zip(*chains, strict=False):
        if any(op != level[0] for op in level):
            break
        around = level[0]
    return around
