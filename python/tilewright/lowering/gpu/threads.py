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
        for some of bk: mine = contract(read tile_a, read tile_b, mine) : vector<rows x columns>
        barrier
    write C <- f(mine, read bias), as far as they are inside
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import rows, staging
from tilewright.lowering.gpu.index import Index, add, multiply, value
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref, scf, vector
from tilewright.schedules.simt import ThreadTile

_AT_ONCE = 4
"""Steps over k that are loaded from shared memory at once."""


@dataclass(slots=True)
class _Staged:
    """An operand of the product: its tile in shared memory, and what is done to its elements (they are widened)."""

    tile: staging.Tile
    done: tuple[ir.Operation, ...] = ()


def share(function: ir.Operation, sizes: ThreadTile) -> None:
    """Makes the one ``scf.forall`` over blocks in a bufferised function the code of a thread.

    Raises:
        LoweringError: There is no such loop, or an op in it that cannot be shared.
    """
    loops = [op for op in function.regions[0].blocks[0].operations if op.operation.name == "scf.forall"]
    if len(loops) != 1:
        raise LoweringError(f"{len(loops)} loops over blocks", stage="threads", expected="one scf.forall")
    with function.context, function.location:
        _Sharing(loops[0].operation, sizes).run()


class _Sharing:
    """One loop over blocks on its way to threads."""

    def __init__(self, loop: ir.Operation, sizes: ThreadTile) -> None:
        self._loop = loop
        self._sizes = sizes
        self._values: dict[ir.Value, ir.Value] = {}
        self._masks: dict[ir.Value, list[Index]] = {}
        self._staged: dict[ir.Value, _Staged] = {}
        self._whole: dict[ir.Value, ir.Value] = {}
        """Buffers of a whole tile, and views of them, with the part of what was written that the thread has."""

    def run(self) -> None:
        block = self._loop.regions[0].blocks[0]
        with ir.InsertionPoint(self._loop):
            for argument, axis in zip(block.arguments, (gpu.Dimension.y, gpu.Dimension.x), strict=True):
                self._values[argument] = gpu.block_id(axis)
            self._thread = gpu.thread_id(gpu.Dimension.x)
            across = self._sizes.bn // self._sizes.columns
            down = arith.divui(self._thread, value(across))
            right = arith.remui(self._thread, value(across))
            self._row = multiply(down, self._sizes.rows)
            self._column = multiply(right, self._sizes.columns)
            self._body(block)
        self._loop.erase()

    def _body(self, block: ir.Block) -> list[ir.Value]:
        """Emits the ops of a block; returns what it yields."""
        for op in block.operations:
            one = op.operation
            if one.name in ("scf.yield", "scf.forall.in_parallel"):
                return [self._of(operand) for operand in one.operands]
            self._emit(one)
        return []

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
            case "linalg.copy" if self._root(op.operands[0]):
                target = self._of(op.operands[1])
                self._store(self._whole[op.operands[0]], target, [memref.dim(target, value(axis)) for axis in range(2)])
            case "vector.contract":
                self._contract(op)
            case "memref.alloc":
                pass  # Of a whole tile: what is written to it is kept in registers.
            case "memref.subview" if self._root(op.operands[0]):
                self._whole_view(op)
            case _ if op.results and isinstance(op.results[0].type, ir.VectorType):
                self._elementwise(op)
            case _:
                self._clone(op)

    def _of(self, old: ir.Value) -> ir.Value:
        """The value that stands for `old` in a thread."""
        if old in self._values:
            return self._values[old]
        if isinstance(old.type, ir.VectorType) and isinstance(old.owner, ir.Operation | ir.OpView):
            constant = old.owner.operation
            if constant.name == "arith.constant":
                kind = self._part(old.type)
                splat = ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()
                return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
        return old

    def _part(self, kind: ir.Type) -> ir.VectorType:
        """The type of a thread's part of a vector of the block."""
        whole = ir.VectorType(kind)
        if list(whole.shape) != [self._sizes.bm, self._sizes.bn]:
            raise LoweringError(f"a {whole} is no tile of the block", stage="threads")
        return ir.VectorType.get([self._sizes.rows, self._sizes.columns], whole.element_type)

    def _clone(self, op: ir.Operation) -> None:
        if any(operand in known for known in (self._whole, self._masks, self._staged) for operand in op.operands):
            raise LoweringError(f"{op.name} of a whole tile cannot be shared among threads", stage="threads")
        new = op.clone()
        for number, operand in enumerate(op.operands):
            new.operands[number] = self._of(operand)
        for old, result in zip(op.results, new.results, strict=True):
            self._values[old] = result

    def _elementwise(self, op: ir.Operation) -> None:
        """Does to each thread's part what is done to each element, or, to an operand of the product, notes it."""
        staged = self._staged.get(op.operands[0]) if len(op.operands) == 1 else None
        if staged is not None:
            self._staged[op.results[0]] = _Staged(staged.tile, (*staged.done, op))
            return
        self._values[op.results[0]] = _retyped(op, self._part(op.results[0].type), map(self._of, op.operands))

    def _for(self, op: ir.Operation) -> None:
        block = op.regions[0].blocks[0]
        lower, upper, step, *start = (self._of(operand) for operand in op.operands)
        loop = scf.ForOp(lower, upper, step, list(start))
        self._values |= dict(zip(block.arguments, loop.body.arguments, strict=True))
        with ir.InsertionPoint(loop.body):
            scf.yield_(self._body(block))
        self._values |= dict(zip(op.results, loop.results, strict=True))

    def _root(self, view: ir.Value) -> bool:
        """Whether `view` is a buffer of a whole tile."""
        return view in self._whole

    def _whole_view(self, op: ir.Operation) -> None:
        self._whole[op.results[0]] = self._whole[op.operands[0]]

    def _extents(self, op: ir.Operation, view: ir.Value) -> list[Index]:
        """How far each axis of `view` may be read or written by a transfer."""
        for operand in op.operands:
            if operand in self._masks:
                return self._masks[operand]
            owner = operand.owner
            if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "vector.constant_mask":
                return list(ir.DenseI64ArrayAttr(owner.operation.attributes["mask_dim_sizes"]))
        return list(ir.MemRefType(view.type).shape)

    def _feeds_product(self, value_: ir.Value) -> int | None:
        """Which operand of the product this becomes, perhaps after one-operand ops."""
        for use in value_.uses:
            user = use.owner.operation
            if user.name == "vector.contract" and use.operand_number < 2:
                return use.operand_number
            if len(user.operands) == 1 and user.results:
                return self._feeds_product(user.results[0])
        return None

    def _read(self, op: ir.Operation) -> None:
        source, result = op.operands[0], op.results[0]
        if self._root(source):
            self._values[result] = self._whole[source]
            return
        view = self._of(source)
        element = ir.VectorType(result.type).element_type
        zero = staging.zero_of(element)
        if self._feeds_product(result) is not None:
            down, across = ir.VectorType(result.type).shape
            tile = staging.allocate((down, across), element)
            staging.fill(tile, view, self._extents(op, view), zero, self._thread, self._sizes.threads)
            self._staged[result] = _Staged(tile)
            return
        self._values[result] = self._part_of(view, op, zero)

    def _part_of(self, view: ir.Value, op: ir.Operation, zero: ir.Value) -> ir.Value:
        """The thread's part of an operand that is read as the tile lies, or is broadcast over it."""
        part = self._part(op.results[0].type)
        permutation = ir.AffineMapAttr(op.attributes["permutation_map"]).value
        axes = [_axis(each) for each in permutation.results]
        rank, extents = permutation.n_dims, self._extents(op, view)
        result = ir.Operation.create("ub.poison", results=[part]).results[0]
        row = None
        for number in range(self._sizes.rows):
            if row is None or axes[0] is not None:
                at: list[Index] = [0] * rank
                for axis, start in zip(axes, (add(self._row, number), self._column), strict=True):
                    if axis is not None:
                        at[axis] = start
                row = self._row_of(view, at, extents, axes[1] is not None, zero)
            result = vector.insert(row, result, [], [number])
        return result

    def _row_of(self, view: ir.Value, at: list[Index], extents: list[Index], along: bool, zero: ir.Value) -> ir.Value:
        """A row of a part: read along the row, or one element for all of it."""
        kind = ir.VectorType.get([self._sizes.columns], zero.type)
        if along:
            return rows.load(view, at, extents, self._sizes.columns, zero)
        if not at:
            return vector.broadcast(
                kind, ir.Operation.create("memref.load", results=[zero.type], operands=[view]).result
            )
        one = rows.load(view, at, extents, 1, zero)
        return vector.broadcast(kind, vector.extract(one, [], [0]))

    def _write(self, op: ir.Operation) -> None:
        part, target = self._of(op.operands[0]), op.operands[1]
        owner = target.owner
        if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "memref.alloc":
            self._whole[target] = part
            return
        view = self._of(target)
        self._store(part, view, self._extents(op, view))

    def _store(self, part: ir.Value, view: ir.Value, extents: Sequence[Index]) -> None:
        """Writes the thread's part."""
        for number in range(self._sizes.rows):
            rows.store(vector.extract(part, [], [number]), view, (add(self._row, number), self._column), extents)

    def _contract(self, op: ir.Operation) -> None:
        a, b = self._staged[op.operands[0]], self._staged[op.operands[1]]
        depth = a.tile.shape[1]
        gpu.barrier()
        sums = self._of(op.operands[2])
        at_once = min(_AT_ONCE, depth)
        for k in range(0, depth, at_once):
            parts = (
                _fragment(a, (self._row, k), (self._sizes.rows, at_once)),
                _fragment(b, (k, self._column), (at_once, self._sizes.columns)),
            )
            sums = _retyped(op, sums.type, (*parts, sums))
        gpu.barrier()
        self._values[op.results[0]] = sums


def _axis(expression: ir.AffineExpr) -> int | None:
    """The axis of an operand that an axis of the tile is; None where the operand is broadcast along it."""
    try:
        return ir.AffineDimExpr(expression).position
    except ValueError:
        return None


def _fragment(staged: _Staged, at: Sequence[Index], shape: Sequence[int]) -> ir.Value:
    """What a thread multiplies of a tile."""
    buffer = staged.tile.buffer
    element = ir.MemRefType(buffer.type).element_type
    part = vector.TransferReadOp(
        ir.VectorType.get(shape, element),
        buffer,
        [value(each) for each in at],
        ir.AffineMapAttr.get(ir.AffineMap.get_identity(2)),
        staging.zero_of(element),
        [True, True],
    ).result
    for op in staged.done:
        kind = ir.VectorType.get(shape, ir.VectorType(op.results[0].type).element_type)
        part = _retyped(op, kind, (part,))
    return part


def _retyped(op: ir.Operation, kind: ir.Type, operands: Sequence[ir.Value] | map) -> ir.Value:
    """The same op on other vectors."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    return ir.Operation.create(op.name, results=[kind], operands=list(operands), attributes=attributes).results[0]
