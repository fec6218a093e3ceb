# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One register tile of queries, a query in each lane: its scores, weights and sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.constants import bits_of, element_of, element_type
from tilewright.build.index import Index
from tilewright.build.loops import chunks, if_else, repeat, when
from tilewright.build.vectors import bits_as, load, store
from tilewright.codegen.attention.code import Code, inverse, narrowed
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.tile import product
from tilewright.codegen.attention.vectors import Values
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOWEST
from tilewright.schedules.models.online_softmax import stages_keys, stages_values


@dataclass(frozen=True, slots=True)
class Column:
    """The code of one register tile's queries: as many as `Tiling.rows`.

    Attributes:
        code: The operands, arithmetic and buffers.
        head: Whose rows they are.
        number: Which ones of the block.
        start: Their first row.
    """

    code: Code
    head: Head
    number: ir.Value
    start: Index

    def begin(self) -> None:
        """Transposes the queries into scratch memory, and starts the sums."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain

        def group(lane: ir.Value) -> None:
            places = self._places(lane, self.head.query)

            def words(at: Index, whole: int) -> None:
                loaded = [code.words(code.problem.q, [*place, at], whole) for place in places]
                first_step = index.div(at, tiling.depth)
                for step, word in enumerate(code.vectors.transposed(loaded)):
                    code.store(word, "queries", self.number, index.add(first_step, step), lane)

            chunks(chain.head, tiling.lanes * tiling.depth, words)
            code.start(self.number, lane)
            code.store(self._limits(lane), "limits", self.number, lane)
            zero = code.vectors.number(0.0)
            repeat(chain.value_head, 1, lambda row: code.store(zero, "sums", self.number, row, lane))

        repeat(tiling.rows, tiling.lanes, group)

    def _places(self, lane: ir.Value, of: Callable[[Index], list[Index]]) -> list[list[Index]]:
        """Where the rows of a vector of queries, the one at `lane`, are; those beyond the last row are like it."""
        rows = [self.head.last(index.add(index.add(self.start, lane), each)) for each in range(self.code.tiling.lanes)]
        return [of(row) for row in rows]

    def _limits(self, lane: ir.Value) -> ir.Value:
        """The last key that each query of a vector sees; negative where it sees none."""
        vectors, problem = self.code.vectors, self.code.problem
        last = vectors.splat_index(index.sub(problem.keys, 1))
        if not problem.chain.causal:
            return last
        row = arith.addi(vectors.splat_index(index.add(self.start, lane)), vectors.counting())
        query = arith.remui(row, vectors.splat_index(problem.queries)) if self.code.tiling.merged else row
        return arith.minsi(last, arith.addi(query, vectors.splat_index(self.code.offset)))

    def add(self, first_key: ir.Value) -> None:
        """Adds the block of keys from `first_key` on, as far as these queries see it."""
        code, tiling = self.code, self.code.tiling
        last = index.sub(index.signed_min(index.add(self.start, tiling.rows), code.problem.rows), 1)
        count = index.signed_min(tiling.kc, index.sub(code.seen(last), first_key))
        with when(index.signed_less(0, count)):
            self._add(first_key, count)

    def _add(self, first_key: ir.Value, count: Index) -> None:
        if self.code.problem.mask is not None:
            self._stage_mask(first_key, count)
        largest = self._scores(first_key, count)
        rescale = self._powers(largest, count)
        self._values(first_key, count, rescale)

    def _lanes(self) -> range:
        return range(0, self.code.tiling.rows, self.code.tiling.lanes)

    def _load(self, name: str, *at: Index) -> Values:
        """The vectors of a row of a buffer."""
        return [self.code.load(name, *at, lane) for lane in self._lanes()]

    def _store(self, values: Values, name: str, *at: Index) -> None:
        for lane, value in zip(self._lanes(), values, strict=True):
            self.code.store(value, name, *at, lane)

    def _scores(self, first_key: ir.Value, count: Index) -> Values:
        """Computes the scores of a block of keys into scratch memory, and returns their maxima."""
        code, tiling = self.code, self.code.tiling
        vectors, problem = code.vectors, code.problem
        steps = -(-problem.chain.head // tiling.depth)
        zero = vectors.number(0.0)
        last = index.sub(problem.keys, 1)
        # Up to this key all of these queries see all.
        whole: Index = last
        if problem.chain.causal:
            earliest = 0 if tiling.merged else self.start
            whole = index.signed_min(index.add(earliest, code.offset), last)

        def tile(row: ir.Value, *largest: ir.Value) -> Values:
            keys = [index.add(row, each) for each in range(tiling.mr)]
            numbers = [index.add(first_key, each) for each in keys]
            left = self._keys(keys, [index.signed_min(each, last) for each in numbers])
            sums = product(
                vectors,
                tiling,
                steps,
                [[zero] * tiling.nr] * tiling.mr,
                left,
                lambda step: self._load("queries", self.number, step),
            )
            flat = [each for key, row_ in zip(keys, sums, strict=True) for each in self._scaled(row_, key)]

            def hidden() -> Values:
                limits = self._load("limits", self.number)
                lowest = vectors.number(float("-inf"))
                found = []
                for at, score in enumerate(flat):
                    number = vectors.splat_index(numbers[at // tiling.nr])
                    beyond = arith.cmpi(arith.CmpIPredicate.sgt, number, limits[at % tiling.nr])
                    found.append(arith.select(beyond, lowest, score))
                return found

            partly = index.signed_less(whole, numbers[-1])
            flat = if_else(partly, hidden, lambda: flat, [vectors.floats] * len(flat))
            top = list(largest)
            for at, key in enumerate(keys):
                scores = flat[at * tiling.nr : (at + 1) * tiling.nr]
                self._store(scores, "scores", key)
                top = [vectors.larger(score, each) for score, each in zip(scores, top, strict=True)]
            return top

        return repeat(count, tiling.mr, tile, [vectors.number(LOWEST)] * tiling.nr)

    def _keys(self, rows: list[Index], numbers: list[Index]) -> Callable[[int, ir.Value], ir.Value]:
        """Reads words of keys, broadcast to every lane: from the operand itself, or from the converted block in scratch memory."""
        code, tiling = self.code, self.code.tiling
        staged = stages_keys(code.problem.chain, tiling)
        places = [self.head.key(each) for each in numbers]

        def word(row: int, step: ir.Value) -> ir.Value:
            if staged:
                return self._word(code.scratch["keys"], [rows[row], step])
            return self._word(code.problem.k, [*places[row], index.mul(step, tiling.depth)])

        return word

    def _word(self, buffer: ir.Value, at: Sequence[Index]) -> ir.Value:
        """A word of scratch memory or of an operand, there a pair of bf16 or an f32, broadcast to every lane."""
        vectors = self.code.vectors
        kind = vectors.integers if self.code.tiling.pairs else vectors.floats
        element = element_type(kind)
        count = bits_of(element) // bits_of(element_of(buffer))
        return vector.broadcast(kind, bits_as(load(buffer, at, count), element))

    def _scaled(self, scores: Values, key: Index) -> Values:
        """The scores of a key, with the scale and the mask where the maximum depends on them."""
        code = self.code
        if not code.scaled:
            return scores
        scale = code.vectors.number(code.problem.chain.scale)
        if code.problem.mask is None:
            return [arith.mulf(each, scale) for each in scores]
        masks = self._load("mask", key)
        return [code.vectors.fma(each, scale, mask) for each, mask in zip(scores, masks, strict=True)]

    def _powers(self, largest: Values, count: Index) -> Values:
        """Turns a block's scores into weights, and adds them up. Returns the factors that rescale earlier sums."""
        code, tiling = self.code, self.code.tiling
        vectors, factor = code.vectors, code.factor
        before = self._load("largest", self.number)
        top = [vectors.larger(each, old) for each, old in zip(largest, before, strict=True)]
        rescale = [vectors.exp2(arith.subf(old, new), factor) for old, new in zip(before, top, strict=True)]
        self._store(top, "largest", self.number)

        def powers(key: Index) -> Values:
            return [
                vectors.exp2(arith.subf(score, new), factor)
                for score, new in zip(self._load("scores", key), top, strict=True)
            ]

        def step(key: ir.Value, *sums: ir.Value) -> Values:
            rows = [powers(index.add(key, each)) for each in range(tiling.depth)]
            if tiling.pairs:
                pairs = [vectors.pairs(*each) for each in zip(*rows, strict=True)]
                self._store(pairs, "powers", index.div(key, tiling.depth))
            else:
                self._store(rows[0], "scores", key)
            totals: Values = list(sums)
            for row in rows:
                totals = [arith.addf(total, each) for total, each in zip(totals, row, strict=True)]
            return totals

        sums = repeat(count, tiling.depth, step, [vectors.number(0.0)] * tiling.nr)
        old = self._load("weights", self.number)
        new = [vectors.fma(*each) for each in zip(old, rescale, sums, strict=True)]
        self._store(new, "weights", self.number)
        return rescale

    def _values(self, first_key: ir.Value, count: Index, rescale: Values) -> None:
        """Adds the weighted values of a block."""
        tiling, size = self.code.tiling, self.code.problem.chain.value_head
        whole = size - size % tiling.mr
        if whole:
            repeat(whole, tiling.mr, lambda row: self._value_tile(first_key, count, rescale, row, tiling.mr))
        if size % tiling.mr:
            self._value_tile(first_key, count, rescale, index.value(whole), size % tiling.mr)

    def _value_tile(self, first_key: ir.Value, count: Index, rescale: Values, row: ir.Value, rows: int) -> None:
        """The same for `rows` elements of the values, from number `row` on."""
        code, tiling = self.code, self.code.tiling
        staged = stages_values(code.problem.chain, tiling)
        weights = "powers" if tiling.pairs else "scores"
        elements = [index.add(row, each) for each in range(rows)]

        def left(at: int, step: ir.Value) -> ir.Value:
            if staged:
                return self._word(code.scratch["values"], [step, elements[at]])
            place = self.head.key(index.add(first_key, step))
            return self._word(code.problem.v, [*place, elements[at]])

        old = [self._load("sums", self.number, each) for each in elements]
        old = [[arith.mulf(*each) for each in zip(sums, rescale, strict=True)] for sums in old]
        new = product(
            code.vectors,
            tiling,
            index.ceil_div(count, tiling.depth),
            old,
            left,
            lambda step: self._load(weights, step),
        )
        for each, sums in zip(elements, new, strict=True):
            self._store(sums, "sums", self.number, each)

    def _stage_mask(self, first_key: ir.Value, count: Index) -> None:
        """Transposes the mask of a block into the order of its scores, as numbers to add to them."""
        code, tiling = self.code, self.code.tiling

        def group(lane: ir.Value) -> None:
            places = self._places(lane, self.head.masked)

            def keys(key: ir.Value) -> None:
                number = index.value(index.add(first_key, key))
                left = index.value(index.sub(code.problem.keys, number))
                loaded = [code.mask([*place, number], left) for place in places]
                for at, each in enumerate(code.vectors.transposed(loaded)):
                    code.store(each, "mask", index.add(key, at), lane)

            repeat(count, tiling.lanes, keys)

        repeat(tiling.rows, tiling.lanes, group)

    def end(self) -> None:
        """Divides the sums by the weights, and writes them as rows of the result."""
        code, tiling, chain = self.code, self.code.tiling, self.code.problem.chain

        def group(lane: ir.Value) -> None:
            reciprocal = inverse(code.vectors, code.load("weights", self.number, lane))
            rows = [index.add(index.add(self.start, lane), each) for each in range(tiling.lanes)]

            def elements(at: Index, whole: int) -> None:
                places = [index.add(at, min(each, whole - 1)) for each in range(tiling.lanes)]
                columns = [code.load("sums", self.number, place, lane) for place in places]
                results = code.vectors.transposed([arith.mulf(each, reciprocal) for each in columns])
                for row, result in zip(rows, results, strict=True):
                    place = [*self.head.query(row), at]
                    value = narrowed(result, chain.out)
                    with when(index.signed_less(row, code.problem.rows)):
                        store(value, code.problem.out, place, whole)

            chunks(chain.value_head, tiling.lanes, elements)

        repeat(tiling.rows, tiling.lanes, group)
