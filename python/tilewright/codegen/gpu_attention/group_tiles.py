# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of queries, keys and values in shared memory that warp groups multiply, and how TMA copies them there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.build.index import Index, add, mul
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.ring import cluster_address
from tilewright.codegen.gpu.tma_tiles import Box, BoxedTile
from tilewright.mlir import ir
from tilewright.mlir.dialects import nvvm
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROW_BYTES, ROWS

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
    """

    tile: BoxedTile
    memory: ir.Value

    def descriptor(self, slot: Index) -> ir.Value:
        """What describes the tile of a slot to instructions."""
        return self.tile.descriptor(shared.address(self.memory, mul(slot, self.tile.bytes)))

    def copy(self, map_: ir.Value, slot: Index, row: Index, place: Sequence[Index], barrier: ir.Value) -> None:
        """Begins the copies of rows of one head from `row` on, given its tensor map; what is beyond the edges becomes zeros."""
        for part in range(self.tile.count):
            start = add(mul(slot, self.tile.bytes), part * self.tile.box_bytes)
            target = cluster_address(shared.pointer(self.memory, start))
            coordinates = [part * self.tile.inner, row, *reversed(place)]
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

        def made(name: str, rows: int, width: int, slots: int, *, along_k: bool) -> GroupTile:
            count = -(-width // PER_ROW)
            tile = BoxedTile(chain.arguments[name], rows, PER_ROW, count, along_k, _BITS, parts=1)
            return GroupTile(tile, shared.allocate(slots * tile.bytes))

        return GroupTiles(
            q=made("q", ROWS, chain.head, sizes.consumers, along_k=True),
            k=made("k", sizes.kc, chain.head, sizes.stages, along_k=True),
            v=made("v", sizes.kc, chain.value_head, sizes.stages, along_k=False),
        )

    def boxes(self, axes: int, merged: int) -> list[Box]:
        """How they are copied, of operands of so many axes; queries of so many heads at once."""
        queries, *others = (each.tile.box(axes) for each in (self.q, self.k, self.v))
        *entry, rows, columns = queries.shape
        shape = (*entry[:-1], merged, rows // merged, columns)
        return [replace(queries, shape=shape), *others]
