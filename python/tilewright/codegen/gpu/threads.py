# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares what a block computes among its threads: from vectors as large as the block's tile to each thread's part of them.

Upstream maps loops to threads, and vectors to the lanes of one warp, but no vectors to the threads of a block.

Before::

    forall (i, j) in blocks:
        for k: sums = contract(read A under a mask, read B under a mask, sums) : vector<bm x bn>
        write C <- f(sums, read bias under a mask) under a mask

After, in each thread, which has so many rows and columns of the tile::

    for k: mine += A * B : vector<rows x columns>      # what is shared here is up to the strategy
    write C <- f(mine, read bias), as far as they are inside
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import element_of, zero
from tilewright.build.index import Index, add, div_rem, value
from tilewright.build.usedef import body, defined_by, retyped
from tilewright.build.views import DYNAMIC, mixed
from tilewright.codegen.gpu import rows
from tilewright.codegen.gpu.fragments import Division, Part, axis_of
from tilewright.errors import LoweringError
from tilewright.lowering.types import double_functions
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref, vector

_AT_ONCE, _FEWER_AT_ONCE = 16, 8
"""Sums of a thread that are finished at once; and of f64, where polynomials of them are computed."""
_BLOCK_ONLY = frozenset({"scf.yield", "vector.transfer_write", "memref.alloc", "memref.dealloc"})
"""Ops without results that a thread has of its own: the end of a step, and the buffers of what prologues make."""


def over_blocks(function: ir.Operation) -> ir.Operation:
    """The one ``scf.forall`` over blocks in a bufferized function.

    Raises:
        LoweringError: There is no such loop.
    """
    loops = [op for op in body(function).operations if op.operation.name == "scf.forall"]
    if len(loops) != 1:
        raise LoweringError(f"{len(loops)} loops over blocks", stage="threads", expected="one scf.forall")
    for op in body(function).operations:
        _refuse_copy(op.operation)
    return loops[0].operation


class Sharing:
    """One loop over blocks on its way to threads; how they multiply is for classes derived from it."""

    def __init__(self, loop: ir.Operation, division: Division) -> None:
        """Makes it for threads that divide the tile so."""
        self._loop = loop
        self._division = division
        self._part = division.part
        self._values: dict[ir.Value, ir.Value] = {}
        self._masks: dict[ir.Value, list[Index]] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        """Buffers of a whole tile, and views of them, with the part of what was written that the thread has."""

    def run(self) -> None:
        """Makes the loop the code of a thread.

        Raises:
            LoweringError: There is an op in it that cannot be shared.
        """
        with ir.InsertionPoint(self._loop):
            self._thread = gpu.thread_id(gpu.Dimension.x)
            self._row, self._column = self._division.origin(self._thread)
            blocks = self._enter_entry(self._loop)
            block = body(blocks)
            at = (gpu.block_id(gpu.Dimension.y), gpu.block_id(gpu.Dimension.x))
            self._values |= dict(zip(block.arguments, at, strict=True))
            self._emit_all(_ops(block))
        self._loop.erase()

    def _enter_entry(self, loop: ir.Operation) -> ir.Operation:
        """Emits what precedes the loop over blocks in one over a batch, whose entry the grid's third axis tells. Returns the former."""
        block = body(loop)
        inner = next((number for number, op in enumerate(_ops(block)) if op.name == "scf.forall"), None)
        if inner is None:
            return loop
        entry: Index = gpu.block_id(gpu.Dimension.z)
        extents = mixed(loop.attributes["staticUpperBound"], map(self._of, loop.operands))
        first, *others = block.arguments
        for argument, extent in zip(reversed(others), reversed(extents[1:]), strict=True):
            entry, place = div_rem(entry, extent)
            self._values[argument] = value(place)
        self._values[first] = value(entry)
        before, found = _ops(block)[:inner], _ops(block)[inner]
        for op in before:
            self._emit(op)
        return found

    def _emit_all(self, ops: list[ir.Operation]) -> None:
        """Emits what a thread does for the ops of a block."""
        sums = next(number for number, op in enumerate(ops) if op.name == "scf.for")
        for op in ops[:sums]:
            self._emit(op)
        self._over_k(ops[sums])
        self._finish(ops[sums], ops[sums + 1 :])

    def _finish(self, over_k: ir.Operation, ops: list[ir.Operation]) -> None:
        """Emits what is done to a thread's sums: to a few of them at a time, so that what is computed fits into registers."""
        sums, part = [self._values[result] for result in over_k.results], self._part
        height, start = len(part.rows), 0
        at_once = _FEWER_AT_ONCE if any(map(_is_function_of_f64, ops)) else _AT_ONCE
        while start < len(part.pieces):
            pieces = [part.pieces[start]]
            while start + len(pieces) < len(part.pieces) and height * sum(each[1] for each in pieces) < at_once:
                pieces.append(part.pieces[start + len(pieces)])
            before = sum(width for _, width in part.pieces[:start])
            self._part = Part(part.rows, tuple(pieces))
            offsets, sizes = [0, before], list(self._part.shape)
            for result, whole in zip(over_k.results, sums, strict=True):
                kind = self._part_type(result.type)
                self._values[result] = vector.extract_strided_slice(kind, whole, offsets, sizes, [1, 1])
            for op in ops:
                self._emit(op)
            start += len(pieces)

    def _emit(self, op: ir.Operation) -> None:
        match op.name:
            case "vector.create_mask":
                self._masks[op.results[0]] = [self._of(operand) for operand in op.operands]
            case "vector.constant_mask":
                pass  # Read where it is used.
            case "vector.transfer_read":
                self._read(op)
            case "vector.transfer_write":
                self._write(op)
            case "linalg.copy" if op.operands[0] in self._whole:
                target = self._of(op.operands[1])
                self._store(self._whole[op.operands[0]], target, [memref.dim(target, value(axis)) for axis in range(2)])
            case "memref.alloc":
                pass  # Of a whole tile, or as far as it goes: what is written to it is kept in registers.
            case "memref.subview" if op.operands[0] in self._whole:
                self._whole[op.results[0]] = self._whole[op.operands[0]]
            case _ if op.results and isinstance(op.results[0].type, ir.VectorType):
                kind = self._part_type(op.results[0].type)
                self._values[op.results[0]] = retyped(op, kind, [self._of(operand) for operand in op.operands])
            case _:
                self._clone(op)

    def _of(self, old: ir.Value) -> ir.Value:
        """The value that stands for `old` in a thread."""
        if old in self._values:
            return self._values[old]
        constant = defined_by(old, "arith.constant")
        if constant is not None and isinstance(old.type, ir.VectorType):
            kind = self._part_type(old.type)
            splat = ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()
            return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        return old

    def _part_type(self, kind: ir.Type) -> ir.VectorType:
        """The type of a thread's part of a vector of the block."""
        return ir.VectorType.get(self._part.shape, ir.VectorType(kind).element_type)

    def _clone(self, op: ir.Operation) -> None:
        if any(operand in known for known in (self._whole, self._masks) for operand in op.operands):
            raise LoweringError(f"{op.name} of a whole tile cannot be shared among threads", stage="threads")
        _refuse_copy(op)
        new = op.clone()
        for number, operand in enumerate(op.operands):
            new.operands[number] = self._of(operand)
        self._values |= dict(zip(op.results, new.results, strict=True))

    def _enter_step(self, block: ir.Block, k: ir.Value) -> None:
        """Emits what the step at `k` does for itself: where slices start, and how far they go."""
        self._values[block.arguments[0]] = k
        for op in block.operations:
            one = op.operation
            vectors = one.results and isinstance(one.results[0].type, ir.VectorType)
            if one.name == "vector.create_mask" or (not vectors and one.name not in _BLOCK_ONLY):
                self._emit(one)

    def _over_k(self, op: ir.Operation) -> None:
        """Emits what a thread does for the loop over K."""
        raise NotImplementedError

    def _operand(self, value_: ir.Value) -> int | None:
        """Which operand of the product this becomes, perhaps after one-operand ops."""
        for use in value_.uses:
            user = use.owner.operation
            if user.name == "vector.contract" and use.operand_number < 2:
                return use.operand_number
            if len(user.operands) == 1 and user.results:
                return self._operand(user.results[0])
        return None

    def _extents(self, op: ir.Operation, view: ir.Value) -> list[Index]:
        """How far each axis of `view` may be read or written by a transfer."""
        for operand in op.operands:
            if operand in self._masks:
                return self._masks[operand]
            mask = defined_by(operand, "vector.constant_mask")
            if mask is not None:
                return list(ir.DenseI64ArrayAttr(mask.attributes["mask_dim_sizes"]))
        shape = ir.MemRefType(view.type).shape
        return [memref.dim(view, value(axis)) if size == DYNAMIC else size for axis, size in enumerate(shape)]

    def _read(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if source in self._whole:
            self._values[result] = self._whole[source]
        elif defined_by(source, "memref.get_global") is not None:
            kind = self._part_type(result.type)
            splat = self._constant(source)
            self._values[result] = arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        else:
            self._values[result] = self._part_of(self._of(source), op)

    def _constant(self, view: ir.Value) -> ir.Attribute:
        """The number that a constant operand consists of."""
        found = defined_by(view, "memref.get_global")
        module = self._loop.parent
        while module is not None and module.name != "builtin.module":
            module = module.parent
        assert found is not None, "it was looked at"
        assert module is not None, "everything is in a module"
        variable = ir.SymbolTable(module)[ir.FlatSymbolRefAttr(found.attributes["name"]).value].operation
        values = ir.DenseElementsAttr(variable.attributes["initial_value"])
        if not values.is_splat:
            raise LoweringError("an operand that is a constant of several numbers", stage="threads")
        return values.get_splat_value()

    def _part_of(self, view: ir.Value, op: ir.Operation) -> ir.Value:
        """The thread's part of an operand that is read as the tile lies, or is broadcast over it."""
        kind = self._part_type(op.results[0].type)
        permutation = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        down, across = (axis_of(each) for each in permutation.results)
        extents, fill = self._extents(op, view), zero(kind.element_type)
        part = zero(kind)
        row: list[ir.Value] = []
        for number, below_first in enumerate(self._part.rows):
            if not row or down is not None:
                at: list[Index] = [0] * permutation.n_dims
                if down is not None:
                    at[down] = add(self._row, below_first)
                row = [self._piece_of(view, at, across, piece, extents, fill) for piece in self._part.pieces]
            column = 0
            for piece in row:
                part = vector.insert_strided_slice(piece, part, [number, column], [1])
                column += ir.VectorType(piece.type).shape[0]
        return part

    def _piece_of(
        self,
        view: ir.Value,
        at: list[Index],
        axis: int | None,
        piece: tuple[int, int],
        extents: list[Index],
        fill: ir.Value,
    ) -> ir.Value:
        """A piece of a row of a part: read along `axis`, or one element for all of it."""
        right, width = piece
        if axis is not None:
            start = [*at]
            start[axis] = add(self._column, right)
            return rows.load(view, start, extents, width, fill)
        kind = ir.VectorType.get([width], fill.type)
        if not at:
            return vector.broadcast(kind, memref.load(view, []))
        return vector.broadcast(kind, vector.extract(rows.load(view, at, extents, 1, fill), [], [0]))

    def _write(self, op: ir.Operation) -> None:
        part, target = self._of(op.operands[0]), op.operands[1]
        if defined_by(target, "memref.alloc") is not None:
            self._whole[target] = part
            return
        view = self._of(target)
        self._store(part, view, self._extents(op, view))

    def _store(self, part: ir.Value, view: ir.Value, extents: Sequence[Index]) -> None:
        """Writes the thread's part."""
        for number, below_first in enumerate(self._part.rows):
            row, column = vector.extract(part, [], [number]), 0
            for right, width in self._part.pieces:
                piece = vector.extract_strided_slice(
                    ir.VectorType.get([width], ir.VectorType(row.type).element_type), row, [column], [width], [1]
                )
                rows.store(piece, view, (add(self._row, below_first), add(self._column, right)), extents)
                column += width


def _is_function_of_f64(op: ir.Operation) -> bool:
    return op.name in double_functions.FUNCTIONS and element_of(op.results[0]) == ir.F64Type.get(op.context)


def _ops(block: ir.Block) -> list[ir.Operation]:
    """Those of a block of a parallel loop, but for its end."""
    return [op.operation for op in block.operations if op.operation.name != "scf.forall.in_parallel"]


def _refuse_copy(op: ir.Operation) -> None:
    """Raises `LoweringError` for an op that every thread would do as a whole: a copy that bufferization found necessary."""
    if op.name.startswith("linalg.") or op.name == "memref.copy":
        raise LoweringError(
            f"{op.name} copies a tensor in memory",
            stage="threads",
            remedy="Let a schedule read and write every tensor once",
        )
