# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The loop over K of a block whose threads all bring tiles of A and B to shared memory, and all multiply them.

Before: ``for k: sums = contract(read A under a mask, read B under a mask, sums)``. After, in each thread, where tiles have one slot::

    for k:
        tile_a = A, tile_b = B, a piece of each by each thread;  barrier
        mine += tile_a * tile_b
        barrier

With more slots memory is at work while threads multiply. Copies into shared memory go on by themselves, where there are such
and tiles are what is stored; of what is computed first, or lies otherwise, threads hold the next pieces in registers meanwhile::

    begin the copies of the first steps, a group each;  tile_b[0] = f(load B)
    for k:
        words = load B for the next step
        await the oldest group;  barrier
        begin the copies for the step that is so many ahead
        mine += tile_a[slot] * tile_b[slot]
        slot = the next one;  tile_b[slot] = f(words)

The barrier stands between the loads and the products, because assemblers move products that nothing holds to before the loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Index, add, less, value
from tilewright.build.loops import if_else, loop, when
from tilewright.build.usedef import body, defined_by, terminator
from tilewright.codegen.gpu import filling, gathered_rows, patches, prologues, staging
from tilewright.codegen.gpu.filling import Filling
from tilewright.codegen.gpu.fragments import Multiplier, Staged
from tilewright.codegen.gpu.grouped import Grouped
from tilewright.codegen.gpu.reads import Reading
from tilewright.codegen.gpu.scheduling_order import BEHIND
from tilewright.codegen.gpu.threads import Sharing
from tilewright.errors import LoweringError
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
        family: str,
        gathers: bool = False,
    ) -> None:
        """Makes it for threads that multiply so.

        `aligned` says that every row of A and B starts at a multiple of 16 bytes: then copies into shared memory go on by
        themselves, if the multiplier has stages for them, and loads are of 16 bytes. `groups` are the operands with an element for
        each group along K; `family` is that of the target. With `gathers`, A is a table of which rows are taken by their numbers.
        """
        super().__init__(loop, multiplier)
        self._multiplier = multiplier
        self._aligned = aligned
        self._gathers = gathers
        self._family = family
        assert loop.parent is not None, "the loop is in a function"
        self._reading = Reading(self._of, self._extents, aligned, groups, patches.of(loop.parent))
        self._tiled: list[_Tiled] = []
        self._tiles: list[staging.Tile] = []
        self._copied: list[tuple[staging.Tile, _Tiled]] = []
        """Those that copies bring, each with what it is of."""
        self._fillings: list[Filling] = []
        """How threads bring the others."""

    def _over_k(self, op: ir.Operation) -> None:
        """Threads bring tiles to shared memory, meet, and multiply."""
        block = body(op)
        lower, upper, step, *start = (self._of(operand) for operand in op.operands)
        self._choose_tiles(block)
        if self._gathers:
            view, count = prologues.matrix_of(self._tiled[0].made), ir.VectorType(self._tiled[0].made.type).shape[0]
            numbers = gathered_rows.bring(view, self._of, count, self._team)
            self._reading = replace(self._reading, scattered={gathered_rows.TABLE: numbers})
        self._place_tiles()
        self._say_pieces()
        ahead = self._slots() - 1
        for number in range(ahead):
            self._copy(block, _steps_later(lower, step, number), upper, number)
        held: list[ir.Value] = []
        if ahead:
            held = [zero(kind) for each in self._fillings for kind in each.kinds]
            held = self._load(block, lower, upper, held)
            self._store_held(block, lower, 0, held)
        # Row by row: not every dialect has vectors of two axes.
        with loop(lower, upper, step, [value(0), *held, *self._rows_of(start)]) as (k, carried, over):
            slot, held, sum_rows = _split(carried, len(held))
            self._values |= dict(zip(block.arguments, [k, *self._of_rows(sum_rows, start)], strict=True))
            if ahead:
                held = self._load(block, _steps_later(k, step, 1), upper, held)
                self._await(ahead)
                gpu.barrier()
                self._copy(block, _steps_later(k, step, ahead), upper, self._turned(slot, ahead))
                results = self._multiply(block, slot)
                slot = self._turned(slot, 1)
                later = _steps_later(k, step, 1)
                if held:
                    BEHIND[self._family](less(later, upper), lambda: self._store_held(block, later, slot, held))
            else:
                self._enter_step(block, k)
                filling.finish(self._fillings, slot, filling.begin(self._fillings))
                gpu.barrier()
                results = self._multiply(block, slot)
                gpu.barrier()
            scf.yield_([slot, *held, *self._rows_of(results)])
        self._await(1)
        _, _, sum_rows = _split(over.results, len(held))
        self._values |= dict(zip(op.results, self._of_rows(sum_rows, start), strict=True))

    @property
    def _team(self) -> staging.Team:
        return staging.Team(self._thread, self._multiplier.sizes.threads)

    def _await(self, ahead: int) -> None:
        """A thread waits for its copies but for those of the latest steps, one less than so many."""
        if self._copied:
            nvvm.cp_async_wait_group(ahead - 1)

    def _rows_of(self, parts: Sequence[ir.Value]) -> list[ir.Value]:
        return [vector.extract(part, [], [number]) for part in parts for number in range(len(self._part.rows))]

    def _of_rows(self, rows: Sequence[ir.Value], like: Sequence[ir.Value]) -> list[ir.Value]:
        """The parts that have those rows, of the types of others."""
        height = len(self._part.rows)
        return [_stacked(rows[number * height : (number + 1) * height], each.type) for number, each in enumerate(like)]

    def _turned(self, slot: ir.Value, by: int) -> ir.Value:
        """The slot so many further round."""
        return arith.remui(value(add(slot, by)), value(self._slots()))

    def _slots(self) -> int:
        """Slots that are in use: where threads store tiles, one that is multiplied and the next one are enough."""
        stages = self._multiplier.sizes.stages
        return stages if all(self._copies(each) for each in self._tiled) else min(stages, _STORED_SLOTS)

    def _copies(self, tiled: _Tiled) -> bool:
        """Whether copies can bring an operand by themselves: it is as it is stored, and lies in shared memory as in memory."""
        as_it_lies = tiled.stored is not None and self._is_swapped(tiled) == (tiled.across == 0)
        if tiled.stored is None or not self._reading.is_whole(tiled.stored, tiled.per_piece):
            return False
        return self._multiplier.copies and self._multiplier.sizes.stages > 1 and self._aligned and as_it_lies

    def _copy(self, block: ir.Block, k: ir.Value, upper: ir.Value, slot: Index) -> None:
        """Begins the copies for the step at `k` into a slot, if there is such a step; they are a group either way."""
        if not self._copied:
            return
        with when(less(k, upper)):
            self._enter_step(block, k)
            for tile, tiled in self._copied:
                staging.begin_copies(tile, slot, self._source(tiled), self._team)
        nvvm.cp_async_commit_group()

    def _load(self, block: ir.Block, k: ir.Value, upper: ir.Value, held: Sequence[ir.Value]) -> list[ir.Value]:
        """Begins the loads for the step at `k`, if there is such a step; returns what is then held.

        If not, it is what was `held` before. A constant would not do: LLVM then computes what is made of it where it is loaded.
        """
        if not held:
            return []

        def load() -> list[ir.Value]:
            self._enter_step(block, k)
            return filling.begin(self._fillings)

        return if_else(less(k, upper), load, lambda: held, [each.type for each in held])

    def _store_held(self, block: ir.Block, k: ir.Value, slot: Index, held: Sequence[ir.Value]) -> None:
        """Stores what is held of the step at `k` into a slot; that of a step that there is not is never read."""
        self._enter_step(block, k)
        filling.finish(self._fillings, slot, held)

    def _multiply(self, block: ir.Block, slot: Index) -> list[ir.Value]:
        """Emits what multiplies them; returns what the step yields."""
        a, *others = (Staged(tile, tiled.widening) for tile, tiled in zip(self._tiles, self._tiled, strict=True))
        for contract, b in zip(_contracts(block), others, strict=True):
            sums = self._of(contract.operands[2])
            self._values[contract.results[0]] = self._multiplier.multiply(contract, a, b, slot, sums)
        return [self._of(operand) for operand in terminator(block).operands]

    def _choose_tiles(self, block: ir.Block) -> None:
        """Chooses what is brought of what the ops of a block multiply: the least wide form that the multiplier takes.

        Several products have the same A.
        """
        first, *others = _contracts(block)
        operands = [(0, first.operands[0]), *((1, each.operands[1]) for each in (first, *others))]
        for operand, multiplied in operands:
            forms = prologues.forms(multiplied)
            taken = [
                number
                for number, (form, _) in enumerate(forms)
                if self._multiplier.takes(operand, ir.VectorType(form.type).element_type)
            ]
            chosen = taken[-1] if taken else 0
            made = forms[chosen][0]
            widening = tuple(op for _, op in reversed(forms[:chosen]) if op is not None)
            self._tiled.append(_Tiled(operand, staging.neighbors(prologues.matrix_of(made)), made, widening))

    def _place_tiles(self) -> None:
        """Allocates the tiles, and decides how each is brought."""
        for tiled in self._tiled:
            kind = ir.VectorType(tiled.made.type)
            down, across = kind.shape
            swapped = self._is_swapped(tiled)
            tile = staging.allocate(
                (down, across),
                kind.element_type,
                self._slots(),
                swapped=swapped,
                swizzled=self._multiplier.swizzles,
            )
            self._tiles.append(tile)
            if self._copies(tiled):
                self._copied.append((tile, tiled))
            else:
                source = prologues.Computed(tiled.made, tiled.across, self._reading)
                self._fillings.append(Filling(tile, source, self._team))

    def _say_pieces(self) -> None:
        """Says of the function how many elements rows have to be multiples of, in an attribute: loads are of whole pieces."""
        widest = max((each.width for each in self._fillings if each.aligned), default=0)
        if widest:
            word = ir.IntegerType.get_signless(32)
            function = self._loop.parent
            assert function is not None, "the loop is in one"
            function.attributes[ROW_MULTIPLE] = ir.IntegerAttr.get(word, widest)

    def _source(self, tiled: _Tiled) -> staging.Source:
        """What copies of a tile are of."""
        read = tiled.stored
        assert read is not None, "others are not copied"
        view = self._of(read.operands[0])
        return self._reading.pieces(read) or staging.Stored(view, self._extents(read, view))

    def _is_swapped(self, tiled: _Tiled) -> bool:
        """Whether a tile has its axes swapped in shared memory."""
        element = ir.VectorType(tiled.made.type).element_type
        return self._multiplier.is_swapped(tiled.operand, element, tiled.across)


ROW_MULTIPLE = "row_multiple"
"""The attribute of a function that says of how many elements its operands' rows are multiples."""
_STORED_SLOTS = 2
"""Slots of tiles that threads store: what is held for a later step than the next one would take registers for each step."""


@dataclass(frozen=True, slots=True)
class _Tiled:
    """An operand of the product whose tiles are brought to shared memory.

    Attributes:
        operand: 0 for A, 1 for B.
        across: The axis along which elements of the matrix are neighbors.
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
        return read if read is not None and prologues.made_in(read) is None else None

    @property
    def per_piece(self) -> int:
        """Elements that are moved at once."""
        return staging.PIECE_BYTES * 8 // bits_of(ir.VectorType(self.made.type).element_type)


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
    part = zero(kind)
    for number, row in enumerate(rows):
        part = vector.insert(row, part, [], [number])
    return part


def _split(values: Sequence[ir.Value], held: int) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """What a loop over K hands on: the slot, what is held, so many, and the rows of sums."""
    slot, *others = values
    return slot, others[:held], others[held:]


def _steps_later(k: ir.Value, step: ir.Value, steps: int) -> ir.Value:
    return value(add(k, arith.muli(step, value(steps)))) if steps else k
