# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns the marked products of strategy `outer_product`, on memrefs, into calls of the functions that run in streaming mode.

The strategy has tiled them for the caches, by ordinary vectors' rules; here each block of an operand gets its packing where
the block begins to exist, so that a block of B is packed once for all blocks of A, and the product of two blocks its call.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.lowering import streaming
from tilewright.lowering.slices import definition, is_below
from tilewright.lowering.stored import swapped
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref
from tilewright.schedules import outer_blocks
from tilewright.schedules.blocking import Blocking, ceil_div
from tilewright.schedules.outer_product import MARK
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.outer_products import OuterProduct

HOIST = "builtin.module(canonicalize, func.func(loop-invariant-code-motion))"
"""Slices leave the loops that they do not depend on."""


def call(function: func.FuncOp, spec: MatmulSpec, target: Target, sizes: Blocking) -> None:
    """Replaces the marked product of a bufferised function, whose slices `HOIST` has moved.

    Before::

        fill C with 0
        for jc: b = B[...]
          for pc, ic: a = A[...]; c = C[...]; product(a, b, c)

    After, with panels_a and panels_b allocated at the beginning::

        for jc: b = B[...]; pack_b(b, panels_b)
          for pc, ic: a = A[...]; pack_a(a, panels_a); c = C[...]; multiply(panels_a, panels_b, c, fresh = pc is 0)
    """
    outer = outer_blocks.require(spec, target)
    product = next(op for op in _walk(function.operation) if MARK in op.attributes)
    a, b, c = list(product.operands)
    with function.context, function.location:
        c = _static(c, function, sizes)
        panels = [
            _pack(function, side, operand, extent, spec, outer, ceil_div(sizes.kc, outer.depth))
            for side, (operand, extent) in enumerate(((a, sizes.mc), (b, sizes.nc)))
        ]
        fill = _fill_of(c, function)
        with ir.InsertionPoint(product):
            fresh = arith.constant(ir.IntegerType.get_signless(1), 0) if fill is None else _first_step(product, c, fill)
            depth = memref.dim(a, arith.constant(ir.IndexType.get(), 1))
            groups = arith.ceildivui(depth, arith.constant(ir.IndexType.get(), outer.depth))
            result = memref.cast(ir.Type.parse(streaming.matrix(spec.acc_type.mlir)), c)
            _call(function, streaming.MULTIPLY, [*panels, result, groups, fresh])
        product.erase()
        if fill is not None:
            fill.erase()


def _walk(op: ir.Operation) -> Iterator[ir.Operation]:
    """All ops below one, outer ones first."""
    for region in op.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _walk(inner.operation)


def _call(function: func.FuncOp, name: str, arguments: list[ir.Value]) -> None:
    """Calls a function at the insertion point, and declares it beside `function`."""
    func.CallOp([], name, arguments)
    with ir.InsertionPoint(function.operation):
        func.FuncOp(name, ([each.type for each in arguments], []), visibility="private")


def _pack(
    function: func.FuncOp, side: int, block: ir.Value, extent: int, spec: MatmulSpec, outer: OuterProduct, groups: int
) -> ir.Value:
    """Packs a block of A (`side` 0) or B (1) right behind what makes it. Returns its panels.

    A block has up to `extent` rows of A, or columns of B, of up to `groups` groups of K.
    """
    element = (spec.a_type, spec.b_type)[side]
    rows = ceil_div(extent, outer.most_rows) * outer.most_rows
    panels = ir.MemRefType.get([rows * groups * outer.depth], ir.Type.parse(element.mlir))
    unknown = ir.ShapedType.get_dynamic_size()
    with ir.InsertionPoint.at_block_begin(function.entry_block):
        allocation = memref.AllocOp(panels, [], [])
        to = memref.cast(ir.MemRefType.get([unknown], panels.element_type), allocation)
    # K lies side by side in rows of A, and in columns of B, unless they are stored transposed.
    strides, _ = ir.MemRefType(block.type).get_strides_and_offset()
    along_k = strides[1 - side] == 1
    with _behind(block, to):
        matrix = block if along_k == (side == 0) else _transposed(block)
        source = memref.cast(ir.Type.parse(streaming.matrix(element.mlir)), matrix)
        packer = streaming.PACK_ROWS if along_k else streaming.PACK_COLUMNS
        _call(function, streaming.pack_name(packer, side), [source, to])
    return to


def _behind(block: ir.Value, panels: ir.Value) -> ir.InsertionPoint:
    """Behind the op that makes a block of an operand, or, where it is an argument, its panels."""
    maker = definition(block) or definition(panels)
    assert maker is not None, "panels are a view of an allocation"
    return ir.InsertionPoint.after(maker)


def _transposed(matrix: ir.Value) -> ir.Value:
    """A view with rows and columns swapped."""
    permutation = ir.AffineMapAttr.get(ir.AffineMap.get_permutation([1, 0]))
    return memref.TransposeOp(swapped(ir.MemRefType(matrix.type)), matrix, permutation).result


def _static(c: ir.Value, function: func.FuncOp, sizes: Blocking) -> ir.Value:
    """The block of sums `c`, where that is an allocation as large as a short block, taken out of one that any block fits in.

    Only allocations of static sizes become part of the workspace.
    """
    allocation = definition(c)
    if allocation is None or allocation.name != "memref.alloc" or ir.MemRefType(c.type).has_static_shape:
        return c
    kind, most = ir.MemRefType(c.type), [sizes.mc, sizes.nc]
    with ir.InsertionPoint.at_block_begin(function.entry_block):
        whole = memref.AllocOp(ir.MemRefType.get(most, kind.element_type), [], [])
    layout = ir.StridedLayoutAttr.get(0, [sizes.nc, 1])
    with ir.InsertionPoint(allocation):
        part = memref.SubViewOp(
            ir.MemRefType.get(kind.shape, kind.element_type, layout),
            whole,
            [],
            list(allocation.operands),
            [],
            *(ir.DenseI64ArrayAttr.get(each) for each in ([0, 0], kind.shape, [1, 1])),
        ).result
    c.replace_all_uses_with(part)
    allocation.erase()
    return part


def _root(value: ir.Value) -> ir.Value:
    """The argument or allocation that a view is one of."""
    maker = definition(value)
    while maker is not None and maker.name in ("memref.subview", "memref.cast"):
        value = maker.operands[0]
        maker = definition(value)
    return value


def _fill_of(c: ir.Value, function: func.FuncOp) -> ir.Operation | None:
    """The op that fills what `c` is a part of with zeros; None where sums are added to what is there."""
    fills = (op for op in _walk(function.operation) if op.name == "linalg.fill")
    return next((op for op in fills if _root(op.operands[1]) == _root(c)), None)


def _first_step(product: ir.Operation, c: ir.Value, fill: ir.Operation) -> ir.Value:
    """Whether a product is the first one that adds to its block of C: loops that C's block does not depend on have begun."""
    used = set(_makers(c))
    first = arith.constant(ir.IntegerType.get_signless(1), 1)
    loop = product.parent
    while loop is not None and loop.name == "scf.for" and not is_below(fill, loop):
        variable = loop.regions[0].blocks[0].arguments[0]
        if variable not in used:
            begins = arith.cmpi(arith.CmpIPredicate.eq, variable, loop.operands[0])
            first = arith.andi(first, begins)
        loop = loop.parent
    return first


def _makers(value: ir.Value) -> Iterator[ir.Value]:
    """A value and all that it is made from."""
    yield value
    maker = definition(value)
    for operand in () if maker is None else maker.operands:
        yield from _makers(operand)
