# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vectors of queries: blocks of queries by keys, with a query in each lane, so that maxima and sums over keys are vector operations.

For a block of queries::

    Q' = Q transposed; O' = 0; m = lowest; l = 0
    for j0 in keys step kc:                       (those that a query of the block sees)
        S' = K[j0:j0+kc] * Q'                     in tiles of mr keys by nr vectors of queries, with their maxima
        a = 2 ** (m - max(m, maxima)); m = max(m, maxima)
        S' = 2 ** (S' - m); l = l * a + sum of S'
        O' = O' * a + V[j0:j0+kc] transposed * S' in tiles of mr elements of a value by nr vectors
    O = O' / l transposed

K and V are neither packed nor transposed where their elements are multiplied as they are: a tile broadcasts single words of them,
and reads vectors of Q' and S' only. No more than one block of scores is ever in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.index import Index
from tilewright.build.loops import chunks, repeat, when
from tilewright.build.vectors import load
from tilewright.codegen.attention import tiles
from tilewright.codegen.attention.code import Code, interleaved, widened
from tilewright.codegen.attention.column import Column
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.tiles import TileColumn
from tilewright.codegen.attention.vector_column import VectorColumn
from tilewright.mlir import ir
from tilewright.schedules.models.online_softmax import stages_keys, stages_values


@dataclass(frozen=True, slots=True)
class Blocks:
    """The code of a block of queries.

    Attributes:
        code: The operands, arithmetic and buffers.
    """

    code: Code

    def block(self, head: Head, number: ir.Value) -> None:
        """Computes block number `number` of the rows of a task."""
        start = index.mul(number, self.code.tiling.columns * self.code.tiling.rows)
        if not self.code.problem.chain.packed:
            self._block(head, start)
            return
        with when(index.signed_less(start, self.code.problem.rows)):  # There are places for more than a sequence has.
            self._block(head, start)

    def _block(self, head: Head, start: Index) -> None:
        """The same of the block from row `start` on."""
        tiling, rows = self.code.tiling, self.code.problem.rows
        columns = index.signed_min(tiling.columns, index.ceil_div(index.sub(rows, start), tiling.rows))

        def at(column: ir.Value) -> tuple[Code, Head, ir.Value, Index]:
            return self.code, head, column, index.add(start, index.mul(column, tiling.rows))

        def keys(first_key: ir.Value) -> None:
            self._stage(head, first_key)
            if tiling.in_tiles:
                tiles.add(columns, lambda column: TileColumn(*at(column)), first_key)
            else:
                repeat(columns, 1, lambda column: VectorColumn(*at(column)).add(first_key))

        repeat(columns, 1, lambda column: Column(*at(column)).begin())
        last = index.sub(index.signed_min(index.add(start, tiling.columns * tiling.rows), rows), 1)
        repeat(self.code.seen(last), tiling.kc, keys)
        repeat(columns, 1, lambda column: Column(*at(column)).end())

    def _stage(self, head: Head, first_key: ir.Value) -> None:
        """Converts a block of keys and of values, where they cannot be multiplied as stored."""
        chain, tiling = self.code.problem.chain, self.code.tiling
        count = index.signed_min(tiling.kc, index.sub(self.code.problem.keys, first_key))
        if stages_keys(chain, tiling):

            def key(row: ir.Value) -> None:
                def words(at: Index, whole: int) -> None:
                    place = [*head.key(index.add(first_key, row)), at]
                    loaded = self.code.words(self.code.problem.k, place, whole)
                    self.code.store(loaded, "keys", row, index.div(at, tiling.depth))

                chunks(chain.head, tiling.lanes * tiling.depth, words)

            repeat(count, 1, key)
        if tiling.in_tiles:
            tiles.stage_values(self.code, head, first_key)
        elif stages_values(chain, tiling):
            repeat(index.ceil_div(count, tiling.depth), 1, lambda row: self._stage_values(head, first_key, row))

    def _stage_values(self, head: Head, first_key: ir.Value, row: ir.Value) -> None:
        """Converts a row of values, or interleaves two as pairs; an odd last row is its own partner, with a weight of zero."""
        chain, tiling, values = self.code.problem.chain, self.code.tiling, self.code.problem.v
        lanes = tiling.lanes
        number = index.add(first_key, index.mul(row, tiling.depth))

        def words(at: Index, whole: int) -> None:
            if tiling.pairs:
                after = index.signed_min(index.add(number, 1), index.sub(self.code.problem.keys, 1))
                two = (load(values, [*head.key(each), at], lanes, whole) for each in (number, after))
                loaded = interleaved(*(widened(each, "bf16") for each in two))
            else:
                loaded = self.code.words(values, [*head.key(number), at], whole)
            self.code.store(loaded, "values", row, at)

        chunks(chain.value_head, lanes, words)
