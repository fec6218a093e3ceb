# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns products decided to be outer products, on memrefs, into calls of the functions that run in streaming mode.

The schedule has tiled them for the caches; here each block of an operand gets its packing where
the block begins to exist, so that a block of B is packed once for all blocks of A, and the product of two blocks its call.
"""

from __future__ import annotations

from tilewright.build.index import value
from tilewright.build.views import DYNAMIC, metadata, reinterpreted
from tilewright.codegen import block_products
from tilewright.codegen.streaming import functions as streaming
from tilewright.codegen.streaming import panels as streaming_panels
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref
from tilewright.schedules.decisions import OuterProducts
from tilewright.schedules.models import outer_blocks
from tilewright.schedules.models.blocking import ceil_div
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.outer_products import OuterProduct


def require(spec: MatmulSpec, target: Target, decision: OuterProducts) -> OuterProduct:
    """The instruction; raises `ScheduleError` where `target` has none for `spec`."""
    return outer_blocks.require(spec, target)


def call(function: func.FuncOp, product: ir.Operation, spec: MatmulSpec, target: Target, sizes: OuterProducts) -> None:
    """Replaces a product of a bufferized function that `sizes` is decided for, whose slices `block_products.HOIST` has moved.

    Before::

        fill C with 0
        for jc: b = B[...]
          for pc, ic: a = A[...]; c = C[...]; product(a, b, c)

    After, with panels_a and panels_b allocated at the beginning::

        for jc: b = B[...]; pack_b(b, panels_b)
          for pc, ic: a = A[...]; pack_a(a, panels_a); c = C[...]; multiply(panels_a, panels_b, c, fresh = pc is 0)
    """
    outer = outer_blocks.require(spec, target)
    a, b, c = list(product.operands)
    with function.context, product.location:
        c = block_products.static(c, function, [sizes.mc, sizes.nc])
        panels = [
            _pack(function, side, operand, extent, spec, outer, ceil_div(sizes.kc, outer.depth))
            for side, (operand, extent) in enumerate(((a, sizes.mc), (b, sizes.nc)))
        ]
        fill = block_products.fill_of(c, function)
        with ir.InsertionPoint(product):
            fresh = None if fill is None else block_products.first_step(product, c, fill)
            if fresh is None:
                fresh = arith.constant(ir.IntegerType.get_signless(1), int(fill is not None))
            groups = arith.ceildivui(memref.dim(a, value(1)), value(outer.depth))
            result = memref.cast(ir.Type.parse(streaming_panels.matrix(spec.acc_type.mlir)), c)
            _call(function, streaming.MULTIPLY, [*panels, result, groups, fresh])
        product.erase()
        if fill is not None:
            fill.erase()


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
    with ir.InsertionPoint.at_block_begin(function.entry_block):
        allocation = memref.AllocOp(panels, [], [])
        to = memref.cast(ir.MemRefType.get([DYNAMIC], panels.element_type), allocation)
    # K lies side by side in rows of A, and in columns of B, unless they are stored transposed.
    along_k = (side == 0) != (spec.a_transposed, spec.b_transposed)[side]
    with block_products.behind(block, to):
        source = _matrix(block, element.mlir, swapped=along_k != (side == 0))
        packer = streaming_panels.PACK_ROWS if along_k else streaming_panels.PACK_COLUMNS
        _call(function, streaming_panels.pack_name(packer, side), [source, to])
    return to


def _matrix(block: ir.Value, element: str, *, swapped: bool) -> ir.Value:
    """A block as the functions take it, with rows and columns `swapped` or not; elements of a row are neighbors then.

    Its type need not tell: of one row or column the strides may be any. Without ``memref.transpose``, whose type is that of
    its operand, for that changes when operands are taken as they are stored.
    """
    base, offset, *both = metadata(block)
    sizes, strides = (each[::-1] if swapped else each for each in both)
    kind = ir.MemRefType(ir.Type.parse(streaming_panels.matrix(element)))
    return reinterpreted(kind, base, [offset], sizes, strides[:1])
