# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which tiles of C a block computes, one after the other: a grid as large as the chip, in an order that the L2 cache likes.

Upstream maps a loop over tiles to as many blocks as there are tiles.

Before: ``forall (i, j) in (rows, columns)``, a block each. After, of `blocks` blocks that go on as long as there are tiles::

    for t = block to rows * columns step blocks:
        band = t / (BAND * columns)                     # so many rows of tiles
        i, j = down the column in the band first, then right

Blocks that run at the same time then share rows of A and columns of B.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.index import value
from tilewright.codegen.gpu import shared
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu


@dataclass(frozen=True, slots=True)
class TileOrder:
    """The tiles of a loop over blocks.

    Attributes:
        rows: Rows of tiles.
        columns: Columns of tiles.
        band: Rows of tiles that are gone through together, column by column.
        cluster: Blocks of a cluster that have tiles below one another.
        split: Blocks of a cluster that have the same tile.
    """

    rows: ir.Value
    columns: ir.Value
    band: int
    cluster: int
    split: int

    def first(self) -> ir.Value:
        """The number of a block's first tile, or of its cluster's."""
        return self._per_cluster(gpu.block_id(gpu.Dimension.x))

    def step(self) -> ir.Value:
        """How far apart the numbers of a block's tiles are."""
        return self._per_cluster(gpu.grid_dim(gpu.Dimension.x))

    def rank(self) -> ir.Value:
        """The number of a block in its cluster."""
        return arith.remui(gpu.block_id(gpu.Dimension.x), value(self.cluster * self.split))

    def count(self) -> ir.Value:
        """How many tiles there are, or groups of as many below one another as a cluster has."""
        return arith.muli(self._groups(), self.columns)

    def place(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row and column of tiles of a block's tile, by its number; the row may lie below the last one in a cluster."""
        # Numbers of tiles fit into 32 bits, in which a GPU divides faster.
        t, rows, columns = (shared.as_i32(each) for each in (number, self._groups(), self.columns))
        per_band = arith.muli(columns, shared.i32(self.band))
        first = arith.muli(arith.divui(t, per_band), shared.i32(self.band))
        height = arith.minui(arith.subi(rows, first), shared.i32(self.band))
        within = arith.remui(t, per_band)
        row = arith.addi(first, arith.remui(within, height))
        column = arith.divui(within, height)
        index = ir.IndexType.get()
        group, right = arith.index_castui(index, row), arith.index_castui(index, column)
        if self.cluster == 1:
            return group, right
        return arith.addi(arith.muli(group, value(self.cluster)), self.rank()), right

    def _groups(self) -> ir.Value:
        return arith.ceildivui(self.rows, value(self.cluster)) if self.cluster > 1 else self.rows

    def _per_cluster(self, number: ir.Value) -> ir.Value:
        blocks = self.cluster * self.split
        return arith.divui(number, value(blocks)) if blocks > 1 else number
