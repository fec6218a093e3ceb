# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vectors along the head: few queries and many keys, each of which is read once, in memory order.

For the queries of all heads that share a head of keys::

    for j0 in keys step kc:
        for j in j0..j0+kc: t[j] = K[j] * q           in vectors along the head
        for j in j0..j0+kc step lanes: s[j:j+lanes] = sums of the elements of t[j], t[j+1], ...
        a = 2 ** (m - max(m, s)); m = max(m, s); p = 2 ** (s - m); l = l * a + sum of p
        o = o * a
        for j in j0..j0+kc: o += p[j] * V[j]          in vectors along the head, of as many queries as registers hold
    out = o / l
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.build import index
from tilewright.build.constants import integer
from tilewright.build.index import Index
from tilewright.build.loops import chunks, repeat
from tilewright.build.vectors import bits_as, load, store
from tilewright.codegen.attention.code import Code, inverse, narrowed, widened
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.tile import multiply_add
from tilewright.codegen.attention.vectors import Values
from tilewright.dtypes import dtype
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_LINE = 64
"""Bytes of a cache line: where lines are longer some prefetches are redundant."""
_FEW = 2
_AHEAD_OF_FEW, _AHEAD = 2048, 8192
"""Prefetch distance in bytes, for up to `_FEW` queries and for more. On a Zen 4 core one or two queries get 91 to 98 % of the bandwidth
so, 82 to 98 without prefetching, and 70 at 8 KiB; four get 49 to 76, and 33 to 72 at 2 KiB."""
_HELD = 8
"""Vectors of a result that one pass over a block of values accumulates."""
_SUMS = 16
"""The same of all queries of such a pass."""


@dataclass(frozen=True, slots=True)
class Decode:
    """The code of the queries that share one head of keys.

    Attributes:
        code: The operands, arithmetic and buffers.
        head: The head of keys.
        rows: How many queries there are.
    """

    code: Code
    head: Head
    rows: int

    @property
    def _chunk(self) -> int:
        """Elements of an operand's vector."""
        return self.code.tiling.lanes * self.code.tiling.depth

    def run(self) -> None:
        """Computes all of them."""
        code, tiling = self.code, self.code.tiling
        self._begin()

        def block(first_key: ir.Value) -> None:
            count = index.signed_min(tiling.kc, index.sub(seen, first_key))
            self._products(first_key, count)
            repeat(self.rows, 1, lambda row: self._weigh(row, first_key))
            self._values(first_key, count)

        seen = code.seen(index.sub(self.rows, 1))
        repeat(seen, tiling.kc, block)
        self._end()

    def _begin(self) -> None:
        """Converts the queries to words, and starts the sums."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        zero = code.vectors.number(0.0)

        def begin(row: ir.Value) -> None:
            place = self.head.query(row)

            def words(at: Index, whole: int) -> None:
                code.store(code.words(code.problem.q, [*place, at], whole), "queries", row, index.div(at, tiling.depth))

            chunks(chain.head, self._chunk, words)
            chunks(chain.value_head, tiling.lanes, lambda at, _: code.store(zero, "sums", row, at))
            code.start(row, 0)

        repeat(self.rows, 1, begin)

    def _weigh(self, row: ir.Value, first_key: ir.Value) -> None:
        """Turns a block's scores into weights for one query, and rescales its sums."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        vectors = code.vectors
        limit = self._limit(row)
        scores = [self._seen(row, first_key, key, limit) for key in range(0, tiling.kc, tiling.lanes)]
        before = code.load("largest", row, 0)
        top = vectors.larger(vectors.spread(reduce(vectors.larger, scores), vectors.larger), before)
        rescale = vectors.exp2(arith.subf(before, top), code.factor)
        code.store(top, "largest", row, 0)
        total = arith.mulf(code.load("weights", row, 0), rescale)
        for number, score in enumerate(scores):
            weights = vectors.exp2(arith.subf(score, top), code.factor)
            place = row, number * tiling.lanes
            if tiling.pairs:
                code.store(narrowed(weights, "bf16"), "powers", *place)
            else:
                code.store(weights, "scores", *place)
            total = arith.addf(total, weights)
        code.store(total, "weights", row, 0)

        def elements(at: Index, _: int) -> None:
            code.store(arith.mulf(code.load("sums", row, at), rescale), "sums", row, at)

        chunks(chain.value_head, tiling.lanes, elements)

    def _seen(self, row: ir.Value, first_key: ir.Value, key: int, limit: ir.Value) -> ir.Value:
        """A vector of a query's scores in the block, from key number `key` on; -Inf for keys that it does not see."""
        code, chain, vectors = self.code, self.code.problem.chain, self.code.vectors
        number = index.value(index.add(first_key, key))
        scores = vectors.sums_of([code.load("products", row, key + each, 0) for each in range(vectors.lanes)])
        if code.scaled:
            scores = arith.mulf(scores, vectors.number(chain.scale))
        if code.problem.mask is not None:
            left = index.value(index.sub(code.problem.keys, number))
            scores = arith.addf(scores, code.mask([*self.head.masked(row), number], left))
        numbers = arith.addi(vectors.splat_index(number), vectors.counting())
        beyond = arith.cmpi(arith.CmpIPredicate.sgt, numbers, limit)
        return arith.select(beyond, vectors.number(float("-inf")), scores)

    def _limit(self, row: ir.Value) -> ir.Value:
        """The last key that a query sees, in each lane."""
        code = self.code
        last = index.sub(code.problem.keys, 1)
        if code.problem.chain.causal:
            query = index.rem(row, code.problem.queries)
            last = index.signed_min(last, index.add(query, code.offset))
        return code.vectors.splat_index(last)

    def _products(self, first_key: ir.Value, count: Index) -> None:
        """Multiplies each key of a block with all queries, into vectors of partial sums in scratch memory.

        A loop over single keys, so that they are read in the order in which they lie: caches then see a stream, and read ahead.
        """
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        vectors = code.vectors

        def one(key: ir.Value) -> None:
            number = index.add(first_key, key)
            place = self.head.key(number)
            self._prefetch(code.problem.k, [number], chain.head, chain.k)

            def add(sums: Sequence[ir.Value], at: Index, whole: int) -> Values:
                """Adds the products of `whole` elements of the head, from element `at` on."""
                step = index.div(at, tiling.depth)
                key_ = code.words(code.problem.k, [*place, at], whole)
                queries = [code.load("queries", row, step) for row in range(self.rows)]
                pairs = zip(queries, sums, strict=True)
                return [multiply_add(vectors, tiling, each, key_, total) for each, total in pairs]

            sums: Values = [vectors.number(0.0)] * self.rows
            whole = chain.head - chain.head % self._chunk
            if whole:
                sums = repeat(whole, self._chunk, lambda at, *each: add(each, at, self._chunk), sums)
            if whole < chain.head:
                sums = add(sums, whole, chain.head - whole)
            for row, total in enumerate(sums):
                code.store(total, "products", row, key, 0)

        repeat(count, 1, one)

    def _values(self, first_key: ir.Value, count: Index) -> None:
        """Adds a block of weighted values to the sums."""
        chain, lanes = self.code.problem.chain, self.code.tiling.lanes
        for start in range(0, chain.value_head, lanes * _HELD):
            columns = range(start, min(chain.value_head, start + lanes * _HELD), lanes)
            together = max(1, _SUMS // len(columns))
            for row in range(0, self.rows, together):
                self._add_values(first_key, count, columns, range(row, min(self.rows, row + together)))

    def _add_values(self, first_key: ir.Value, count: Index, columns: range, rows: range) -> None:
        """The same for vectors of the result that start at `columns`, and some queries."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        last = index.sub(code.problem.keys, 1)
        places = [(row, column) for row in rows for column in columns]
        old = [code.load("sums", *place) for place in places]

        def step(key: ir.Value, *sums: ir.Value) -> Values:
            number = index.add(first_key, key)
            numbers = [number] + [index.signed_min(index.add(number, 1), last)] * (tiling.depth - 1)
            heads = [self.head.key(each) for each in numbers]
            if columns.start == rows.start == 0:
                self._prefetch(code.problem.v, numbers, chain.value_head, chain.v)
            values = self._words(columns, heads)
            found = list(sums)
            for at, row in enumerate(rows):
                weight = self._weight(row, key)
                for column, value in enumerate(values):
                    place = at * len(values) + column
                    found[place] = multiply_add(code.vectors, tiling, weight, value, found[place])
            return found

        new = repeat(count, tiling.depth, step, old)
        for place, value in zip(places, new, strict=True):
            code.store(value, "sums", *place)

    def _prefetch(self, operand: ir.Value, numbers: Sequence[Index], size: int, element: str) -> None:
        """Prefetches into L2 the rows at the prefetch distance behind those of `numbers`."""
        step = dtype(element).bytes
        ahead = _AHEAD_OF_FEW if self.rows <= _FEW else _AHEAD
        distance = max(1, ahead // (size * step))
        last = index.sub(self.code.problem.keys, 1)
        for number in numbers:
            place = self.head.key(index.signed_min(index.add(number, distance), last))
            for at in range(0, size, _LINE // step):
                memref.prefetch(
                    operand, index.values([*place, at]), is_write=False, locality_hint=2, is_data_cache=True
                )

    def _weight(self, row: int, key: ir.Value) -> ir.Value:
        """The weight of a key, or of a pair of them, in each lane."""
        code, vectors = self.code, self.code.vectors
        if not code.tiling.pairs:
            return vector.broadcast(vectors.floats, code.load("scores", row, key, count=1))
        two = code.load("powers", row, key, count=2)
        return vector.broadcast(vectors.integers, bits_as(two, integer(32)))

    def _words(self, columns: range, heads: Sequence[Sequence[Index]]) -> Values:
        """The vectors of a value, or of two as pairs, that start at `columns`."""
        code, lanes, end = self.code, self.code.tiling.lanes, self.code.problem.chain.value_head
        values = code.problem.v
        if not code.tiling.pairs:
            return [code.words(values, [*heads[0], at], min(lanes, end - at)) for at in columns]
        found: Values = []
        for at in range(columns.start, columns.stop, 2 * lanes):
            loaded = (load(values, [*place, at], 2 * lanes, min(2 * lanes, end - at)) for place in heads)
            both = [widened(each, "bf16") for each in loaded]
            for half in range(0, min(2 * lanes, columns.stop - at), lanes):
                order = [each for lane in range(half, half + lanes) for each in (lane, 2 * lanes + lane)]
                found.append(bits_as(vector.shuffle(both[0], both[-1], order), integer(32)))
        return found

    def _end(self) -> None:
        """Divides the sums by the weights, and writes them."""
        code, vectors, chain = self.code, self.code.vectors, self.code.problem.chain

        def end(row: ir.Value) -> None:
            reciprocal = inverse(vectors, vectors.spread(code.load("weights", row, 0), arith.addf))
            place = self.head.query(row)

            def elements(at: Index, whole: int) -> None:
                result = narrowed(arith.mulf(code.load("sums", row, at), reciprocal), chain.out)
                store(result, code.problem.out, [*place, at], whole)

            chunks(chain.value_head, code.tiling.lanes, elements)

        repeat(self.rows, 1, end)
