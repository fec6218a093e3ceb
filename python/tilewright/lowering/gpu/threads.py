# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shares what a block computes among its threads: from vectors as large as the block's tile to each thread's part of them.

Upstream maps loops to threads, and vectors to the lanes of one warp, but no vectors to the threads of a block.

Before::

    forall (i, j) in blocks:
        for k: sums = contract(read A under a mask, read B under a mask, sums) : vector<bm x bn>
        write C <- f(sums, read bias under a mask) under a mask

After, in each thread, which has so many rows and columns of the tile::

    for k:
        tile_a = A, tile_b = B, a piece of each by each thread;  barrier
        mine += tile_a * tile_b : vector<rows x columns>
        barrier
    write C <- f(mine, read bias), as far as they are inside

Where copies into shared memory can go on by themselves, tiles have several slots::

    begin the copies of the first steps, a group each
    for k:
        await the oldest group;  barrier
        begin the copies for the step that is so many ahead
        mine += tile_a[slot] * tile_b[slot];  slot = the next one
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import rows, staging
from tilewright.lowering.gpu.index import Index, add, below, value
from tilewright.lowering.gpu.parts import Multiplier, Staged, retyped
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref, nvvm, scf, vector


def share(function: ir.Operation, multiplier: Multiplier, *, aligned: bool = False) -> None:
    """Makes the one ``scf.forall`` over blocks in a bufferised function the code of a thread.

    `aligned` says that every row of A and B starts at a multiple of 16 bytes: then copies into shared memory go on by
    themselves, if the multiplier has stages for them.

    Raises:
        LoweringError: There is no such loop, or an op in it that cannot be shared.
    """
    loops = [op for op in function.regions[0].blocks[0].operations if op.operation.name == "scf.forall"]
    if len(loops) != 1:
        raise LoweringError(f"{len(loops)} loops over blocks", stage="threads", expected="one scf.forall")
    with function.context, function.location:
        _Sharing(loops[0].operation, multiplier, aligned=aligned).run()


class _Sharing:
    """One loop over blocks on its way to threads."""

    def __init__(self, loop: ir.Operation, multiplier: Multiplier, *, aligned: bool) -> None:
        self._loop = loop
        self._multiplier = multiplier
        self._part = multiplier.part
        self._aligned = aligned
        self._values: dict[ir.Value, ir.Value] = {}
        self._masks: dict[ir.Value, list[Index]] = {}
        self._staged: dict[ir.Value, Staged] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        """Buffers of a whole tile, and views of them, with the part of what was written that the thread has."""

    def run(self) -> None:
        block = self._loop.regions[0].blocks[0]
        with ir.InsertionPoint(self._loop):
            for argument, axis in zip(block.arguments, (gpu.Dimension.y, gpu.Dimension.x), strict=True):
                self._values[argument] = gpu.block_id(axis)
            thread = gpu.thread_id(gpu.Dimension.x)
            self._team = staging.Team(thread, self._multiplier.threads, self._aligned)
            self._row, self._column = self._multiplier.origin(thread)
            for op in block.operations:
                if op.operation.name != "scf.forall.in_parallel":
                    self._emit(op.operation)
        self._loop.erase()

    def _emit(self, op: ir.Operation) -> None:
        match op.name:
            case "scf.for":
                self._for(op)
            case "vector.create_mask":
                self._masks[op.results[0]] = [self._of(operand) for operand in op.operands]
            case "vector.constant_mask":
                pass  # Read where it is used.
            case "vector.transfer_read":
                self._read(op)
            case "vector.transfer_write":
                self._write(op)
            case "vector.contract":
                gpu.barrier()
                self._contract(op, 0)
                gpu.barrier()
            case "linalg.copy" if op.operands[0] in self._whole:
                target = self._of(op.operands[1])
                self._store(self._whole[op.operands[0]], target, [memref.dim(target, value(axis)) for axis in range(2)])
            case "memref.alloc":
                pass  # Of a whole tile: what is written to it is kept in registers.
            case "memref.subview" if op.operands[0] in self._whole:
                self._whole[op.results[0]] = self._whole[op.operands[0]]
            case _ if len(op.operands) == 1 and op.operands[0] in self._staged:
                staged = self._staged[op.operands[0]]
                self._staged[op.results[0]] = Staged(staged.tile, (*staged.done, op))
            case _ if op.results and isinstance(op.results[0].type, ir.VectorType):
                kind = self._part_type(op.results[0].type)
                self._values[op.results[0]] = retyped(op, kind, [self._of(operand) for operand in op.operands])
            case _:
                self._clone(op)

    def _of(self, old: ir.Value) -> ir.Value:
        """The value that stands for `old` in a thread."""
        if old in self._values:
            return self._values[old]
        constant = _defined_by(old, "arith.constant")
        if constant is not None and isinstance(old.type, ir.VectorType):
            kind = self._part_type(old.type)
            splat = ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()
            return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        return old

    def _part_type(self, kind: ir.Type) -> ir.VectorType:
        """The type of a thread's part of a vector of the block."""
        return ir.VectorType.get(self._part.shape, ir.VectorType(kind).element_type)

    def _clone(self, op: ir.Operation) -> None:
        if any(operand in known for known in (self._whole, self._masks, self._staged) for operand in op.operands):
            raise LoweringError(f"{op.name} of a whole tile cannot be shared among threads", stage="threads")
        new = op.clone()
        for number, operand in enumerate(op.operands):
            new.operands[number] = self._of(operand)
        self._values |= dict(zip(op.results, new.results, strict=True))

    # The loop over K.

    def _for(self, op: ir.Operation) -> None:
        """Threads bring tiles to shared memory, meet, and multiply."""
        block = op.regions[0].blocks[0]
        lower, upper, step, *start = (self._of(operand) for operand in op.operands)
        self._place_tiles(block)
        ahead = self._stages(block) - 1
        for number in range(ahead):
            self._begin(block, _steps_later(lower, step, number), upper, number)
        loop = scf.ForOp(lower, upper, step, [*start, value(0)])
        *sums, slot = loop.inner_iter_args
        with ir.InsertionPoint(loop.body):
            self._values |= dict(zip(block.arguments, [loop.induction_variable, *sums], strict=True))
            if ahead:
                nvvm.cp_async_wait_group(ahead - 1)
                gpu.barrier()
                self._begin(block, _steps_later(loop.induction_variable, step, ahead), upper, self._turned(slot, ahead))
            else:
                self._fill(block, slot)
                gpu.barrier()
            results = self._multiply(block, slot)
            if not ahead:
                gpu.barrier()
            scf.yield_([*results, self._turned(slot, 1) if ahead else slot])
        if ahead:
            nvvm.cp_async_wait_group(0)
        self._values |= dict(zip(op.results, list(loop.results)[:-1], strict=True))

    def _turned(self, slot: ir.Value, by: int) -> ir.Value:
        """The slot so many further round."""
        return arith.remui(value(add(slot, by)), value(self._multiplier.stages))

    def _stages(self, block: ir.Block) -> int:
        """Slots that are in use: one unless copies can go on by themselves, because tiles lie as their operands do in memory."""
        reads = [op.operation for op in block.operations if op.operation.name == "vector.transfer_read"]
        as_they_lie = all(self._is_swapped(read) == (staging.neighbours(read.operands[0]) == 0) for read in reads)
        return self._multiplier.stages if self._aligned and as_they_lie else 1

    def _begin(self, block: ir.Block, k: ir.Value, upper: ir.Value, slot: Index) -> None:
        """Begins the copies for the step at `k`, if there is one; they are a group either way."""
        some = scf.IfOp(below(k, upper))
        with ir.InsertionPoint(some.then_block):
            before = self._values.get(block.arguments[0])
            self._values[block.arguments[0]] = k
            self._fill(block, slot, ahead=True)
            if before is not None:
                self._values[block.arguments[0]] = before
            scf.yield_([])
        nvvm.cp_async_commit_group()

    def _fill(self, block: ir.Block, slot: Index, *, ahead: bool = False) -> None:
        """Emits what brings the tiles of a step to shared memory."""
        for op in block.operations:
            one = op.operation
            vectors = one.results and isinstance(one.results[0].type, ir.VectorType)
            if one.name == "vector.transfer_read":
                self._bring(one, slot, ahead=ahead)
            elif one.name == "vector.create_mask" or (not vectors and one.name != "scf.yield"):
                self._emit(one)

    def _multiply(self, block: ir.Block, slot: Index) -> list[ir.Value]:
        """Emits what multiplies them; returns what the step yields."""
        for op in block.operations:
            one = op.operation
            if one.name == "vector.contract":
                self._contract(one, slot)
            elif one.name == "scf.yield":
                return [self._of(operand) for operand in one.operands]
            elif len(one.operands) == 1 and one.operands[0] in self._staged:
                self._emit(one)
        return []

    def _contract(self, op: ir.Operation, slot: Index) -> None:
        a, b = self._staged[op.operands[0]], self._staged[op.operands[1]]
        self._values[op.results[0]] = self._multiplier.multiply(op, a, b, slot, self._of(op.operands[2]))

    # Tiles in shared memory.

    def _operand(self, value_: ir.Value) -> int | None:
        """Which operand of the product this becomes, perhaps after one-operand ops."""
        for use in value_.uses:
            user = use.owner.operation
            if user.name == "vector.contract" and use.operand_number < 2:
                return use.operand_number
            if len(user.operands) == 1 and user.results:
                return self._operand(user.results[0])
        return None

    def _is_swapped(self, read: ir.Operation) -> bool:
        """Whether the tile of an operand of the product has its axes swapped in shared memory."""
        operand = self._operand(read.results[0])
        if operand is None:
            raise LoweringError("a read that is no operand's of the product", stage="threads")
        element = ir.VectorType(read.results[0].type).element_type
        return self._multiplier.is_swapped(operand, element, staging.neighbours(read.operands[0]))

    def _place_tiles(self, block: ir.Block) -> None:
        """Allocates the tiles that the ops of a block read."""
        slots = self._stages(block)
        for op in block.operations:
            if op.operation.name == "vector.transfer_read":
                self._place_tile(op.operation, slots)

    def _place_tile(self, read: ir.Operation, slots: int) -> None:
        kind = ir.VectorType(read.results[0].type)
        down, across = kind.shape
        tile = staging.allocate((down, across), kind.element_type, slots, swapped=self._is_swapped(read))
        self._staged[read.results[0]] = Staged(tile)

    def _bring(self, read: ir.Operation, slot: Index, *, ahead: bool = False) -> None:
        view = self._of(read.operands[0])
        tile = self._staged[read.results[0]].tile
        staging.fill(tile, slot, view, self._extents(read, view), self._team, ahead=ahead)

    # What is read and written besides.

    def _extents(self, op: ir.Operation, view: ir.Value) -> list[Index]:
        """How far each axis of `view` may be read or written by a transfer."""
        for operand in op.operands:
            if operand in self._masks:
                return self._masks[operand]
            mask = _defined_by(operand, "vector.constant_mask")
            if mask is not None:
                return list(ir.DenseI64ArrayAttr(mask.attributes["mask_dim_sizes"]))
        return list(ir.MemRefType(view.type).shape)

    def _read(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if source in self._whole:
            self._values[result] = self._whole[source]
        elif self._operand(result) is not None:
            self._place_tile(op, 1)
            self._bring(op, 0)
        else:
            self._values[result] = self._part_of(self._of(source), op)

    def _part_of(self, view: ir.Value, op: ir.Operation) -> ir.Value:
        """The thread's part of an operand that is read as the tile lies, or is broadcast over it."""
        kind = self._part_type(op.results[0].type)
        permutation = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        down, across = (_axis(each) for each in permutation.results)
        extents, zero = self._extents(op, view), staging.zero_of(kind.element_type)
        part = ir.Operation.create("ub.poison", results=[kind]).results[0]
        row: list[ir.Value] = []
        for number, below_first in enumerate(self._part.rows):
            if not row or down is not None:
                at: list[Index] = [0] * permutation.n_dims
                if down is not None:
                    at[down] = add(self._row, below_first)
                row = [self._piece_of(view, at, across, piece, extents, zero) for piece in self._part.pieces]
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
        zero: ir.Value,
    ) -> ir.Value:
        """A piece of a row of a part: read along `axis`, or one element for all of it."""
        right, width = piece
        if axis is not None:
            start = [*at]
            start[axis] = add(self._column, right)
            return rows.load(view, start, extents, width, zero)
        kind = ir.VectorType.get([width], zero.type)
        if not at:
            return vector.broadcast(kind, memref.load(view, []))
        return vector.broadcast(kind, vector.extract(rows.load(view, at, extents, 1, zero), [], [0]))

    def _write(self, op: ir.Operation) -> None:
        part, target = self._of(op.operands[0]), op.operands[1]
        if _defined_by(target, "memref.alloc") is not None:
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


def _steps_later(k: ir.Value, step: ir.Value, steps: int) -> ir.Value:
    return value(add(k, arith.muli(step, value(steps)))) if steps else k


def _defined_by(value_: ir.Value, name: str) -> ir.Operation | None:
    """The op of that name that defines a value; None for any other value."""
    owner = value_.owner
    found = isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == name
    return owner.operation if found else None


def _axis(expression: ir.AffineExpr) -> int | None:
    """The axis of an operand that an axis of the tile is; None where the operand is broadcast along it."""
    try:
        return ir.AffineDimExpr(expression).position
    except ValueError:
        return None
