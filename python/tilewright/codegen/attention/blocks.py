# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy "blocks": blocks of queries by keys, a query in each lane, so that maxima and sums over keys are of vectors.

For a block of queries::

    Q' = Q transposed; O' = 0; m = lowest; l = 0
    for j0 in keys step kc:                       (those that a query of the block sees)
        S' = K[j0:j0+kc] * Q'                     in tiles of mr keys by nr vectors of queries, with their maxima
        a = 2 ** (m - max(m, maxima)); m = max(m, maxima)
        S' = 2 ** (S' - m); l = l * a + sum of S'
        O' = O' * a + V[j0:j0+kc] transposed * S' in tiles of mr elements of a value by nr vectors
    O = O' / l transposed

Neither K nor V needs to be packed or transposed where their elements are multiplied as they are: a tile reads single words of
them, and vectors of Q' and S' only. Nothing but one block of scores is ever in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.codegen.attention import build, convert
from tilewright.codegen.attention.build import Size
from tilewright.codegen.attention.code import Code
from tilewright.codegen.attention.column import Column
from tilewright.codegen.attention.problem import Head
from tilewright.mlir import ir
from tilewright.mlir.dialects import vector
from tilewright.schedules.online_softmax import stages_keys, stages_values


@dataclass(frozen=True, slots=True)
class Blocks:
    """The code of a block of queries.

    Attributes:
        code: The operands, arithmetic and buffers.
    """

    code: Code

    def block(self, head: Head, number: ir.Value) -> None:
        """Computes block number `number` of the rows of a task."""
        tiling, rows = self.code.tiling, self.code.problem.rows
        start = build.multiply(number, tiling.columns * tiling.rows)
        columns = build.least(tiling.columns, build.steps(build.subtract(rows, start), tiling.rows))

        def begin(column: ir.Value) -> None:
            Column(self.code, head, column, build.add(start, build.multiply(column, tiling.rows))).begin()

        def end(column: ir.Value) -> None:
            Column(self.code, head, column, build.add(start, build.multiply(column, tiling.rows))).end()

        def keys(first_key: ir.Value) -> None:
            self._stage(head, first_key)

            def each(column: ir.Value) -> None:
                Column(self.code, head, column, build.add(start, build.multiply(column, tiling.rows))).add(first_key)

            build.loop(columns, 1, each)

        build.loop(columns, 1, begin)
        last = build.subtract(build.least(build.add(start, tiling.columns * tiling.rows), rows), 1)
        build.loop(self.code.seen(last), tiling.kc, keys)
        build.loop(columns, 1, end)

    def _stage(self, head: Head, first_key: ir.Value) -> None:
        """Converts a block of keys and of values, where they cannot be multiplied as they lie."""
        chain, tiling = self.code.problem.chain, self.code.tiling
        count = build.least(tiling.kc, build.subtract(self.code.problem.keys, first_key))
        if stages_keys(chain, tiling):
            size = tiling.lanes * tiling.depth

            def key(row: ir.Value) -> None:
                def words(at: Size, whole: int) -> None:
                    place = [*head.key(build.add(first_key, row)), build.at(at)]
                    loaded = convert.words(
                        self.code.problem.k, place, chain.k, tiling.lanes, pairs=tiling.pairs, whole=whole
                    )
                    to = [row, build.at(build.divide(at, tiling.depth))]
                    vector.store(loaded, self.code.scratch["keys"], to)

                build.chunks(chain.head, size, words)

            build.loop(count, 1, key)
        if stages_values(chain, tiling):
            build.loop(build.steps(count, tiling.depth), 1, lambda row: self._stage_values(head, first_key, row))

    def _stage_values(self, head: Head, first_key: ir.Value, row: ir.Value) -> None:
        """Converts a row of values, or makes pairs of two; behind the last one it stands itself: its weight is zero."""
        chain, tiling, values = self.code.problem.chain, self.code.tiling, self.code.problem.v
        lanes = tiling.lanes
        number = build.add(first_key, build.multiply(row, tiling.depth))

        def words(at: Size, whole: int) -> None:
            if tiling.pairs:
                after = build.least(build.add(number, 1), build.subtract(self.code.problem.keys, 1))
                two = [
                    convert.halves(values, [*head.key(each), build.at(at)], chain.v, lanes, whole)
                    for each in (number, after)
                ]
                loaded = convert.interleaved(*two)
            else:
                loaded = convert.floats(values, [*head.key(number), build.at(at)], chain.v, lanes, whole)
            vector.store(loaded, self.code.scratch["values"], [row, build.at(at)])

        build.chunks(chain.value_head, lanes, words)
