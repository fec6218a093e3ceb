# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy "decode": few queries and many keys, each of which is read once, in the order in which they lie in memory.

For the queries of all heads that share a head of keys::

    for j0 in keys step kc:
        for each query, for j in j0..j0+kc step lanes:
            s[j:j+lanes] = K[j:j+lanes] * q           in vectors along the head, of which the sums are transposed and added
        a = 2 ** (m - max(m, s)); m = max(m, s); p = 2 ** (s - m); l = l * a + sum of p
        o = o * a
        for j in j0..j0+kc: o += p[j] * V[j]          in vectors along the head, of as many queries as registers hold
    out = o / l
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.lowering.attention import build, convert
from tilewright.lowering.attention.blocks import Blocks, inverse, load_mask, store
from tilewright.lowering.attention.build import Size, Values
from tilewright.lowering.attention.problem import Head
from tilewright.lowering.attention.tile import multiply_add
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOWEST

_HELD = 8
"""Vectors of a query that are held in registers, and of a result that one pass over a block of values sums up."""
_SUMS = 16
"""Sums that are held in registers."""


@dataclass(frozen=True, slots=True)
class Decode:
    """The code of the queries that share one head of keys.

    Attributes:
        blocks: The operands, arithmetic and buffers.
        head: The head of keys.
        rows: How many queries there are.
    """

    blocks: Blocks
    head: Head
    rows: int

    @property
    def _chunk(self) -> int:
        """Elements of a vector that is multiplied."""
        return self.blocks.plan.lanes * self.blocks.plan.depth

    def run(self) -> None:
        """Computes all of them."""
        blocks, plan = self.blocks, self.blocks.plan
        self._begin()

        def block(first_key: ir.Value) -> None:
            count = build.least(plan.kc, build.subtract(seen, first_key))
            for row in range(self.rows):
                self._weigh(row, first_key, count)
            self._values(first_key, count)

        seen = blocks.seen(build.subtract(self.rows, 1))
        build.loop(seen, plan.kc, block)
        self._end()

    def _begin(self) -> None:
        """Brings the queries into words, and starts the sums."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors, scratch = blocks.vectors, blocks.scratch
        for row in range(self.rows):
            place = self.head.query(build.at(row))
            for at in range(0, spec.head, self._chunk):
                words = convert.words(
                    blocks.problem.q, [*place, build.at(at)], spec.q, plan.lanes, pairs=plan.pairs, whole=spec.head - at
                )
                vector.store(words, scratch["queries"], [build.at(row), build.at(at // plan.depth)])
            for at in range(0, spec.value_head, plan.lanes):
                vector.store(vectors.number(0.0), scratch["sums"], [build.at(row), build.at(at)])
            for name, value in (("largest", LOWEST), ("weights", 0.0)):
                vector.store(vectors.number(value), scratch[name], [build.at(row), build.at(0)])

    def _weigh(self, row: int, first_key: ir.Value, count: Size) -> None:
        """Computes the weights of a block of keys for one query, and rescales its sums."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors, scratch = blocks.vectors, blocks.scratch
        at_row = build.at(row)
        limit = self._limit(row)

        def group(key: ir.Value, largest: ir.Value) -> Values:
            number = build.at(build.add(first_key, key))
            scores = self._scores(row, number)
            if blocks.scaled:
                scores = arith.mulf(scores, vectors.number(spec.scale))
            if blocks.problem.mask is not None:
                left = build.at(build.subtract(blocks.problem.keys, number))
                scores = arith.addf(scores, load_mask(blocks, [*self.head.masked(at_row), number], left))
            numbers = arith.addi(vectors.splat_index(number), vectors.counting())
            beyond = arith.cmpi(arith.CmpIPredicate.sgt, numbers, limit)
            scores = arith.select(beyond, vectors.number(float("-inf")), scores)
            vector.store(scores, scratch["scores"], [at_row, key])
            return [vectors.larger(scores, largest)]

        (largest,) = build.loop(count, plan.lanes, group, [vectors.number(LOWEST)])
        before = vector.load(vectors.floats, scratch["largest"], [at_row, build.at(0)])
        top = vectors.larger(vectors.spread(largest, vectors.larger), before)
        rescale = vectors.power(arith.subf(before, top), blocks.factor)
        vector.store(top, scratch["largest"], [at_row, build.at(0)])

        def power(key: ir.Value, total: ir.Value) -> Values:
            scores = vector.load(vectors.floats, scratch["scores"], [at_row, key])
            weights = vectors.power(arith.subf(scores, top), blocks.factor)
            if plan.pairs:
                vector.store(convert.narrowed(weights, "bf16"), scratch["powers"], [at_row, key])
            else:
                vector.store(weights, scratch["scores"], [at_row, key])
            return [arith.addf(total, weights)]

        old = vector.load(vectors.floats, scratch["weights"], [at_row, build.at(0)])
        (new,) = build.loop(count, plan.lanes, power, [arith.mulf(old, rescale)])
        vector.store(new, scratch["weights"], [at_row, build.at(0)])
        for at in range(0, spec.value_head, plan.lanes):
            place = [at_row, build.at(at)]
            old = vector.load(vectors.floats, scratch["sums"], place)
            vector.store(arith.mulf(old, rescale), scratch["sums"], place)

    def _limit(self, row: int) -> ir.Value:
        """The last key that a query sees, in each lane."""
        blocks = self.blocks
        last = build.subtract(blocks.problem.keys, 1)
        if blocks.problem.spec.causal:
            query = row % int(blocks.problem.spec.queries)
            last = build.least(last, build.add(query, blocks.offset))
        return blocks.vectors.splat_index(build.at(last))

    def _scores(self, row: int, number: ir.Value) -> ir.Value:
        """The scores of a query with as many keys as there are lanes, from number `number` on."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors = blocks.vectors
        last = build.subtract(blocks.problem.keys, 1)
        places = [self.head.key(build.least(build.add(number, lane), last)) for lane in range(plan.lanes)]
        word = "i32" if plan.pairs else "f32"

        def add(sums: Values, start: Size, wholes: Sequence[int]) -> Values:
            """Adds the products of some vectors of the head, from element `start` on; each has so many elements."""
            places_ = [build.at(build.add(start, self._chunk * each)) for each in range(len(wholes))]
            query = [
                vector.load(
                    vectors.of(word),
                    blocks.scratch["queries"],
                    [build.at(row), build.at(build.divide(build.add(start, self._chunk * each), plan.depth))],
                )
                for each in range(len(wholes))
            ]
            found = []
            for total, place in zip(sums, places, strict=True):
                for at, whole, part in zip(places_, wholes, query, strict=True):
                    key = convert.words(
                        blocks.problem.k, [*place, at], spec.k, plan.lanes, pairs=plan.pairs, whole=whole
                    )
                    total = multiply_add(vectors, plan, key, part, total)
                found.append(total)
            return found

        sums = [vectors.number(0.0)] * plan.lanes
        held = self._chunk * _HELD
        whole = spec.head - spec.head % held
        if whole:
            sums = build.loop(whole, held, lambda at, *each: add(list(each), at, [self._chunk] * _HELD), sums)
        rest = [min(self._chunk, spec.head - at) for at in range(whole, spec.head, self._chunk)]
        return vectors.sums_of(add(sums, whole, rest) if rest else sums)

    def _values(self, first_key: ir.Value, count: Size) -> None:
        """Adds a block of values to the sums, by their weights."""
        spec, lanes = self.blocks.problem.spec, self.blocks.plan.lanes
        for start in range(0, spec.value_head, lanes * _HELD):
            columns = range(start, min(spec.value_head, start + lanes * _HELD), lanes)
            together = max(1, _SUMS // len(columns))
            for row in range(0, self.rows, together):
                self._add_values(first_key, count, columns, range(row, min(self.rows, row + together)))

    def _add_values(self, first_key: ir.Value, count: Size, columns: range, rows: range) -> None:
        """The same for vectors of the result that start at `columns`, and some queries."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors, scratch = blocks.vectors, blocks.scratch
        last = build.subtract(blocks.problem.keys, 1)
        places = [[build.at(row), build.at(column)] for row in rows for column in columns]
        old = [vector.load(vectors.floats, scratch["sums"], place) for place in places]

        def step(key: ir.Value, *sums: ir.Value) -> Values:
            number = build.add(first_key, key)
            numbers = [number] + [build.least(build.add(number, 1), last)] * (plan.depth - 1)
            heads = [self.head.key(each) for each in numbers]
            values = self._words(columns, heads)
            found = list(sums)
            for at, row in enumerate(rows):
                weight = self._weight(row, key)
                for column, value in enumerate(values):
                    place = at * len(values) + column
                    found[place] = multiply_add(vectors, plan, weight, value, found[place])
            return found

        new = build.loop(count, plan.depth, step, old)
        for place, value in zip(places, new, strict=True):
            vector.store(value, scratch["sums"], place)

    def _weight(self, row: int, key: ir.Value) -> ir.Value:
        """The weight of a key, or of a pair of them, in each lane."""
        blocks, plan = self.blocks, self.blocks.plan
        place = [build.at(row), key]
        if not plan.pairs:
            one = vector.load(blocks.vectors.of("f32", 1), blocks.scratch["scores"], place)
            return vector.broadcast(blocks.vectors.floats, one)
        two = vector.load(blocks.vectors.of("bf16", 2), blocks.scratch["powers"], place)
        return vector.broadcast(blocks.vectors.integers, vector.bitcast(blocks.vectors.of("i32", 1), two))

    def _words(self, columns: range, heads: Sequence[Values]) -> Values:
        """The vectors of a value, or of two as pairs, that start at `columns`."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        values, lanes, end = blocks.problem.v, plan.lanes, spec.value_head
        if not plan.pairs:
            return [
                convert.floats(values, [*heads[0], build.at(at)], spec.v, lanes, min(lanes, end - at)) for at in columns
            ]
        found: Values = []
        for at in range(columns.start, columns.stop, 2 * lanes):
            both = [
                convert.halves(values, [*place, build.at(at)], spec.v, 2 * lanes, min(2 * lanes, end - at))
                for place in heads
            ]
            for half in range(0, min(2 * lanes, columns.stop - at), lanes):
                order = [each for lane in range(half, half + lanes) for each in (lane, 2 * lanes + lane)]
                found.append(vector.bitcast(blocks.vectors.integers, vector.shuffle(*both, order)))
        return found

    def _end(self) -> None:
        """Divides the sums by the weights, and writes them."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors, scratch = blocks.vectors, blocks.scratch
        for row in range(self.rows):
            parts = vector.load(vectors.floats, scratch["weights"], [build.at(row), build.at(0)])
            reciprocal = inverse(vectors, vectors.spread(parts, arith.addf))
            place = self.head.query(build.at(row))
            for at in range(0, spec.value_head, plan.lanes):
                total = vector.load(vectors.floats, scratch["sums"], [build.at(row), build.at(at)])
                result = convert.narrowed(arith.mulf(total, reciprocal), spec.out)
                store(result, blocks.problem.out, [*place, build.at(at)], min(plan.lanes, spec.value_head - at))


