# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gathers scratch buffers into one workspace as `workspace` does, where their sizes are dynamic.

A function beside the one that uses them tells from its operands how many bytes a call needs, so that its entry can ask for all
of them, and refuse cleanly.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import LoweringError
from tilewright.lowering.passes import workspace
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright
from tilewright.mlir.dialects import arith, func, memref

BYTES = "scratch_bytes"
"""The function that tells the bytes."""
_TOO_MANY = 2**62
"""Bytes that nobody has."""
_MOST = 2**56
"""Bytes of one buffer at most: so many buffers of them as there can be are a number of 64 bits."""
_COUNTED = ("memref.dim", "arith.constant", "arith.muli", "affine.apply")
"""What sizes are made of."""


def is_needed(function: func.FuncOp) -> bool:
    """Whether a buffer of `function` has a dynamic size."""
    return any(not ir.MemRefType(op.memref.type).has_static_shape for op in _allocations(function))


def gather_any(module: ir.Module, function: func.FuncOp, *, entered: bool, staggered: bool) -> int:
    """Replaces the allocations at the top level of `function` as `gather` does where a size is dynamic, or as `workspace.gather` does.

    Args:
        module: Where the function is.
        function: The function.
        entered: Whether an entry calls it, which then asks how many bytes a call needs. Otherwise buffers of dynamic sizes stay.
        staggered: Whether the first buffer starts `workspace.STAGGER` bytes on, where all are static.

    Returns:
        The bytes of the new argument; 0 where there is none, or the function `BYTES` tells them.
    """
    sizes = [size for op in _allocations(function) for size in op.dynamicSizes]
    if entered and sizes and all(map(_is_counted, sizes)):
        gather(module, function)
        return 0
    return workspace.gather(function, start=workspace.STAGGER if staggered else 0)


def _is_counted(value: ir.Value) -> bool:
    """Whether a size is made of extents of arguments."""
    if isinstance(value, ir.BlockArgument):
        return True
    op = value.owner.operation
    return op.name in _COUNTED and all(map(_is_counted, op.operands))


def gather(module: ir.Module, function: func.FuncOp) -> None:
    """Replaces the allocations at the top level of `function`, which is in `module`, by views of a new last argument.

    Buffers that are not in use at the same time may share their bytes: of those of dynamic sizes, such as are of
    the same size. Adds the function `BYTES`, of the former arguments of `function`, which returns the bytes that the new one,
    a ``memref<?xi8>``, must have, and more than there are where that is no number of 64 bits.

    Raises:
        LoweringError: A size is not made of extents of arguments.
    """
    allocations = _allocations(function)
    times = workspace.times(function.entry_block, [op.memref for op in allocations])
    known, slots, offsets = 0, [], []
    static = [number for number, op in enumerate(allocations) if ir.MemRefType(op.memref.type).has_static_shape]
    sizes = [workspace.padded_bytes_of(ir.MemRefType(allocations[number].memref.type)) for number in static]
    starts = dict(zip(static, workspace.offsets(sizes, [times[number] for number in static]), strict=True))
    known = max((starts[number] + size for number, size in zip(static, sizes, strict=True)), default=0)
    taken: list[list[int]] = []
    for number, op in enumerate(allocations):
        if number in starts:
            continue
        slot = next(
            (at for at, each in enumerate(slots) if _alike(each, op) and _is_free(taken[at], number, times)), None
        )
        if slot is None:
            slot = len(slots)
            slots.append(op)
            taken.append([])
        taken[slot].append(number)
        offsets.append((number, slot))
    inputs = function.type.inputs
    with function.context, function.location:
        _tell(module, function, slots, known)
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            _, begins = _sum(slots, known, {})
            index = ir.IndexType.get()
            first = [arith.index_cast(index, each) for each in begins]
        given = function.entry_block.add_argument(
            ir.MemRefType.get([_OPEN], ir.IntegerType.get_signless(8)), function.location
        )
        attributes = list(function.arg_attrs) if function.arg_attrs else [ir.DictAttr.get({})] * len(inputs)
        function.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([*inputs, given.type], function.type.results)
        )
        function.arg_attrs = [*attributes, ir.DictAttr.get({})]
        placed = dict(offsets)
        for number, op in enumerate(allocations):
            with ir.InsertionPoint(op):
                start = first[placed[number]] if number in placed else arith.constant(index, starts[number])
                view = memref.view(op.memref.type, given, start, list(op.dynamicSizes))
            op.memref.replace_all_uses_with(view)
        for op in allocations:
            op.erase()


_OPEN = ir.ShapedType.get_dynamic_size()


def _allocations(function: func.FuncOp) -> list[memref.AllocOp]:
    return [op for op in function.entry_block if isinstance(op, memref.AllocOp)]


def _alike(one: memref.AllocOp, other: memref.AllocOp) -> bool:
    """Whether two buffers have the same size, whatever it is."""
    return one.memref.type == other.memref.type and list(one.dynamicSizes) == list(other.dynamicSizes)


def _is_free(users: Sequence[int], number: int, times: Sequence[tuple[int, int]]) -> bool:
    first, last = times[number]
    return all(times[each][0] > last or times[each][1] < first for each in users)


def _tell(module: ir.Module, function: func.FuncOp, slots: Sequence[memref.AllocOp], known: int) -> None:
    """Adds the function that tells the bytes."""
    integer = ir.IntegerType.get_signless(64)
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(BYTES, ir.FunctionType.get(function.type.inputs, [integer]), visibility="private")
    _tilewright.set_attribute(made.operation, "llvm.linkage", "#llvm.linkage<internal>")
    with ir.InsertionPoint(made.add_entry_block()):
        total, _ = _sum(slots, known, dict(zip(function.arguments, made.arguments, strict=True)))
        func.ReturnOp([total])


def _sum(
    slots: Sequence[memref.AllocOp], known: int, values: dict[ir.Value, ir.Value]
) -> tuple[ir.Value, list[ir.Value]]:
    """The bytes of all, and where each slot starts, as ops at the insertion point.

    `values` are what stands there for the values that sizes are made of; themselves where there is nothing.
    """
    integer = ir.IntegerType.get_signless(64)

    def number(value: int) -> ir.Value:
        return arith.constant(integer, value)

    total, fits, starts = number(known), arith.constant(ir.IntegerType.get_signless(1), 1), []
    none, most = number(0), number(_MOST)
    for op in slots:
        kind = ir.MemRefType(op.memref.type)
        of_one = workspace.bytes_of(
            ir.MemRefType.get([size for size in kind.shape if size != _OPEN], kind.element_type)
        )
        size = number(of_one)
        for extent in op.dynamicSizes:
            size, beyond = arith.mului_extended(size, arith.index_cast(integer, _copied(extent, values)))
            fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.eq, beyond, none))
        fits = arith.andi(fits, arith.cmpi(arith.CmpIPredicate.ult, size, most))
        unit = number(workspace.ALIGNMENT)
        whole = arith.muli(arith.ceildivui(size, unit), unit)
        starts.append(total)
        total = arith.addi(total, arith.addi(whole, number(workspace.STAGGER)))
    return arith.select(fits, total, number(_TOO_MANY)), starts


def _copied(value: ir.Value, values: dict[ir.Value, ir.Value]) -> ir.Value:
    """What computes `value`, again at the insertion point."""
    if value in values:
        return values[value]
    if isinstance(value, ir.BlockArgument):
        return value
    op = value.owner.operation
    if op.name not in _COUNTED:
        raise LoweringError(f"the size of a buffer is made by {op.name}", stage="bufferized")
    operands = [_copied(each, values) for each in op.operands]
    made = op.clone()
    for at, operand in enumerate(operands):
        made.operands[at] = operand
    values[value] = made.results[0]
    return made.results[0]
