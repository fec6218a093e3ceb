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
from tilewright.build.index import Index
from tilewright.codegen.attention import convert
from tilewright.codegen.attention.code import Code, inverse, load_mask, store
from tilewright.codegen.attention.loops import Values, chunks, repeat
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.tile import multiply_add
from tilewright.dtypes import dtype
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector
from tilewright.payload.attention_numbers import LOWEST

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
        vectors, scratch = code.vectors, code.scratch
        first, zero = index.value(0), vectors.number(0.0)

        def begin(row: ir.Value) -> None:
            place = self.head.query(row)

            def words(at: Index, whole: int) -> None:
                loaded = convert.words(
                    code.problem.q, [*place, index.value(at)], chain.q, tiling.lanes, pairs=tiling.pairs, whole=whole
                )
                vector.store(loaded, scratch["queries"], [row, index.value(index.div(at, tiling.depth))])

            chunks(chain.head, self._chunk, words)
            chunks(
                chain.value_head,
                tiling.lanes,
                lambda at, _: vector.store(zero, scratch["sums"], [row, index.value(at)]),
            )
            for name, value in (("largest", LOWEST), ("weights", 0.0)):
                vector.store(vectors.number(value), scratch[name], [row, first])

        repeat(self.rows, 1, begin)

    def _weigh(self, row: ir.Value, first_key: ir.Value) -> None:
        """Turns a block's scores into weights for one query, and rescales its sums."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        vectors, scratch = code.vectors, code.scratch
        first = index.value(0)
        limit = self._limit(row)
        scores = [self._seen(row, first_key, key, limit) for key in range(0, tiling.kc, tiling.lanes)]
        before = vector.load(vectors.floats, scratch["largest"], [row, first])
        top = vectors.larger(vectors.spread(reduce(vectors.larger, scores), vectors.larger), before)
        rescale = vectors.power(arith.subf(before, top), code.factor)
        vector.store(top, scratch["largest"], [row, first])
        total = arith.mulf(vector.load(vectors.floats, scratch["weights"], [row, first]), rescale)
        for number, score in enumerate(scores):
            weights = vectors.power(arith.subf(score, top), code.factor)
            place = [row, index.value(number * tiling.lanes)]
            if tiling.pairs:
                vector.store(convert.narrowed(weights, "bf16"), scratch["powers"], place)
            else:
                vector.store(weights, scratch["scores"], place)
            total = arith.addf(total, weights)
        vector.store(total, scratch["weights"], [row, first])

        def elements(at: Index, _: int) -> None:
            place = [row, index.value(at)]
            old = vector.load(vectors.floats, scratch["sums"], place)
            vector.store(arith.mulf(old, rescale), scratch["sums"], place)

        chunks(chain.value_head, tiling.lanes, elements)

    def _seen(self, row: ir.Value, first_key: ir.Value, key: int, limit: ir.Value) -> ir.Value:
        """A vector of a query's scores in the block, from key number `key` on; -Inf for keys that it does not see."""
        code, chain = self.code, self.code.problem.chain
        vectors = code.vectors
        number = index.value(index.add(first_key, key))
        zero = index.value(0)
        products = [
            vector.load(vectors.floats, code.scratch["products"], [row, index.value(key + each), zero])
            for each in range(vectors.lanes)
        ]
        scores = vectors.sums_of(products)
        if code.scaled:
            scores = arith.mulf(scores, vectors.number(chain.scale))
        if code.problem.mask is not None:
            left = index.value(index.sub(code.problem.keys, number))
            scores = arith.addf(scores, load_mask(code, [*self.head.masked(row), number], left))
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
        return code.vectors.splat_index(index.value(last))

    def _products(self, first_key: ir.Value, count: Index) -> None:
        """Multiplies each key of a block with all queries, into vectors of partial sums in scratch memory.

        A loop over single keys, so that they are read in the order in which they lie: caches then see a stream, and read ahead.
        """
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        vectors = code.vectors
        word = vectors.of("i32" if tiling.pairs else "f32")

        def one(key: ir.Value) -> None:
            number = index.add(first_key, key)
            place = self.head.key(number)
            self._prefetch(code.problem.k, [number], chain.head, chain.k)

            def add(sums: Sequence[ir.Value], at: Index, whole: int) -> Values:
                """Adds the products of `whole` elements of the head, from element `at` on."""
                step = index.value(index.div(at, tiling.depth))
                key_ = convert.words(
                    code.problem.k, [*place, index.value(at)], chain.k, tiling.lanes, pairs=tiling.pairs, whole=whole
                )
                queries = [
                    vector.load(word, code.scratch["queries"], [index.value(row), step]) for row in range(self.rows)
                ]
                return [
                    multiply_add(vectors, tiling, each, key_, total) for each, total in zip(queries, sums, strict=True)
                ]

            sums: Values = [vectors.number(0.0)] * self.rows
            whole = chain.head - chain.head % self._chunk
            if whole:
                sums = repeat(whole, self._chunk, lambda at, *each: add(each, at, self._chunk), sums)
            if whole < chain.head:
                sums = add(sums, whole, chain.head - whole)
            for row, total in enumerate(sums):
                vector.store(total, code.scratch["products"], [index.value(row), key, index.value(0)])

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
        vectors, scratch = code.vectors, code.scratch
        last = index.sub(code.problem.keys, 1)
        places = [[index.value(row), index.value(column)] for row in rows for column in columns]
        old = [vector.load(vectors.floats, scratch["sums"], place) for place in places]

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
                    found[place] = multiply_add(vectors, tiling, weight, value, found[place])
            return found

        new = repeat(count, tiling.depth, step, old)
        for place, value in zip(places, new, strict=True):
            vector.store(value, scratch["sums"], place)

    def _prefetch(self, operand: ir.Value, numbers: Sequence[Index], size: int, element: str) -> None:
        """Prefetches into L2 the rows at the prefetch distance behind those of `numbers`."""
        step = dtype(element).bytes
        ahead = _AHEAD_OF_FEW if self.rows <= _FEW else _AHEAD
        distance = max(1, ahead // (size * step))
        last = index.sub(self.code.problem.keys, 1)
        for number in numbers:
            place = self.head.key(index.signed_min(index.add(number, distance), last))
            for at in range(0, size, _LINE // step):
                memref.prefetch(operand, [*place, index.value(at)], is_write=False, locality_hint=2, is_data_cache=True)

    def _weight(self, row: int, key: ir.Value) -> ir.Value:
        """The weight of a key, or of a pair of them, in each lane."""
        code, tiling = self.code, self.code.tiling
        place = [index.value(row), key]
        if not tiling.pairs:
            one = vector.load(code.vectors.of("f32", 1), code.scratch["scores"], place)
            return vector.broadcast(code.vectors.floats, one)
        two = vector.load(code.vectors.of("bf16", 2), code.scratch["powers"], place)
        return vector.broadcast(code.vectors.integers, vector.bitcast(code.vectors.of("i32", 1), two))

    def _words(self, columns: range, heads: Sequence[Values]) -> Values:
        """The vectors of a value, or of two as pairs, that start at `columns`."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        values, lanes, end = code.problem.v, tiling.lanes, chain.value_head
        if not tiling.pairs:
            return [
                convert.floats(values, [*heads[0], index.value(at)], chain.v, lanes, min(lanes, end - at))
                for at in columns
            ]
        found: Values = []
        for at in range(columns.start, columns.stop, 2 * lanes):
            both = [
                convert.halves(values, [*place, index.value(at)], chain.v, 2 * lanes, min(2 * lanes, end - at))
                for place in heads
            ]
            for half in range(0, min(2 * lanes, columns.stop - at), lanes):
                order = [each for lane in range(half, half + lanes) for each in (lane, 2 * lanes + lane)]
                found.append(vector.bitcast(code.vectors.integers, vector.shuffle(both[0], both[-1], order)))
        return found

    def _end(self) -> None:
        """Divides the sums by the weights, and writes them."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        vectors, scratch = code.vectors, code.scratch

        def end(row: ir.Value) -> None:
            parts = vector.load(vectors.floats, scratch["weights"], [row, index.value(0)])
            reciprocal = inverse(vectors, vectors.spread(parts, arith.addf))
            place = self.head.query(row)

            def elements(at: Index, whole: int) -> None:
                total = vector.load(vectors.floats, scratch["sums"], [row, index.value(at)])
                result = convert.narrowed(arith.mulf(total, reciprocal), chain.out)
                store(result, code.problem.out, [*place, index.value(at)], whole)

            chunks(chain.value_head, tiling.lanes, elements)

        repeat(self.rows, 1, end)
