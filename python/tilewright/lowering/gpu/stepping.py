# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop over K of a block whose threads all bring tiles of A and B to shared memory, and all multiply them.

Before: ``for k: sums = contract(read A under a mask, read B under a mask, sums)``. After, in each thread::

    for k:
        tile_a = A, tile_b = B, a piece of each by each thread;  barrier
        mine += tile_a * tile_b
        barrier

Where copies into shared memory can go on by themselves, tiles have several slots::

    begin the copies of the first steps, a group each
    for k:
        await the oldest group;  barrier
        begin the copies for the step that is so many ahead
        mine += tile_a[slot] * tile_b[slot];  slot = the next one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import computed, staging
from tilewright.lowering.gpu.index import Index, add, below, value
from tilewright.lowering.gpu.parts import Multiplier, Staged
from tilewright.lowering.gpu.threads import Sharing
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, nvvm, scf, vector


class Stepping(Sharing):
    """One loop over blocks on its way to threads that are all alike."""

    def __init__(self, loop: ir.Operation, multiplier: Multiplier, *, aligned: bool) -> None:
        """Makes it for threads that multiply so.

        `aligned` says that every row of A and B starts at a multiple of 16 bytes: then copies into shared memory go on by
        themselves, if the multiplier has stages for them.
        """
        super().__init__(loop, multiplier)
        self._multiplier = multiplier
        self._aligned = aligned
        self._staged: dict[ir.Value, Staged] = {}
        self._tiled: dict[ir.Operation, _Tiled] = {}

    def _over_k(self, op: ir.Operation) -> None:
        """Threads bring tiles to shared memory, meet, and multiply."""
        block = op.regions[0].blocks[0]
        lower, upper, step, *start = (self._of(operand) for operand in op.operands)
        self._place_tiles(block)
        ahead = self._stages(block) - 1
        for number in range(ahead):
            self._begin(block, _steps_later(lower, step, number), upper, number)
        # Row by row: not every dialect has vectors of two axes.
        (sums,) = start
        loop = scf.ForOp(lower, upper, step, [*self._rows_of(sums), value(0)])
        *sum_rows, slot = loop.inner_iter_args
        with ir.InsertionPoint(loop.body):
            arguments = [loop.induction_variable, self._of_rows(sum_rows, sums.type)]
            self._values |= dict(zip(block.arguments, arguments, strict=True))
            if ahead:
                nvvm.cp_async_wait_group(ahead - 1)
                gpu.barrier()
                self._begin(block, _steps_later(loop.induction_variable, step, ahead), upper, self._turned(slot, ahead))
            else:
                self._fill(block, slot)
                gpu.barrier()
            (result,) = self._multiply(block, slot)
            if not ahead:
                gpu.barrier()
            scf.yield_([*self._rows_of(result), self._turned(slot, 1) if ahead else slot])
        if ahead:
            nvvm.cp_async_wait_group(0)
        self._values[op.results[0]] = self._of_rows(list(loop.results)[:-1], sums.type)

    def _rows_of(self, part: ir.Value) -> list[ir.Value]:
        return [vector.extract(part, [], [number]) for number in range(len(self._part.rows))]

    def _of_rows(self, rows: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
        """The part that has those rows."""
        part = arith.constant(
            kind, ir.DenseElementsAttr.get_splat(kind, staging.zero_attribute(ir.VectorType(kind).element_type))
        )
        for number, row in enumerate(rows):
            part = vector.insert(row, part, [], [number])
        return part

    def _turned(self, slot: ir.Value, by: int) -> ir.Value:
        """The slot so many further round."""
        return arith.remui(value(add(slot, by)), value(self._multiplier.stages))

    def _stages(self, block: ir.Block) -> int:
        """Slots that are in use: one unless copies can go on by themselves, because tiles lie as their operands do in memory."""
        as_they_lie = all(
            each.made is None and self._is_swapped(each) == (each.across == 0) for each in self._tiled.values()
        )
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
            if one in self._tiled:
                self._bring(one, slot, ahead=ahead)
            elif one.name == "vector.create_mask" or (not vectors and one.name not in _BLOCK_ONLY):
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
                staged = self._staged[one.operands[0]]
                self._staged[one.results[0]] = Staged(staged.tile, (*staged.done, one))
        return []

    def _contract(self, op: ir.Operation, slot: Index) -> None:
        a, b = self._staged[op.operands[0]], self._staged[op.operands[1]]
        self._values[op.results[0]] = self._multiplier.multiply(op, a, b, slot, self._of(op.operands[2]))

    def _is_swapped(self, tiled: _Tiled) -> bool:
        """Whether the tile of an operand of the product has its axes swapped in shared memory."""
        element = ir.VectorType(tiled.read.results[0].type).element_type
        return self._multiplier.is_swapped(tiled.operand, element, tiled.across)

    def _find_tiles(self, block: ir.Block) -> None:
        """Finds the reads whose tiles are brought to shared memory: those of the product's operands."""
        for op in block.operations:
            read = op.operation
            operand = self._operand(read.results[0]) if read.name == "vector.transfer_read" else None
            if operand is not None:
                self._tiled[read] = self._tile_of(read, operand)
        if sorted(each.operand for each in self._tiled.values()) != [0, 1]:
            raise LoweringError(
                f"{len(self._tiled)} reads of a block are multiplied",
                stage="threads",
                expected="a vector.contract of what is read of A and of B",
            )

    def _tile_of(self, read: ir.Operation, operand: int) -> _Tiled:
        """How the tile of an operand is filled."""
        made = computed.made_in(read)
        if made is None:
            return _Tiled(operand, staging.neighbours(read.operands[0]), read, None)
        first = computed.first_read(made)
        element = ir.VectorType(first.results[0].type).element_type
        across = staging.neighbours(first.operands[0])
        if computed.only_widens(made) and self._multiplier.takes(operand, element):
            return _Tiled(operand, across, first, None)
        return _Tiled(operand, across, read, made)

    def _place_tiles(self, block: ir.Block) -> None:
        """Allocates the tiles that the ops of a block read."""
        self._find_tiles(block)
        slots = self._stages(block)
        for read, each in self._tiled.items():
            kind = ir.VectorType(each.read.results[0].type)
            down, across = kind.shape
            swapped = self._is_swapped(each)
            tile = staging.allocate((down, across), kind.element_type, slots, swapped=swapped)
            self._staged[read.results[0]] = Staged(tile)

    def _bring(self, read: ir.Operation, slot: Index, *, ahead: bool = False) -> None:
        tile, tiled = self._staged[read.results[0]].tile, self._tiled[read]
        team = staging.Team(self._thread, self._multiplier.threads)
        view = self._of(tiled.read.operands[0])
        extents = self._extents(tiled.read, view)
        source = (
            staging.Stored(view, extents, self._aligned)
            if tiled.made is None
            else computed.Computed(tiled.made, tiled.across, extents, self._of, self._extents, self._aligned)
        )
        staging.fill(tile, slot, source, team, ahead=ahead)


_BLOCK_ONLY = frozenset({"scf.yield", "vector.transfer_write", "memref.alloc", "memref.dealloc"})
"""Ops without results that a thread has of its own: the end of a step, and the buffers of what prologues make."""


@dataclass(frozen=True, slots=True)
class _Tiled:
    """A read whose tile is brought to shared memory.

    Attributes:
        operand: 0 for A, 1 for B.
        across: The axis along which elements of the matrix are neighbours.
        read: What reads the tile's elements.
        made: What a prologue makes of the matrix, a vector of the block; None without one.
    """

    operand: int
    across: int
    read: ir.Operation
    made: ir.Value | None


def _steps_later(k: ir.Value, step: ir.Value, steps: int) -> ir.Value:
    return value(add(k, arith.muli(step, value(steps)))) if steps else k
