# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Vectors along the head: few queries and many keys, each of which is read once, in memory order.

For the queries of all heads that share a head of keys::

    for j0 in keys step kc:
        for j in j0..j0+kc step step:
            t[i, r] = K[j+i] * q[r]                   in vectors along the head, for `step` keys i and all queries r
            s[j:j+step] = sums of the elements of each t[i, r], one score a lane
            m' = max(m, s)
        a = 2 ** (m - m'); m = m'; p = 2 ** (s - m); l = l * a + sum of p
        for some vectors of a value at a time:
            o = o * a
            for j in j0..j0+kc: o += p[j] * V[j]      in vectors along the head, of as many queries as registers hold
    out = o / l

The scores of all queries share vectors, so that powers and maxima fill their lanes even for one key more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.constants import integer, numbers
from tilewright.build.index import Index
from tilewright.build.loops import chunks, loop, repeat, summed
from tilewright.build.vectors import bits_as, load, store
from tilewright.codegen.attention.code import Code, inverse, narrowed, widened
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.tile import multiply_add
from tilewright.codegen.attention.vectors import Values
from tilewright.dtypes import dtype
from tilewright.lowering.passes import unroll
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector
from tilewright.schedules.models.online_softmax import Lanes

_LINE = 64
"""Bytes of a cache line: where lines are longer some prefetches are redundant."""
_UNROLLED = 16
"""Vectors of a key, or a value, that are multiplied without a loop."""


@dataclass(frozen=True, slots=True)
class Decode:
    """The code of the queries that share one head of keys.

    Attributes:
        code: The operands, arithmetic and buffers.
        head: The head of keys.
        after: The head that comes after it: its first keys and values are prefetched.
        rows: How many queries there are.
    """

    code: Code
    head: Head
    after: Head
    rows: int

    @property
    def _lanes(self) -> Lanes:
        """Which scores the lanes of a vector hold."""
        return Lanes.of(self.rows, self.code.tiling)

    @property
    def _chunk(self) -> int:
        """Elements of an operand's vector."""
        return self.code.tiling.lanes * self.code.tiling.depth

    @property
    def _last(self) -> Index:
        """The last key."""
        return index.sub(self.code.problem.keys, 1)

    def run(self) -> None:
        """Computes all of them."""
        code, tiling, groups = self.code, self.code.tiling, range(self._lanes.groups(self.rows))
        self._begin(groups)
        limits = [self._limits(group) for group in groups]

        def block(first_key: ir.Value) -> None:
            count = index.signed_min(tiling.kc, index.sub(seen, first_key))
            count = index.mul(index.ceil_div(count, unit), unit)
            tops = self._scores(first_key, count, limits)
            for group, top in enumerate(tops):
                self._weigh(group, count, top)
            self._values(first_key, count)

        seen = code.seen(index.sub(self.rows, 1))
        unit = max(self._lanes.keys, tiling.depth)
        repeat(seen, tiling.kc, block)
        self._end(groups)

    def _begin(self, groups: range) -> None:
        """Converts the queries to words, and starts the sums."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        zero = code.vectors.number(0.0)

        def begin(row: ir.Value) -> None:
            place = self.head.query(row)

            def words(at: Index, whole: int) -> None:
                code.store(code.words(code.problem.q, [*place, at], whole), "queries", row, index.div(at, tiling.depth))

            chunks(chain.head, self._chunk, words)
            chunks(chain.value_head, tiling.lanes, lambda at, _: code.store(zero, "sums", row, at))

        repeat(self.rows, 1, begin)
        for group in groups:
            code.start(group, 0)

    def _limits(self, group: int) -> ir.Value:
        """The last key that the query of each lane sees."""
        code, lanes, vectors = self.code, self._lanes, self.code.vectors
        last = vectors.splat_index(self._last)
        if not code.problem.chain.causal:
            return last
        rows = [group * lanes.rows + row for row, _ in lanes.places]
        queries = code.problem.queries
        assert isinstance(queries, int), "checked"
        of_rows = numbers(integer(32), [row % queries for row in rows])
        return arith.minsi(last, arith.addi(of_rows, vectors.splat_index(code.offset)))

    def _scores(self, first_key: ir.Value, count: Index, limits: Sequence[ir.Value]) -> Values:
        """Computes the scores of a block of keys into scratch memory, and returns the largest ones so far of each group of queries."""
        code, lanes, vectors = self.code, self._lanes, self.code.vectors

        def step(key: ir.Value, *tops: ir.Value) -> Values:
            found: Values = []
            number = index.add(first_key, key)
            for group, (limit, top) in enumerate(zip(limits, tops, strict=True)):
                score = self._seen(group, number, self._products(group, number), limit)
                code.store(score, "scores", group, index.mul(key, lanes.rows))
                found.append(vectors.larger(score, top))
            return found

        before = [code.load("largest", group, 0) for group in range(len(limits))]
        tops = repeat(count, lanes.keys, step, before)
        return [vectors.spread(top, vectors.larger, lanes.distances) for top in tops]

    def _products(self, group: int, number: Index) -> ir.Value:
        """The products of the keys of a vector, from key `number` on, with a group of queries, one in each lane.

        One key after the other, so that they are read from memory in the order in which they lie: with lines of four keys in turn Zen 4
        reads half as much in a second.
        """
        lanes = self._lanes
        rows = range(group * lanes.rows, min(self.rows, (group + 1) * lanes.rows))
        found: dict[tuple[int, int], ir.Value] = {}
        for each in range(lanes.keys):
            sums = self._with_key(index.add(number, each), rows)
            found.update(((row - rows.start, each), total) for row, total in zip(rows, sums, strict=True))
        zero = self.code.vectors.number(0.0)
        return self.code.vectors.sums_of([found.get(place, zero) for place in lanes.places])

    def _with_key(self, number: Index, rows: range) -> Values:
        """The vectors of partial sums of the products of a key with some queries. The first ones prefetch."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        place = self.head.key(index.signed_min(number, self._last))

        def part(at: Index, whole: int, sums: Sequence[ir.Value]) -> Values:
            """Adds the products of `whole` elements of the head, from element `at` on."""
            totals = list(sums)
            for start in range(0, whole, self._chunk):
                step, size = index.add(at, start), min(self._chunk, whole - start)
                if rows.start == 0:
                    self._prefetch(code.problem.k, number, step, size, chain.head, chain.k)
                word = code.words(code.problem.k, [*place, step], size)
                queries = [code.load("queries", row, index.div(step, tiling.depth)) for row in rows]
                totals = [
                    multiply_add(code.vectors, tiling, word, query, total)
                    for query, total in zip(queries, totals, strict=True)
                ]
            return totals

        return summed(chain.head, self._chunk * _UNROLLED, part, [code.vectors.number(0.0)] * len(rows))

    def _seen(self, group: int, number: Index, scores: ir.Value, limit: ir.Value) -> ir.Value:
        """Scaled and masked scores of the keys from `number` on; -Inf for keys that a query does not see."""
        code, chain, vectors = self.code, self.code.problem.chain, self.code.vectors
        if code.scaled:
            scores = arith.mulf(scores, vectors.number(chain.scale))
        if code.problem.mask is not None:
            scores = arith.addf(scores, self._mask(group, number))
        keys = numbers(integer(32), [key for _, key in self._lanes.places])
        beyond = arith.cmpi(arith.CmpIPredicate.sgt, arith.addi(vectors.splat_index(number), keys), limit)
        return arith.select(beyond, vectors.number(float("-inf")), scores)

    def _mask(self, group: int, number: Index) -> ir.Value:
        """What is added to the scores of a group of queries with the keys from `number` on."""
        code, lanes = self.code, self._lanes
        left = index.value(index.sub(code.problem.keys, number))
        found = None
        for row in range(min(lanes.rows, self.rows - group * lanes.rows)):
            place = [*self.head.masked(index.value(group * lanes.rows + row)), number]
            loaded = code.mask(place, left)
            old = loaded if found is None else found
            order = [code.tiling.lanes + key if own == row else lane for lane, (own, key) in enumerate(lanes.places)]
            found = vector.shuffle(old, loaded, order)
        assert found is not None, "a group has a query"
        return found

    def _weigh(self, group: int, count: Index, top: ir.Value) -> None:
        """Turns a block's scores into weights for a group of queries, and rescales the sums of its weights."""
        code, tiling, lanes, vectors = self.code, self.code.tiling, self._lanes, self.code.vectors
        rescale = vectors.exp2(arith.subf(code.load("largest", group, 0), top), code.factor)
        code.store(top, "largest", group, 0)
        code.store(rescale, "rescale", group, 0)

        def weigh(key: ir.Value, total: ir.Value) -> Values:
            place = group, index.mul(key, lanes.rows)
            weights = vectors.exp2(arith.subf(code.load("scores", *place), top), code.factor)
            code.store(narrowed(weights, tiling.multiplied), "powers" if tiling.pairs else "scores", *place)
            return [arith.addf(total, weights)]

        before = arith.mulf(code.load("weights", group, 0), rescale)
        (total,) = repeat(count, lanes.keys, weigh, [before])
        code.store(total, "weights", group, 0)

    @property
    def _held(self) -> int:
        """Vectors of sums that registers hold, beside the operands."""
        return max(1, self.code.tiling.registers * 3 // 4 // self.code.tiling.depth)

    @property
    def _columns(self) -> int:
        """Elements of a value that are multiplied in one pass over the values of a block: all, unless they are more than registers hold."""
        passes = -(-self.code.problem.chain.value_head // (self._held * self._chunk))
        return -(-self.code.problem.chain.value_head // (passes * self._chunk)) * self._chunk

    @property
    def _together(self) -> int:
        """Queries whose sums are in registers at once, in as few passes over the queries as can be."""
        most = max(1, self._held * self._chunk // self._columns)
        return -(-self.rows // -(-self.rows // most))

    def _values(self, first_key: ir.Value, count: Index) -> None:
        """Adds a block of weighted values to the sums: whole values, if registers hold them, in passes of as many queries as they do."""

        def columns(at: Index, whole: int) -> None:
            for row in range(0, self.rows, self._together):
                rows = range(row, min(self.rows, row + self._together))
                self._add_values(first_key, count, at, whole, rows)

        chunks(self.code.problem.chain.value_head, self._columns, columns)

    def _add_values(self, first_key: ir.Value, count: Index, at: Index, whole: int, rows: range) -> None:
        """The same for `whole` elements of the values, from element `at` on, and some queries. The first ones prefetch."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain
        places = [(row, index.add(at, column)) for row in rows for column in range(0, whole, tiling.lanes)]
        factors = {row: self._of_row("rescale", row) for row in rows}
        old = [arith.mulf(code.load("sums", row, column), factors[row]) for row, column in places]

        def step(key: ir.Value, *sums: ir.Value) -> Values:
            number = index.add(first_key, key)
            numbers_ = [index.add(number, odd) for odd in range(tiling.depth)]
            own = [self.head.key(index.signed_min(each, self._last)) for each in numbers_]
            for each in numbers_ if rows.start == 0 else ():
                for start in range(0, whole, self._chunk):
                    size = min(self._chunk, whole - start)
                    self._prefetch(code.problem.v, each, index.add(at, start), size, chain.value_head, chain.v)
            values = self._words(at, whole, own)
            found = [(self._weight(row, key), value) for row in rows for value in values]
            return [
                multiply_add(code.vectors, tiling, weight, value, total)
                for (weight, value), total in zip(found, sums, strict=True)
            ]

        with loop(0, count, tiling.depth, old) as (key, sums, over):
            unroll.leave(over.operation)
            scf.yield_(step(key, *sums))
        for place, value in zip(places, over.results, strict=True):
            code.store(value, "sums", *place)

    def _prefetch(self, operand: ir.Value, number: Index, at: Index, whole: int, size: int, element: str) -> None:
        """Prefetches what lies so far behind `whole` elements, from number `at` on, of row `number`; a row has `size` elements."""
        unit = dtype(element).bytes
        for line in range(0, whole, _LINE // unit):
            if isinstance(at, int) and (at + line) * unit % _LINE:
                continue
            rows, column = index.div_rem(index.add(at, line + self.code.tiling.ahead // unit), size)
            place = [*self._behind(index.add(number, rows)), column]
            memref.prefetch(operand, index.values(place), is_write=False, locality_hint=3, is_data_cache=True)

    def _behind(self, number: Index) -> list[Index]:
        """The indices of row `number`; behind the last one come those of the next head."""
        keys = self.code.problem.keys
        own = index.signed_less(number, keys)
        places = zip(self.head.key(number), self.after.key(index.sub(number, keys)), strict=True)
        return [a if a == b else arith.select(own, *index.values((a, b))) for a, b in places]

    def _of_row(self, name: str, row: Index) -> ir.Value:
        """What a buffer of lanes has for a query, in each lane."""
        group, own = index.div_rem(row, self._lanes.rows)
        depth = self.code.tiling.depth
        one = self.code.load(name, group, index.mul(own, depth), count=1)
        return vector.broadcast(self.code.vectors.floats, one)

    def _weight(self, row: int, key: ir.Value) -> ir.Value:
        """The weight of a key, or of a pair of them, in each lane."""
        code, tiling, lanes = self.code, self.code.tiling, self._lanes
        group, own = divmod(row, lanes.rows)
        at = index.add(index.mul(key, lanes.rows), own * tiling.depth)
        loaded = code.load("powers" if tiling.pairs else "scores", group, at, count=tiling.depth)
        if tiling.pairs:
            return vector.broadcast(code.vectors.integers, bits_as(loaded, integer(32)))
        return vector.broadcast(code.vectors.floats, loaded)

    def _words(self, at: Index, whole: int, heads: Sequence[Sequence[Index]]) -> Values:
        """The vectors of `whole` elements of a value, or of two as pairs, from number `at` on."""
        code, lanes, values = self.code, self.code.tiling.lanes, self.code.problem.v
        found: Values = []
        for column in range(0, whole, self._chunk):
            left = min(self._chunk, whole - column)
            if not code.tiling.pairs:
                found.append(code.words(values, [*heads[0], index.add(at, column)], left))
                continue
            loaded = (load(values, [*place, index.add(at, column)], 2 * lanes, left) for place in heads)
            both = [widened(each, "bf16") for each in loaded]
            for half in range(0, left, lanes):
                order = [each for lane in range(half, half + lanes) for each in (lane, 2 * lanes + lane)]
                found.append(bits_as(vector.shuffle(both[0], both[-1], order), integer(32)))
        return found

    def _end(self, groups: range) -> None:
        """Divides the sums by the weights, and writes them."""
        code, vectors, chain = self.code, self.code.vectors, self.code.problem.chain
        for group in groups:
            total = vectors.spread(code.load("weights", group, 0), arith.addf, self._lanes.distances)
            code.store(inverse(vectors, total), "weights", group, 0)

        def end(row: ir.Value) -> None:
            reciprocal = self._of_row("weights", row)
            place = self.head.query(row)

            def elements(at: Index, whole: int) -> None:
                result = narrowed(arith.mulf(code.load("sums", row, at), reciprocal), chain.out)
                store(result, code.problem.out, [*place, at], whole)

            chunks(chain.value_head, code.tiling.lanes, elements)

        repeat(self.rows, 1, end)
