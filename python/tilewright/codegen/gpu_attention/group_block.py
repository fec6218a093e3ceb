# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which queries, keys and head a block of warp groups has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, ceil_div, div, div_rem, minimum, mul, sub, value
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.gpu_attention.heads import entry_of
from tilewright.codegen.gpu_attention.scores import Scores
from tilewright.mlir import ir
from tilewright.mlir.dialects import gpu, memref
from tilewright.schedules.decisions import WarpGroupSoftmax
from tilewright.schedules.gpu.warpgroup import ROWS


@dataclass(frozen=True, slots=True)
class GroupBlock:
    """What a block has.

    Attributes:
        chain: What is computed.
        sizes: The decision.
        head: The indices of the batch and the first head of the queries.
        rank: Which part of the keys it has.
        first: Its first query.
        queries: Queries of a head.
        keys: Keys of a head.
        mask: The mask; None without.
    """

    chain: Chain
    sizes: WarpGroupSoftmax
    head: Sequence[Index]
    rank: Index
    first: Index
    queries: Index
    keys: Index
    mask: ir.Value | None

    @staticmethod
    def of(chain: Chain, sizes: WarpGroupSoftmax, operands: Mapping[str, ir.Value]) -> GroupBlock:
        """That of the thread whose code this is, given the operands by name."""
        axis = len(chain.batch) + 1
        queries, keys = (memref.dim(operands[name], value(axis)) for name in "qk")
        # Blocks that run at the same time have the same keys. Those with most keys begin first.
        count = gpu.grid_dim(gpu.Dimension.y)
        heads, rank = div_rem(gpu.block_id(gpu.Dimension.x), sizes.split)
        across = div(gpu.grid_dim(gpu.Dimension.x), sizes.split)
        head, tile = div_rem(add(heads, mul(gpu.block_id(gpu.Dimension.y), across)), count)
        if chain.causal:
            tile = sub(sub(count, 1), tile)
        place = [*entry_of(chain, gpu.block_id(gpu.Dimension.z)), mul(head, sizes.merged)]
        return GroupBlock(chain, sizes, place, rank, mul(tile, sizes.bm), queries, keys, operands.get("mask"))

    @property
    def shared_head(self) -> list[Index]:
        """The indices of the batch and the head of keys and values."""
        return [*self.head[:-1], div(self.head[-1], self.chain.group)]

    @property
    def per_group(self) -> int:
        """Queries of a warp group, of each head."""
        return ROWS // self.sizes.merged

    def row(self, number: Index) -> tuple[list[Index], Index]:
        """The indices of the batch and the head, and the query, of a row of the block's tile."""
        group, row = div_rem(number, ROWS)
        head, query = div_rem(row, self.per_group)
        return [*self.head[:-1], add(self.head[-1], head)], add(self.first, add(mul(group, self.per_group), query))

    def steps(self) -> tuple[Index, Index]:
        """The first of the blocks of keys that it goes through, and how many there are."""
        end = self.scores([self.first], 0, [0], 1).end(self.first, self.sizes.bm)
        count, split = ceil_div(end, self.sizes.kc), self.sizes.split
        if split == 1:
            return 0, count
        own = ceil_div(count, split)
        first = minimum(mul(own, self.rank), count)
        return first, minimum(sub(count, first), own)

    def scores(self, rows: Sequence[Index], column: Index, offsets: Sequence[int], scale: float) -> Scores:
        """The scores of a thread of some rows and columns, which are multiplied by a scale."""
        return Scores(self.chain, scale, rows, column, offsets, self.queries, self.keys, self.mask, self.head)
