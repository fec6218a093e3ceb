# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stores panels of A tile after tile where tile registers multiply, so that a tile is one piece of memory: 16 rows of 64 bytes, a KiB.

In a panel row after row, the rows of a tile are as far apart as the panel is deep, often a power of two: 1024 bytes apart all sixteen are
in four sets of L1. A step of a panel of B is one piece of memory as it is.

Upstream's `structured.pad` and `hoist_pad` make such panels of pieces as deep as a step of the hot loop, but then read A in columns of
lines, one line of each row. Here rows are read as they lie, and only written to one tile after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.index import known
from tilewright.build.usedef import accesses, body, definition, named
from tilewright.lowering.passes import workspace
from tilewright.mlir import ir
from tilewright.mlir.dialects import affine, func, memref, vector
from tilewright.targets.dots import AMX_ROW_BYTES

_READ, _WRITE = "vector.transfer_read", "vector.transfer_write"
_ROWS_AND_COLUMNS = 2


def place(function: func.FuncOp) -> None:
    """Gives panels of `function` whose tiles are less than their rows the order of tiles.

    Before: ``packed_a[ir][mr][kc]``, of which a step reads ``[ir][0:mr, k:k+t]``. After, with t the elements of 64 bytes::

        packed_a[ir][kc / t][mr][t], of which a step reads [ir][k / t][0:mr, 0:t]
    """
    for op in named(function.operation, "memref.alloc"):
        kind = ir.MemRefType(op.results[0].type)
        if not kind.has_static_shape or kind.rank < 2:
            continue
        width = AMX_ROW_BYTES // workspace.bytes_of(ir.MemRefType.get([1], kind.element_type))
        if _is_of_tiles(op, kind, width):
            with function.context, op.location:
                _reorder(op, kind, width)


def _is_of_tiles(alloc: ir.Operation, kind: ir.MemRefType, width: int) -> bool:
    """Whether each read of a panel is of one tile's columns, of several, and no write is of more."""
    if kind.shape[-1] % width or kind.shape[-1] == width:
        return False
    users = list(accesses(alloc.results[0]))
    reads = [op for op, operand in users if op.name == _READ and operand == 0 and _is_plain(op, kind)]
    writes = [op for op, operand in users if op.name == _WRITE and operand == 1 and _is_plain(op, kind)]
    if not reads or len(reads) + len(writes) < len(users):
        return False
    across = [ir.VectorType(op.results[0].type).shape[-1] for op in reads]
    return all(each == width for each in across) and all(_fits(op, kind, width) for op in (*reads, *writes))


def _is_plain(op: ir.Operation, kind: ir.MemRefType) -> bool:
    """Whether a transfer is of whole vectors of rows and columns, which are the last dimensions of a panel.

    Sums of parts of K are read from several matrices at once.
    """
    shape = _vector(op).shape
    if len(shape) > _ROWS_AND_COLUMNS:
        return False
    order = ir.AffineMap.get_minor_identity(kind.rank, len(shape))
    inside = all(ir.BoolAttr(each).value for each in ir.ArrayAttr(op.attributes["in_bounds"]))
    masked = isinstance(op.operands[len(op.operands) - 1].type, ir.VectorType) and len(op.operands) > kind.rank + 2
    return ir.AffineMapAttr(op.attributes["permutation_map"]).value == order and inside and not masked


def _vector(op: ir.Operation) -> ir.VectorType:
    return ir.VectorType((op.results[0] if op.name == _READ else op.operands[0]).type)


def _indices(op: ir.Operation, kind: ir.MemRefType) -> list[ir.Value]:
    first = 1 if op.name == _READ else 2
    return list(op.operands)[first : first + kind.rank]


def _fits(op: ir.Operation, kind: ir.MemRefType, width: int) -> bool:
    """Whether the columns of a transfer are in one tile."""
    across = _vector(op).shape[-1]
    return width % across == 0 and _is_multiple(_indices(op, kind)[-1], across)


def _is_multiple(value: ir.Value, of: int) -> bool:
    """Whether an index is a multiple, as far as constants, loops and arithmetic show."""
    constant = known(value)
    if constant is not None:
        return constant % of == 0
    op = definition(value)
    if op is None:
        loop = ir.BlockArgument(value).owner.owner
        bounds = list(loop.operands)[:3] if loop.name == "scf.for" and value == body(loop).arguments[0] else []
        return bool(bounds) and _is_multiple(bounds[0], of) and _is_multiple(bounds[2], of)
    if op.name == "arith.select":
        return all(_is_multiple(each, of) for each in list(op.operands)[1:])
    if op.name == "arith.muli":
        return any(_is_multiple(each, of) for each in op.operands)
    if op.name != "affine.apply":
        return False
    mapped = ir.AffineMapAttr(op.attributes["map"]).value
    return _is_multiple_of(mapped.results[0], list(op.operands), mapped.n_dims, of)


def _is_multiple_of(expression: ir.AffineExpr, operands: Sequence[ir.Value], dims: int, of: int) -> bool:
    """The same of an affine expression of operands, the first `dims` of them its dimensions."""
    if isinstance(expression, ir.AffineConstantExpr):
        return expression.value % of == 0
    if isinstance(expression, ir.AffineDimExpr):
        return _is_multiple(operands[expression.position], of)
    if isinstance(expression, ir.AffineSymbolExpr):
        return _is_multiple(operands[dims + expression.position], of)
    if not isinstance(expression, (ir.AffineAddExpr, ir.AffineMulExpr)):
        return False
    found = [_is_multiple_of(side, operands, dims, of) for side in (expression.lhs, expression.rhs)]
    return all(found) if isinstance(expression, ir.AffineAddExpr) else any(found)


def _reorder(alloc: ir.Operation, kind: ir.MemRefType, width: int) -> None:
    """Replaces a panel by one in the order of tiles, with its reads and writes."""
    *outer, rows, columns = kind.shape
    ordered = ir.MemRefType.get([*outer, columns // width, rows, width], kind.element_type)
    with ir.InsertionPoint(alloc):
        panel = memref.AllocOp(ordered, [], [], alignment=alloc.attributes.get("alignment")).memref
    for op, _ in list(accesses(alloc.results[0])):
        shape = _vector(op).shape
        order = ir.AffineMap.get_minor_identity(kind.rank + 1, len(shape))
        inside = [True] * len(shape)
        with ir.InsertionPoint(op):
            *panels, row, column = _indices(op, kind)
            dim = ir.AffineExpr.get_dim(0)
            tile, within = (
                affine.AffineApplyOp(ir.AffineMap.get(1, 0, [each]), [column]).result
                for each in (ir.AffineExpr.get_floor_div(dim, width), dim % width)
            )
            places = [*panels, tile, row, within]
            if op.name == _WRITE:
                vector.TransferWriteOp(None, op.operands[0], panel, places, order, inside)
            else:
                padding = op.operands[1 + kind.rank]
                read = vector.TransferReadOp(op.results[0].type, panel, places, order, padding, inside)
                op.results[0].replace_all_uses_with(read.result)
        op.erase()
    alloc.erase()
