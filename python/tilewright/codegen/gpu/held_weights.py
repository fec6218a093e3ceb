# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that a prologue makes of few bits, at the fragment: tiles of B come as they are stored, and consumers make registers of them.

C is computed as its transpose: what a prologue makes of B is the first matrix of instructions, which they take from registers.

Before, in a block: ``sums += A[m, k] * f(codes[k, n], scale[k / group, n])``. After, in each thread of a consumer, for each step::

    load scales of the next step
    await full[slot]
    for 64 elements along K at a time:
        pairs = load codes from tile_b[slot];  registers = f(pairs, scales)      # while the products before go on
        sums += registers * tile_a[slot], asynchronously
        await the products before
    await all products;  release slot

Each thread makes what its own instructions take, and no element is made twice in a block. Registers are not written before the products
that read them have been waited for.

Source of the layout: the PTX ISA manual, "Register Fragments" of wgmma.m64nNk16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.build.index import Index, add, div, mul, rem, value, xor
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.grouped import number_of
from tilewright.codegen.gpu.prologues import Computed
from tilewright.codegen.gpu.reads import Read
from tilewright.codegen.gpu.tma_tiles import ATOM, BoxedTile
from tilewright.mlir import ir
from tilewright.mlir.dialects import llvm, vector
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, ROWS

DEPTH = 16
"""Elements along K of an instruction."""
_PAIR = 2
"""Neighbors along K that share a register."""
_HALF = 8
"""A thread has elements of two rows of each 64, and of two halves of an instruction's depth, so far apart."""
_B = 1
_DYNAMIC = -(2**31)
"""Stands for an index that is not known, as LLVM's dialect has it."""
_Place = tuple[int, int, int]
"""The number of an operand, one of a thread's rows, and an element along K of the step."""


@dataclass(frozen=True, slots=True)
class HeldWeights:
    """How a thread makes registers of codes in shared memory.

    Attributes:
        source: What is multiplied: what a prologue makes of B.
        tile: The tile of codes.
        depth: Elements along K of a step.
        groups: How many times 64 rows of instructions a consumer has.
    """

    source: Computed
    tile: BoxedTile
    depth: int
    groups: int

    def load(self, column: Index) -> list[ir.Value]:
        """Begins to load what codes of a step are made weights with, for a thread whose first column of B is that of the tile."""
        return [Read.begin(each) for each in self._further(column).values()]

    @property
    def kinds(self) -> list[ir.Type]:
        """The types of what is held then."""
        return [each.kind for each in self._further(0).values()]

    def finish(self, held: Sequence[ir.Value]) -> dict[_Place, ir.Value]:
        """What is held, as pairs of neighbors along K have it."""
        further = self._further(0)
        return {place: read.finish(each) for (place, read), each in zip(further.items(), held, strict=True)}

    def start(self, memory: ir.Value, place: Index, column: Index, lane: Index) -> ir.Value:
        """A pointer to a thread's first codes, but for the swizzle, of a tile that starts at a place in memory."""
        pair = mul(rem(lane, 4), _PAIR * self.tile.bits // 8)
        return shared.pointer(memory, add(place, add(mul(column, ROW_BYTES), pair)))

    def fragment(
        self, start: ir.Value, lane: Index, group: int, k: int, found: Mapping[_Place, ir.Value]
    ) -> list[ir.Value]:
        """The four registers for an instruction, of 64 rows from `group` on and 16 elements along K from `k` on."""
        return [
            self._register(self._codes(start, lane, 2 * group + half, k + _HALF * right), 2 * group + half, k, found)
            for right in (0, 1)
            for half in (0, 1)
        ]

    def _codes(self, start: ir.Value, lane: Index, row: int, k: int) -> ir.Value:
        """Two neighbors along K of one of a thread's rows, as they are stored."""
        box, within = divmod(k * self.tile.bits // 8, ROW_BYTES)
        atom, rest = divmod(within, ATOM)
        known = box * self.tile.box_bytes + _place_of(row) * ROW_BYTES + rest
        # Rows are swizzled by the last three bits of their number, which are the same in all of a thread.
        turned = shared.as_i32(mul(xor(value(div(lane, 4)), value(atom)), ATOM))
        pointer, byte = start.type, ir.TypeAttr.get(ir.IntegerType.get_signless(8))
        place = llvm.getelementptr(pointer, start, [turned], [_DYNAMIC], byte, None)
        place = llvm.getelementptr(pointer, place, [], [known], byte, None)
        word = ir.IntegerType.get_signless(_PAIR * self.tile.bits)
        loaded = vector.from_elements(ir.VectorType.get([1], word), [llvm.load(word, place)])
        element = ir.VectorType(self._all[_B].op.results[0].type).element_type
        return vector.bitcast(ir.VectorType.get([_PAIR], element), loaded)

    def _register(self, codes: ir.Value, row: int, k: int, found: Mapping[_Place, ir.Value]) -> ir.Value:
        """A register of what the prologue makes of two codes."""
        pieces: dict[ir.Value, ir.Value] = {self._all[_B].op.results[0]: codes}
        for number, read in self._all.items():
            if number != _B:
                span = self._span(number)
                pieces[read.op.results[0]] = found[number, row, k // span * span]
        made = self.source.piece(pieces, _PAIR)
        return vector.extract(vector.bitcast(ir.VectorType.get([1], ir.IntegerType.get_signless(32)), made), [], [0])

    @property
    def _all(self) -> dict[int, Read]:
        """What is read, by the number of the operand."""
        found = {number_of(read.op.operands[0]): read for read in self.source.reads(0, 0, _PAIR)}
        return {number: read for number, read in found.items() if number is not None}

    def _further(self, column: Index) -> dict[_Place, Read]:
        """What is read for codes: of each operand, of each row of a thread, once for elements along K that have the same."""
        places = [
            (number, row, k)
            for number in self._all
            if number != _B
            for row in range(2 * self.groups)
            for k in range(0, self.depth, self._span(number))
        ]
        by_column = {
            row: {
                number_of(read.op.operands[0]): read
                for read in self.source.reads(add(column, _place_of(row)), 0, _PAIR)
            }
            for row in range(2 * self.groups)
        }
        return {
            (number, row, k): replace(read, at=(add(read.at[0], k), read.at[1]))
            for number, row, k in places
            if (read := by_column[row][number]).is_one
        }

    def _span(self, number: int) -> int:
        """Along how many elements of K in a step there is the same one of an operand."""
        grouped = self.source.reading.groups.get(number)
        return min(self.depth, grouped.group) if grouped else self.depth


def _place_of(row: int) -> int:
    """Where one of a thread's rows is, counted from its first: of each 64 it has two."""
    group, half = divmod(row, 2)
    return group * ROWS + half * _HALF
