# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands that are stored transposed: from here on, a function takes them as they are stored.

The payload has them as the product needs them, and says of their buffers that the elements of a column lie side by side. What
reads vectors of columns, as packing does, now reads vectors of stored rows.

Upstream has no pass for it: its patterns fold a transposition into what reads all of a buffer, and not a slice of it.
"""

from __future__ import annotations

from tilewright.build.usedef import replace, retype
from tilewright.build.views import DYNAMIC, last_swapped, transposed_type
from tilewright.mlir import ir
from tilewright.mlir.dialects import func, memref, vector

_MATRIX = 2
_Uses = list[tuple[ir.Operation, int]]


def take_as_stored(function: func.FuncOp) -> None:
    """Gives a bufferized function those operands whose columns lie side by side in the shape in which they are stored.

    Before: ``matmul(%b: memref<KxN, strided<[1, ?]>>)``, ``read %b[k, n]``, a vector along k. After::

        matmul(%b: memref<NxK, strided<[?, 1]>>)
        read %b[n, k], a vector along k
    """
    block = function.entry_block
    transposed = [index for index, argument in enumerate(block.arguments) if _is_by_columns(argument)]
    if not transposed:
        return
    with function.context, function.location:
        for index in transposed:
            argument = block.arguments[index]
            uses, logical = _uses(argument), ir.MemRefType(argument.type)
            argument.set_type(transposed_type(logical))
            with ir.InsertionPoint.at_block_begin(block):
                _move(uses, logical, argument)
        retype(function)


def _is_by_columns(argument: ir.Value) -> bool:
    """Whether the elements of a column of a matrix lie side by side, however far apart columns are."""
    if not isinstance(argument.type, ir.MemRefType) or argument.type.rank < _MATRIX:
        return False
    return argument.type.get_strides_and_offset()[0][-_MATRIX:] == [1, DYNAMIC]


def _uses(value: ir.Value) -> _Uses:
    return [(use.owner.operation, use.operand_number) for use in value.uses]


def _move(uses: _Uses, logical: ir.MemRefType, stored: ir.Value) -> None:
    """Lets the uses of a matrix, which had the type `logical`, use it as it is stored.

    Those of kinds that are not known here get a transposed view of it, made at the insertion point.
    """
    view: ir.Value | None = None
    for op, position in uses:
        if op.name == "vector.transfer_read" and position == 0 and logical.rank >= 2:
            _read(op, stored)
        elif op.name == "memref.subview" and position == 0 and _keeps_matrix(op):
            _subview(op, stored)
        else:
            if view is None:
                order = ir.AffineMap.get_permutation(last_swapped(list(range(logical.rank))))
                view = memref.TransposeOp(logical, stored, ir.AffineMapAttr.get(order)).result
            op.operands[position] = view


def _keeps_matrix(op: ir.Operation) -> bool:
    """Whether a slice has the last two dimensions of what it is of, and lacks only others."""
    rank = ir.MemRefType(op.results[0].type).rank
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["static_sizes"]))
    return rank >= 2 and all(size == 1 for size in sizes[: len(sizes) - rank])


def _subview(op: ir.Operation, stored: ir.Value) -> None:
    """Makes it one of the stored matrix."""
    slice_ = op.opview
    assert isinstance(slice_, memref.SubViewOp), "as its name says"
    logical = ir.MemRefType(slice_.result.type)
    if all(step == 1 for step in ir.DenseI64ArrayAttr(op.attributes["static_strides"])):
        # Of several dimensions of one element, its type may have the stride of one that it lacks from here on.
        strides = last_swapped(ir.MemRefType(stored.type).get_strides_and_offset()[0])[-logical.rank :]
        layout = ir.StridedLayoutAttr.get(logical.get_strides_and_offset()[1], strides)
        logical = ir.MemRefType.get(logical.shape, logical.element_type, layout, logical.memory_space)
    static = [list(ir.DenseI64ArrayAttr(op.attributes[f"static_{what}"])) for what in ("offsets", "sizes", "strides")]
    dynamic = [
        _reordered(values, list(given))
        for values, given in zip(static, (slice_.offsets, slice_.sizes, slice_.strides), strict=True)
    ]
    attributes = [ir.DenseI64ArrayAttr.get(last_swapped(values)) for values in static]
    uses = _uses(slice_.result)
    with op.location, ir.InsertionPoint(op):
        view = memref.SubViewOp(transposed_type(logical), stored, *dynamic, *attributes)
        _move(uses, logical, view.result)
    op.erase()


def _reordered(static: list[int], dynamic: list[ir.Value]) -> list[ir.Value]:
    """The values of numbers of which some are static, the last one's before the last but one's."""
    return last_swapped(dynamic) if static[-2:] == [DYNAMIC, DYNAMIC] else dynamic


def _read(op: ir.Operation, stored: ir.Value) -> None:
    """Makes it one of the stored matrix, with the same result."""
    read = op.opview
    assert isinstance(read, vector.TransferReadOp), "as its name says"
    kind = ir.VectorType(read.vector.type)
    rank = ir.MemRefType(stored.type).rank
    swap = ir.AffineMap.get_permutation(last_swapped(list(range(rank))))
    results = [each.compose(swap) for each in ir.AffineMapAttr(op.attributes["permutation_map"]).value.results]
    in_bounds = [ir.BoolAttr(each).value for each in ir.ArrayAttr(op.attributes["in_bounds"])]
    first, second = ir.AffineDimExpr.get(rank - 2), ir.AffineDimExpr.get(rank - 1)
    across = kind.rank == 1 and results == [first]
    if across:  # MLIR reads matrices only in vectors that it can lower.
        results.append(second)
        in_bounds.append(True)
    shape = [*kind.shape, 1] if across else kind.shape
    with op.location, ir.InsertionPoint(op):
        value = vector.TransferReadOp(
            ir.VectorType.get(shape, kind.element_type),
            stored,
            last_swapped(list(read.indices)),
            ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, results)),
            read.padding,
            in_bounds,
            mask=read.mask,
        ).result
        if across:
            value = vector.ShapeCastOp(kind, value).result
    replace(op, value)
