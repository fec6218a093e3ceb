# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which steps of which tiles a block computes where the last tiles would fill the chip in part: stream-K.

Before, with `G` clusters and tiles of S steps over K, in `tile_order`: ``for t = cluster to tiles step G``, of which the last round has
tiles for some of the clusters only. After::

    for t = cluster to whole * G step G: all S steps                # rounds that fill the chip, but for the last one of them
    for the steps of all tiles that are left, of which each cluster has as many, behind one another:
        the last piece first: of a tile that a later cluster finishes, sums go to memory
        pieces in between: whole tiles
        the first piece last: of a tile that earlier clusters have begun, their sums are added, and the tile is finished

So everybody is done at about the same time, sums that somebody needs are there early, and a cluster waits for earlier ones only, which
have begun whatever the chip has room for. With more tiles left than clusters, a tile has two pieces at most.

Source: Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the GPU", 2023.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.index import value
from tilewright.codegen.gpu import shared
from tilewright.codegen.gpu.tile_order import TileOrder
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith


@dataclass(frozen=True, slots=True)
class StreamedOrder(TileOrder):
    """The pieces of a cluster, by their number; a piece is some steps of a tile. All values here have 32 bits.

    Attributes:
        steps: Of a tile, or 1 where there are none.
        whole: Tiles that each cluster has by itself.
        begin: The first step of this cluster, of all steps of the tiles that are left.
        end: The one behind its last.
    """

    steps: ir.Value
    whole: ir.Value
    begin: ir.Value
    end: ir.Value

    @staticmethod
    def of(order: TileOrder, steps: ir.Value) -> StreamedOrder:
        """The pieces of tiles of so many steps."""
        one, steps = shared.i32(1), arith.maxui(shared.as_i32(steps), shared.i32(1))
        tiles, clusters, cluster = (shared.as_i32(each) for each in (order.count(), order.step(), order.first()))
        rounds = arith.divui(tiles, clusters)
        is_even = arith.cmpi(arith.CmpIPredicate.eq, arith.remui(tiles, clusters), shared.i32(0))
        # Of one full round more than of what is left: sums of a tile then come from two clusters at most.
        whole = arith.select(is_even, rounds, arith.subi(arith.maxui(rounds, one), one))
        left = arith.muli(arith.subi(tiles, arith.muli(whole, clusters)), steps)
        own, more = arith.divui(left, clusters), arith.remui(left, clusters)

        def begin(cluster: ir.Value) -> ir.Value:
            """The first clusters have one step more."""
            return arith.addi(arith.muli(cluster, own), arith.minui(cluster, more))

        fields = order.rows, order.columns, order.band, order.cluster, order.beside, order.split
        return StreamedOrder(*fields, steps, whole, begin(cluster), begin(arith.addi(cluster, one)))

    def first(self) -> ir.Value:
        """The number of the first piece."""
        return value(0)

    def step(self) -> ir.Value:
        """How far apart the numbers of pieces are."""
        return value(1)

    def count(self) -> ir.Value:
        """How many pieces a cluster has."""
        tiles = arith.addi(arith.subi(self._last(), arith.divui(self.begin, self.steps)), shared.i32(1))
        some = arith.cmpi(arith.CmpIPredicate.ult, self.begin, self.end)
        return _index(arith.addi(self.whole, arith.select(some, tiles, shared.i32(0))))

    def place(self, number: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row and column of tiles of a piece's tile, as `TileOrder` has it."""
        number, clusters = shared.as_i32(number), shared.as_i32(TileOrder.step(self))
        alone = arith.addi(shared.as_i32(TileOrder.first(self)), arith.muli(number, clusters))
        left = arith.addi(arith.muli(self.whole, clusters), self._left(number))
        return TileOrder.place(self, _index(arith.select(self._is_whole(number), alone, left)))

    def share(self, number: ir.Value, steps: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The first of a piece's steps, and the one behind its last."""
        number = shared.as_i32(number)
        start, is_whole = self._start(number), self._is_whole(number)
        first = arith.subi(arith.maxui(self.begin, start), start)
        last = arith.subi(arith.minui(self.end, arith.addi(start, self.steps)), start)
        first = arith.select(is_whole, shared.i32(0), first)
        last = arith.select(is_whole, self.steps, last)
        return arith.minui(_index(first), steps), arith.minui(_index(last), steps)

    def has_first(self, number: ir.Value) -> ir.Value:
        """Whether a piece has its tile's first step."""
        number = shared.as_i32(number)
        is_there = arith.cmpi(arith.CmpIPredicate.ule, self.begin, self._start(number))
        return arith.ori(self._is_whole(number), is_there)

    def has_last(self, number: ir.Value) -> ir.Value:
        """Whether a piece has its tile's last step."""
        number = shared.as_i32(number)
        behind = arith.addi(self._start(number), self.steps)
        return arith.ori(self._is_whole(number), arith.cmpi(arith.CmpIPredicate.uge, self.end, behind))

    def _is_whole(self, number: ir.Value) -> ir.Value:
        """Whether a piece is a tile that a cluster has by itself, which come first."""
        return arith.cmpi(arith.CmpIPredicate.ult, number, self.whole)

    def _last(self) -> ir.Value:
        """The last tile of which a cluster has steps, of those that are left."""
        return arith.divui(arith.subi(self.end, shared.i32(1)), self.steps)

    def _left(self, number: ir.Value) -> ir.Value:
        """The tile of a piece, of those that are left: the last one first."""
        return arith.subi(self._last(), arith.subi(number, self.whole))

    def _start(self, number: ir.Value) -> ir.Value:
        """The first step of a piece's tile, of all steps of the tiles that are left."""
        return arith.muli(self._left(number), self.steps)


def _index(word: ir.Value) -> ir.Value:
    return arith.index_castui(ir.IndexType.get(), word)
