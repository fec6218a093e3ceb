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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import LoweringError
from tilewright.lowering.gpu import computed, gathered, staging
from tilewright.lowering.gpu.grouped import Grouped
from tilewright.lowering.gpu.index import Index, add, below, value
from tilewright.lowering.gpu.parts import Multiplier, Staged, defined_by
from tilewright.lowering.gpu.threads import Sharing
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, nvvm, scf, vector


class Stepping(Sharing):
    """One loop over blocks on its way to threads that are all alike."""

    def __init__(
        self,
        loop: ir.Operation,
        multiplier: Multiplier,
        *,
        aligned: bool,
        groups: Mapping[int, Grouped],
        gathers: bool = False,
    ) -> None:
        """Makes it for threads that multiply so.

        `aligned` says that every row of A and B starts at a multiple of 16 bytes: then copies into shared memory go on by
        themselves, if the multiplier has stages for them. `groups` are the operands with an element for each group along K. With
        `gathers`, A is a table of which rows are taken by their numbers.
        """
        super().__init__(loop, multiplier)
        self._multiplier = multiplier
        self._aligned = aligned
        self._groups = groups
        self._gathers = gathers
        self._numbers: gathered.Numbers | None = None
        self._tiled: list[_Tiled] = []
        self._tiles: list[staging.Tile] = []

    def _over_k(self, op: ir.Operation) -> None:
        """Threads bring tiles to shared memory, meet, and multiply."""
        block = op.regions[0].blocks[0]
        lower, upper, step, *start = (self._of(operand) for operand in op.operands)
        self._place_tiles(block)
        team = staging.Team(self._thread, self._multiplier.threads)
        if self._gathers:
            view = computed.matrix_of(self._tiled[0].made)
            self._numbers = gathered.bring(view, self._of, self._tiles[0].shape[0], team)
        ahead = self._stages() - 1
        for number in range(ahead):
            self._begin(block, _steps_later(lower, step, number), upper, number)
        # Row by row: not every dialect has vectors of two axes.
        loop = scf.ForOp(lower, upper, step, [*self._rows_of(start), value(0)])
        *sum_rows, slot = loop.inner_iter_args
        with ir.InsertionPoint(loop.body):
            arguments = [loop.induction_variable, *self._of_rows(sum_rows, start)]
            self._values |= dict(zip(block.arguments, arguments, strict=True))
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
            scf.yield_([*self._rows_of(results), self._turned(slot, 1) if ahead else slot])
        if ahead:
            nvvm.cp_async_wait_group(0)
        self._values |= dict(zip(op.results, self._of_rows(list(loop.results)[:-1], start), strict=True))

    def _rows_of(self, parts: Sequence[ir.Value]) -> list[ir.Value]:
        return [vector.extract(part, [], [number]) for part in parts for number in range(len(self._part.rows))]

    def _of_rows(self, rows: Sequence[ir.Value], like: Sequence[ir.Value]) -> list[ir.Value]:
        """The parts that have those rows, of the types of others."""
        height = len(self._part.rows)
        return [
            _stacked(rows[number * height : (number + 1) * height], each.type) for number, each in enumerate(like)
        ]

    def _turned(self, slot: ir.Value, by: int) -> ir.Value:
        """The slot so many further round."""
        return arith.remui(value(add(slot, by)), value(self._multiplier.stages))

    def _stages(self) -> int:
        """Slots that are in use: one unless copies can go on by themselves, because tiles lie as their operands do in memory."""
        as_they_lie = all(
            each.stored is not None and self._is_swapped(each) == (each.across == 0) for each in self._tiled
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
            if one.name == "vector.create_mask" or (not vectors and one.name not in _BLOCK_ONLY):
                self._emit(one)
        team = staging.Team(self._thread, self._multiplier.threads)
        for tiled, tile in zip(self._tiled, self._tiles, strict=True):
            staging.fill(tile, slot, self._source(tiled), team, ahead=ahead)

    def _multiply(self, block: ir.Block, slot: Index) -> list[ir.Value]:
        """Emits what multiplies them; returns what the step yields."""
        a, *others = (Staged(tile, tiled.widening) for tile, tiled in zip(self._tiles, self._tiled, strict=True))
        for contract, b in zip(_contracts(block), others, strict=True):
            sums = self._of(contract.operands[2])
            self._values[contract.results[0]] = self._multiplier.multiply(contract, a, b, slot, sums)
        terminator = block.operations[len(block.operations) - 1]
        return [self._of(operand) for operand in terminator.operation.operands]

    def _place_tiles(self, block: ir.Block) -> None:
        """Allocates the tiles that the ops of a block multiply: of the least wide form that the multiplier takes.

        Several products have the same A.
        """
        first, *others = _contracts(block)
        operands = [(0, first.operands[0]), *((1, each.operands[1]) for each in (first, *others))]
        for operand, multiplied in operands:
            forms = computed.forms(multiplied)
            taken = [
                number
                for number, (form, _) in enumerate(forms)
                if self._multiplier.takes(operand, ir.VectorType(form.type).element_type)
            ]
            chosen = taken[-1] if taken else 0
            made = forms[chosen][0]
            widening = tuple(op for _, op in reversed(forms[:chosen]) if op is not None)
            self._tiled.append(_Tiled(operand, staging.neighbours(computed.matrix_of(made)), made, widening))
        slots = self._stages()
        for tiled in self._tiled:
            kind = ir.VectorType(tiled.made.type)
            down, across = kind.shape
            swapped = self._is_swapped(tiled)
            self._tiles.append(staging.allocate((down, across), kind.element_type, slots, swapped=swapped))

    def _source(self, tiled: _Tiled) -> staging.Source:
        read = tiled.stored
        if read is None:
            return computed.Computed(
                tiled.made, tiled.across, self._of, self._extents, self._aligned, self._groups, self._numbers
            )
        view = self._of(read.operands[0])
        if tiled.operand == 0 and self._numbers is not None:
            extents = self._extents(read, view)
            return self._numbers.source(read.operands[0], self._of, extents, aligned=self._aligned)
        return staging.Stored(view, self._extents(read, view), self._aligned)

    def _is_swapped(self, tiled: _Tiled) -> bool:
        """Whether a tile has its axes swapped in shared memory."""
        element = ir.VectorType(tiled.made.type).element_type
        return self._multiplier.is_swapped(tiled.operand, element, tiled.across)


_BLOCK_ONLY = frozenset({"scf.yield", "vector.transfer_write", "memref.alloc", "memref.dealloc"})
"""Ops without results that a thread has of its own: the end of a step, and the buffers of what prologues make."""


@dataclass(frozen=True, slots=True)
class _Tiled:
    """An operand of the product whose tiles are brought to shared memory.

    Attributes:
        operand: 0 for A, 1 for B.
        across: The axis along which elements of the matrix are neighbours.
        made: What is brought, a vector of the block.
        widening: What makes of it the vector that is multiplied.
    """

    operand: int
    across: int
    made: ir.Value
    widening: tuple[ir.Operation, ...]

    @property
    def stored(self) -> ir.Operation | None:
        """The read that gives what is brought, where that is elements of an operand as they are; None where it is computed."""
        read = defined_by(self.made, "vector.transfer_read")
        return read if read is not None and computed.made_in(read) is None else None


def _contracts(block: ir.Block) -> list[ir.Operation]:
    """What multiplies, in the loop over K.

    Raises:
        LoweringError: There is no such op, or several of different A.
    """
    found = [op.operation for op in block.operations if op.operation.name == "vector.contract"]
    if not found or any(each.operands[0] != found[0].operands[0] for each in found):
        raise LoweringError(f"{len(found)} products in a block", stage="threads", expected="those of one A")
    return found


def _stacked(rows: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """The part of that type that has those rows."""
    part = arith.constant(
        kind, ir.DenseElementsAttr.get_splat(kind, staging.zero_attribute(ir.VectorType(kind).element_type))
    )
    for number, row in enumerate(rows):
        part = vector.insert(row, part, [], [number])
    return part


def _steps_later(k: ir.Value, step: ir.Value, steps: int) -> ir.Value:
    return value(add(k, arith.muli(step, value(steps)))) if steps else k
