# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Use-def queries on ops and values, and how ops are copied, replaced and erased."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilewright.mlir import ir

VIEWS = frozenset(
    {
        "memref.subview",
        "memref.cast",
        "memref.expand_shape",
        "memref.collapse_shape",
        "memref.reinterpret_cast",
        "memref.transpose",
    }
)
"""Ops whose result is another view of their first operand."""


def operations(root: ir.Operation) -> list[ir.Operation]:
    """`root` and the ops in it, each before those in it."""
    found: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(note, ir.WalkOrder.PRE_ORDER)
    return found


def named(root: ir.Operation, *names: str) -> list[ir.Operation]:
    """The ops of these names in `root`."""
    return [op for op in operations(root) if op.name in names]


def body(op: ir.Operation | ir.OpView) -> ir.Block:
    """The first block of an op."""
    return op.operation.regions[0].blocks[0]


def in_block(block: ir.Block) -> list[ir.Operation]:
    """The ops that stand in a block, not those in them."""
    return [each.operation for each in block.operations]


def terminator(block: ir.Block) -> ir.Operation:
    """The last op of a block, which hands on the results."""
    return block.operations[len(block.operations) - 1].operation


def definition(value: ir.Value) -> ir.Operation | None:
    """The op that makes a value; None for a block's argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def defined_by(value: ir.Value, name: str) -> ir.Operation | None:
    """The op of that name that makes a value; None for any other value."""
    op = definition(value)
    return op if op is not None and op.name == name else None


def users(value: ir.Value) -> list[ir.Operation]:
    """The ops that use a value, the last one first."""
    return [use.owner.operation for use in value.uses]


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
            made = definition(value)
            if made is None:
                arguments.add(value)
            else:
                work.append(made)
        for region in op.regions:
            work += [terminator(block) for block in region.blocks]
    return needed, arguments


def parent(op: ir.Operation) -> ir.Operation:
    """The op around `op`, which is in a function."""
    assert op.parent is not None, "it is in a function"
    return op.parent.operation


def upwards(op: ir.Operation) -> Iterator[ir.Operation]:
    """`op` and the ops around it, innermost first, up to the function."""
    while op.name != "func.func":
        yield op
        op = parent(op)


def function_of(op: ir.Operation) -> ir.Operation:
    """The function around an op."""
    while op.name != "func.func":
        op = parent(op)
    return op


def common(ops: Iterable[ir.Operation], function: ir.Operation) -> ir.Operation:
    """The innermost op around all of `ops`."""
    chains = [[*list(upwards(parent(op)))[::-1]] for op in ops]
    around = function
    for level in zip(*chains, strict=False):
        if any(op != level[0] for op in level):
            break
        around = level[0]
    return around


def is_inside(value: ir.Value, op: ir.Operation) -> bool:
    """Whether a value is made inside an op."""
    owner = value.owner
    return is_below(owner.owner.operation, op, itself=True) if isinstance(owner, ir.Block) else is_below(owner, op)


def is_below(inner: ir.Operation | ir.OpView, op: ir.Operation, *, itself: bool = False) -> bool:
    """Whether an op lies in the regions of another one, or is that one when `itself` counts."""
    around = inner.operation if itself else inner.operation.parent
    while around is not None and around.operation != op:
        around = around.operation.parent
    return around is not None


def is_innermost(loop: ir.Operation) -> bool:
    """Whether an op is an scf.for without results, whose body has no ops with regions: one that can be copied op by op."""
    if loop.name != "scf.for" or len(loop.results):
        return False
    return not any(len(op.regions) for op in in_block(body(loop)))


def is_dead(op: ir.Operation, needed: set[ir.Operation]) -> bool:
    """Whether nothing uses the results of `op`, which has some, or regions, and all that is in it was `needed` for what is gone."""
    if not op.results and not op.regions:
        return False
    return needed.issuperset(operations(op)[1:]) and not any(list(result.uses) for result in op.results)


def sweep(block: ir.Block, kept: set[ir.Operation]) -> None:
    """Erases the ops in `block` and below that are not to be kept; users go before what they use."""
    for op in reversed(in_block(block)):
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
            for inner in reversed(in_block(block)):
                erase(inner)
    op.erase()


def replace(op: ir.Operation, *values: ir.Value) -> None:
    """Erases an op after its results were replaced."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def copied(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of `op` that takes `values` in place of others, to which its own results are added."""
    made = op.clone().operation
    for position, operand in enumerate(op.operands):
        if operand in values:
            made.operands[position] = values[operand]
    values |= dict(zip(op.results, made.results, strict=True))
    return made


def retyped(op: ir.Operation, kind: ir.Type, operands: Sequence[ir.Value]) -> ir.Value:
    """The same op on other operands, with a result of another type."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, [kind], list(operands), attributes).results[0]


def retype(function: ir.Operation | ir.OpView, results: Sequence[ir.Type] | None = None) -> None:
    """Gives a function the type that its arguments have by now, and these results, or those that it has."""
    op = function.operation
    if results is None:
        results = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).results
    inputs = [argument.type for argument in body(op).arguments]
    with op.context:
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
