# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which queries, keys and head a block of warp groups has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, ceil_div, div, div_rem, less, minimum, mul, sub, value
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.attention.rows import Entry
from tilewright.codegen.gpu_attention.heads import entry_of
from tilewright.codegen.gpu_attention.scores import Scores
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROWS


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """What a block has.

    Attributes:
        chain: What is computed.
        sizes: The decision.
        entry: The entry of the batch, or the sequence.
        head: The first head of the queries.
        rank: Which part of the keys it has.
        first: Its first query.
        mask: The mask; None without.
    """

    chain: Chain
    sizes: WarpGroupSoftmax
    entry: Entry
    head: Index
    rank: Index
    first: Index
    mask: ir.Value | None

    @staticmethod
    def of(chain: Chain, sizes: WarpGroupSoftmax, operands: Mapping[str, ir.Value]) -> GroupBlock:
        """That of the thread whose code this is, given the operands by name."""
        # Blocks that run at the same time have the same keys. Those with most keys begin first.
        count = gpu.grid_dim(gpu.Dimension.y)
        heads, rank = div_rem(gpu.block_id(gpu.Dimension.x), sizes.split)
        across = div(gpu.grid_dim(gpu.Dimension.x), sizes.split)
        head, tile = div_rem(add(heads, mul(gpu.block_id(gpu.Dimension.y), across)), count)
        if chain.causal:
            tile = sub(sub(count, 1), tile)
        tile, entry = entry_of(chain, operands, tile, sizes.bm)
        return GroupBlock(chain, sizes, entry, mul(head, sizes.merged), rank, mul(tile, sizes.bm), operands.get("mask"))

    @property
    def queries(self) -> Index:
        """Queries of a head."""
        return self.entry.queries

    @property
    def keys(self) -> Index:
        """Keys of a head."""
        return self.entry.keys

    def key(self, number: Index) -> list[Index]:
        """The indices of a key, or of a value, but for the last one."""
        return self.entry.key(div(self.head, self.chain.group), number)

    @property
    def per_group(self) -> int:
        """Queries of a warp group, of each head."""
        return ROWS // self.sizes.places

    def row(self, number: Index) -> tuple[Index, Index]:
        """The head, and the query, of a row of the block's tile; one that there is not, of rows that are of no head."""
        group, row = div_rem(number, ROWS)
        head, query = div_rem(row, self.per_group)
        query = add(self.first, add(mul(group, self.per_group), query))
        if self.sizes.merged < self.sizes.places:
            query = arith.select(less(head, self.sizes.merged), value(query), value(self.queries))
        return add(self.head, head), query

    def steps(self) -> tuple[Index, Index]:
        """The first of the blocks of keys that it goes through, and how many there are."""
        end = self.scores([self.first], 0, [0], 1).end(self.first, self.sizes.bm)
        if self.chain.packed:  # There are places for more blocks than a sequence has.
            end = arith.select(less(self.first, self.queries), value(end), value(0))
        count, split = ceil_div(end, self.sizes.kc), self.sizes.split
        if split == 1:
            return 0, count
        own = ceil_div(count, split)
        first = minimum(mul(own, self.rank), count)
        return first, minimum(sub(count, first), own)

    def scores(self, rows: Sequence[Index], column: Index, offsets: Sequence[int], scale: float) -> Scores:
        """The scores of a thread of some rows and columns, which are multiplied by a scale."""
        place = [*self.entry.place, self.head]
        return Scores(self.chain, scale, rows, column, offsets, self.queries, self.keys, self.mask, place)
