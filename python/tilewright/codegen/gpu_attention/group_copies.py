# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the one thread of a block does that has queries, keys and values copied to shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, less, mul, sub
from tilewright.build.loops import loop, when
from tilewright.codegen.gpu.ring import Ring, Turn
from tilewright.codegen.gpu_attention.group_block import GroupBlock
from tilewright.codegen.gpu_attention.group_tiles import GroupTile, GroupTiles
from tilewright.mlir import ir
from tilewright.mlir.dialects import scf
from tilewright.schedules.decisions import WarpGroupSoftmax


@dataclass(frozen=True, slots=True)
class Rings:
    """Barrier objects of the tiles.

    Attributes:
        queries: Of the queries, which are copied once.
        keys: Of the slots of keys.
        values: Of those of values.
    """

    queries: Ring
    keys: Ring
    values: Ring

    @staticmethod
    def of(sizes: WarpGroupSoftmax) -> Rings:
        """Those of a decision, in shared memory that is allocated here."""
        queries, keys, values = (Ring(slots, 4 * sizes.consumers) for slots in (1, sizes.stages, sizes.stages))
        return Rings(queries, keys, values)

    def initialize(self) -> None:
        """Initializes them: code for one thread."""
        for ring in (self.queries, self.keys, self.values):
            ring.initialize()


@dataclass(frozen=True, slots=True)
class Copies:
    """What is copied.

    Attributes:
        block: Of which queries and keys.
        tiles: Where it comes to.
        rings: Their barrier objects.
        maps: Tensor maps of queries, keys and values.
    """

    block: GroupBlock
    tiles: GroupTiles
    rings: Rings
    maps: Sequence[ir.Value]

    def begin(self) -> None:
        """Copies of the queries, and of blocks of keys and values in the order in which they are multiplied."""
        consumers, (first, steps) = self.block.sizes.consumers, self.block.steps()
        rings, tiles = self.rings, self.tiles
        query_map, key_map, value_map = self.maps
        with when(less(0, steps)):
            start = rings.queries.first()
            rings.queries.expect(start, consumers * tiles.q.tile.bytes)
            for consumer in range(consumers):
                row = add(self.block.first, consumer * self.block.per_group)
                place = self.block.entry.query(self.block.head, row)
                tiles.q.copy(query_map, consumer, [place], rings.queries.full(start.slot))
            key_turn = self._bring(rings.keys, tiles.k, key_map, rings.keys.first(), first)
            carried = [*key_turn.values, *rings.values.first().values]
            with loop(1, steps, 1, carried) as (step, held, over):
                key_turn = self._bring(rings.keys, tiles.k, key_map, Turn(*held[:2]), add(first, step))
                value_turn = self._bring(rings.values, tiles.v, value_map, Turn(*held[2:]), add(first, sub(step, 1)))
                scf.yield_([*key_turn.values, *value_turn.values])
            self._bring(rings.values, tiles.v, value_map, Turn(*over.results[2:]), add(first, sub(steps, 1)))

    def _bring(self, ring: Ring, tile: GroupTile, map_: ir.Value, turn: Turn, step: Index) -> Turn:
        """Has a block's tile copied when its slot is empty; returns the turn after it."""
        ring.await_empty(turn)
        ring.expect(turn, tile.tile.bytes)
        first, size = mul(step, self.block.sizes.kc), tile.piece
        places = [self.block.key(add(first, start)) for start in range(0, tile.tile.outer, size)]
        tile.copy(map_, turn.slot, places, ring.full(turn.slot))
        return ring.after(turn)
