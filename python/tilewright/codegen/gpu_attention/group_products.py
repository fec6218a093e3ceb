# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The products of a warp group: queries by keys from shared memory, and weights in registers by values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.constants import zero
from tilewright.build.index import Index, add, less, mul, sub
from tilewright.build.loops import loop, when
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.barriers import meet_consumers
from tilewright.codegen.gpu.ring import Turn
from tilewright.codegen.gpu.staging import PIECE_BYTES
from tilewright.codegen.gpu.tma_stores import fence_copies
from tilewright.codegen.gpu.wgmma import Instruction, advanced
from tilewright.codegen.gpu_attention.group_copies import Rings
from tilewright.codegen.gpu_attention.group_tiles import GroupTiles
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, llvm, nvvm, vector
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, WARP_GROUP

HALVES = (0, 8)
"""Rows of a thread, counted from its first."""
_DEPTH = 16
"""Elements that an instruction multiplies of each row."""


@dataclass(frozen=True, slots=True)
class GroupProducts:
    """How a warp group multiplies.

    Attributes:
        sizes: The decision.
        head: Elements of a query.
        tiles: The tiles.
        rings: Their barrier objects.
        by_keys: The instruction that multiplies queries by keys.
        by_values: That of weights by values.
    """

    sizes: WarpGroupSoftmax
    head: int
    tiles: GroupTiles
    rings: Rings
    by_keys: Instruction
    by_values: Instruction

    @staticmethod
    def of(sizes: WarpGroupSoftmax, chain: Chain, tiles: GroupTiles, columns: int) -> GroupProducts:
        """Those of a decision, with results of so many columns, and barrier objects that are allocated here."""
        types = (sizes.multiplied, sizes.multiplied)
        by_keys = Instruction(sizes.kc, types, ir.F32Type.get())
        by_values = Instruction(columns, types, ir.F32Type.get(), (True, False))
        return GroupProducts(sizes, chain.head, tiles, Rings.of(sizes), by_keys, by_values)

    def begin_scores(self, queries: ir.Value, turn: Turn) -> ir.Value:
        """Begins the products of queries and the keys of a slot."""
        self.rings.keys.await_full(turn)
        nvvm.wgmma_fence_aligned()
        keys, products = self.tiles.k.descriptor(turn.slot), self.by_keys.undefined()
        for depth in range(0, self.head, _DEPTH):
            places = (each.tile.place(0, depth) for each in (self.tiles.q, self.tiles.k))
            a, b = (advanced(*each) for each in zip((queries, keys), places, strict=True))
            products = self.by_keys.begin(a, b, products, _DEPTH, adds=depth > 0)
        nvvm.wgmma_commit_group_sync_aligned()
        return products

    def begin_values(self, weights: Sequence[ir.Value], results: ir.Value, turn: Turn) -> ir.Value:
        """Begins the products of weights in registers and the values of a slot, which are added to the results."""
        self.rings.values.await_full(turn)
        nvvm.wgmma_fence_aligned()
        start = self.tiles.v.descriptor(turn.slot)
        for number, depth in enumerate(range(0, self.sizes.kc, _DEPTH)):
            values = advanced(start, self.tiles.v.tile.place(0, depth))
            results = self.by_values.begin(weights[4 * number : 4 * number + 4], values, results, _DEPTH)
        nvvm.wgmma_commit_group_sync_aligned()
        return results

    def clear(self, turn: Turn, left: Index, thread: Index) -> None:
        """Clears the rows of a slot of values behind the first `left`, which may be another entry's, or anything: zero times NaN is none.

        All threads that multiply do it together, before any of them reads the slot.
        """
        tile, memory, kc = self.tiles.v.tile, self.tiles.v.memory, self.sizes.kc
        with when(less(left, kc)):
            self.rings.values.await_full(turn)
            piece = ir.VectorType.get([4], ir.IntegerType.get_signless(32))
            start, count = mul(left, ROW_BYTES), mul(sub(kc, left), ROW_BYTES // PIECE_BYTES)
            for part in range(tile.count):
                base = add(add(mul(turn.slot, tile.bytes), part * tile.box_bytes), start)
                with loop(thread, count, self.sizes.consumers * WARP_GROUP) as (at, _, _):
                    place = shared.pointer(memory, add(base, mul(at, PIECE_BYTES)))
                    llvm.store(zero(piece), place, alignment=PIECE_BYTES)
            fence_copies()
            meet_consumers(self.sizes.consumers)

    def rows(self, products: ir.Value) -> list[list[ir.Value]]:
        """A thread's products of queries and keys by rows, when they have been waited for."""
        elements = self.by_keys.elements(products)
        return [
            [elements[4 * eight + 2 * half + each] for eight in range(self.sizes.kc // 8) for each in (0, 1)]
            for half in range(len(HALVES))
        ]

    def scaled(self, results: ir.Value, factors: Sequence[ir.Value]) -> ir.Value:
        """The results so far by the factors of their rows."""
        elements = self.by_values.elements(results)
        return self.by_values.of_elements(
            [arith.mulf(each, factors[number // 2 % 2]) for number, each in enumerate(elements)]
        )

    def held(self, weights: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
        """Weights by rows as registers of the first matrix: of each 16 keys two of either row, and two 8 further on."""
        pair = ir.VectorType.get([2], ir.F32Type.get())
        narrow = ir.VectorType.get([2], ir.Type.parse(self.sizes.multiplied))
        word = ir.VectorType.get([1], ir.IntegerType.get_signless(32))
        registers = []
        for first in range(0, 2 * (self.sizes.kc // 8), 2):
            for row in weights:
                both = arith.truncf(narrow, vector.from_elements(pair, row[first : first + 2]))
                registers.append(vector.extract(vector.bitcast(word, both), [], [0]))
        return registers
