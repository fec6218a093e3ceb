# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of queries, keys and values in shared memory that warp groups multiply, and how TMA copies them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from tilewright.build.index import Index, add, mul
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.ring import cluster_address
from tilewright.codegen.gpu.tma_tiles import Box, BoxedTile
from tilewright.codegen.gpu_attention.heads import rank_of
from tilewright.mlir import ir
from tilewright.mlir.dialects import nvvm
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, ROWS
from tilewright.schedules.models import warp_group_softmax as model

_BITS = 16
"""Of an element."""
PER_ROW = ROW_BYTES * 8 // _BITS
"""Elements of a row of a box."""


@dataclass(frozen=True, slots=True)
class GroupTile:
    """A tile in as many slots as are in use at once.

    Attributes:
        tile: The tile.
        memory: The slots.
        piece: Rows that are copied at once.
    """

    tile: BoxedTile
    memory: ir.Value
    piece: int

    def descriptor(self, slot: Index) -> ir.Value:
        """What describes the tile of a slot to instructions."""
        return self.tile.descriptor(shared.address(self.memory, mul(slot, self.tile.bytes)))

    def copy(self, map_: ir.Value, slot: Index, places: Sequence[Sequence[Index]], barrier: ir.Value) -> None:
        """Begins the copies of rows, given the tensor map and the indices of each piece's first row; beyond the edges there are zeros."""
        parts = range(self.tile.count)
        for part, (number, (*outer, row)) in product(parts, enumerate(places)):
            below = part * self.tile.box_bytes + number * self.piece * ROW_BYTES
            target = cluster_address(shared.pointer(self.memory, add(mul(slot, self.tile.bytes), below)))
            coordinates = [part * self.tile.inner, row, *reversed(outer)]
            nvvm.cp_async_bulk_tensor_shared_cluster_global(
                target, map_, [shared.as_i32(each) for each in coordinates], barrier, []
            )


@dataclass(frozen=True, slots=True)
class GroupTiles:
    """The tiles of a block.

    Attributes:
        q: Queries: a slot for each consumer.
        k: Keys.
        v: Values.
    """

    q: GroupTile
    k: GroupTile
    v: GroupTile

    @staticmethod
    def of(sizes: WarpGroupSoftmax, chain: Chain) -> GroupTiles:
        """Those of a decision, in shared memory that is allocated here."""
        piece = model.piece(sizes, chain)

        def made(name: str, rows: int, width: int, slots: int, *, along_k: bool) -> GroupTile:
            count = -(-width // PER_ROW)
            tile = BoxedTile(chain.arguments[name], rows, PER_ROW, count, along_k, _BITS, parts=1)
            return GroupTile(tile, shared.allocate(slots * tile.bytes), min(rows, piece) if name != "q" else rows)

        return GroupTiles(
            q=made("q", ROWS, chain.head, sizes.consumers, along_k=True),
            k=made("k", sizes.kc, chain.head, sizes.stages, along_k=True),
            v=made("v", sizes.kc, chain.value_head, sizes.stages, along_k=False),
        )

    def boxes(self, chain: Chain, heads: int) -> list[Box]:
        """How they are copied; queries of so many heads at once."""
        tiles = (("q", self.q), ("k", self.k), ("v", self.v))
        queries, *others = (replace(each.tile, outer=each.piece).box(rank_of(chain, name)) for name, each in tiles)
        *entry, rows, columns = queries.shape
        shape = (*entry[:-1], heads, rows // heads, columns)
        return [replace(queries, shape=shape), *others]
