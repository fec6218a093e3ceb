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

from tilewright.build.index import Index, add, div_rem, less, mul, value
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
        beside: Blocks of a cluster that have tiles beside one another: those of a row of tiles follow one another.
        split: Blocks of a cluster that have the same tile.
    """

    rows: ir.Value
    columns: ir.Value
    band: int
    cluster: int
    beside: int
    split: int

    def first(self) -> ir.Value:
        """The number of a block's first tile, or of its cluster's."""
        return self._per_cluster(gpu.block_id(gpu.Dimension.x))

    def step(self) -> ir.Value:
        """How far apart the numbers of a block's tiles are."""
        return self._per_cluster(gpu.grid_dim(gpu.Dimension.x))

    def rank(self) -> ir.Value:
        """The number of a block in its cluster."""
        return arith.remui(gpu.block_id(gpu.Dimension.x), value(self.cluster * self.beside * self.split))

    def in_cluster(self) -> tuple[Index, Index]:
        """The row and column of a block's tile among those of its cluster."""
        return div_rem(self.rank(), self.beside)

    def exists(self, at: tuple[ir.Value, ir.Value]) -> ir.Value | None:
        """Whether a block has a tile in its cluster's group of them, the last of which may reach beyond C; None where each has."""
        below = less(at[0], self.rows) if self.cluster > 1 else None
        if self.beside == 1:
            return below
        right = less(at[1], self.columns)
        return right if below is None else arith.andi(below, right)

    def count(self) -> ir.Value:
        """How many tiles there are, or groups of as many as a cluster has."""
        return arith.muli(*self._groups())

    def place(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row and column of tiles of a block's tile, by its number; it may lie beyond the last ones in a cluster."""
        # Numbers of tiles fit into 32 bits, in which a GPU divides faster.
        t, rows, columns = (shared.as_i32(each) for each in (number, *self._groups()))
        per_band = arith.muli(columns, shared.i32(self.band))
        first = arith.muli(arith.divui(t, per_band), shared.i32(self.band))
        height = arith.minui(arith.subi(rows, first), shared.i32(self.band))
        within = arith.remui(t, per_band)
        row = arith.addi(first, arith.remui(within, height))
        column = arith.divui(within, height)
        index = ir.IndexType.get()
        down, right = arith.index_castui(index, row), arith.index_castui(index, column)
        if self.cluster * self.beside == 1:
            return down, right
        below, beside = self.in_cluster()
        return value(add(mul(down, self.cluster), below)), value(add(mul(right, self.beside), beside))

    def share(self, number: ir.Value, steps: ir.Value) -> tuple[ir.Value, ir.Value] | None:
        """The first of a block's steps over K of a tile, by its number, and the one behind its last; None for all there are."""
        if self.split == 1:
            return None
        own = arith.ceildivui(steps, value(self.split))
        first = arith.minui(arith.muli(own, self.rank()), steps)
        return first, arith.minui(arith.addi(first, own), steps)

    def _groups(self) -> list[ir.Value]:
        """Rows and columns of groups of as many tiles as a cluster has."""
        both = (self.rows, self.cluster), (self.columns, self.beside)
        return [arith.ceildivui(tiles, value(blocks)) if blocks > 1 else tiles for tiles, blocks in both]

    def _per_cluster(self, number: ir.Value) -> ir.Value:
        blocks = self.cluster * self.beside * self.split
        return arith.divui(number, value(blocks)) if blocks > 1 else number
