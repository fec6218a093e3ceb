# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A column of queries, one in each lane, whatever multiplies: its queries transposed, what each sees, its weights, and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.index import Index
from tilewright.build.loops import chunks, if_else, repeat, when
from tilewright.build.vectors import store
from tilewright.codegen.attention.code import Code, inverse, narrowed
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.vectors import Values
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith


@dataclass(frozen=True, slots=True)
class Column:
    """The code of the queries of one register tile: as many as `Tiling.rows`.

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

    def count(self, first_key: ir.Value) -> Index:
        """How many keys of the block from `first_key` on these queries see; none if it is not above zero."""
        code, tiling = self.code, self.code.tiling
        last = index.sub(index.signed_min(index.add(self.start, tiling.rows), code.problem.rows), 1)
        return index.signed_min(tiling.kc, index.sub(code.seen(last), first_key))

    def _lanes(self) -> range:
        return range(0, self.code.tiling.rows, self.code.tiling.lanes)

    def _load(self, name: str, *at: Index) -> Values:
        """The vectors of a row of a buffer."""
        return [self.code.load(name, *at, lane) for lane in self._lanes()]

    def _store(self, values: Values, name: str, *at: Index) -> None:
        for lane, value in zip(self._lanes(), values, strict=True):
            self.code.store(value, name, *at, lane)

    def _whole(self) -> Index:
        """The last key up to which all of these queries see all."""
        problem, last = self.code.problem, index.sub(self.code.problem.keys, 1)
        if not problem.chain.causal:
            return last
        earliest = 0 if self.code.tiling.merged else self.start
        return index.signed_min(index.add(earliest, self.code.offset), last)

    def _seen(self, sums: Sequence[Values], keys: list[Index], numbers: list[Index], whole: Index) -> list[Values]:
        """The scores of keys from their sums, -Inf where a query does not see the key.

        Args:
            sums: A row of vectors for each key.
            keys: Which keys of the block.
            numbers: Which ones of all.
            whole: Up to this one no key is hidden.
        """
        vectors, width = self.code.vectors, self.code.tiling.nr
        flat = [each for key, row in zip(keys, sums, strict=True) for each in self._scaled(row, key)]

        def hidden() -> Values:
            limits = self._load("limits", self.number)
            lowest = vectors.number(float("-inf"))
            found = []
            for at, score in enumerate(flat):
                number = vectors.splat_index(numbers[at // width])
                beyond = arith.cmpi(arith.CmpIPredicate.sgt, number, limits[at % width])
                found.append(arith.select(beyond, lowest, score))
            return found

        partly = index.signed_less(whole, numbers[-1])
        flat = if_else(partly, hidden, lambda: flat, [vectors.floats] * len(flat))
        return [flat[at : at + width] for at in range(0, len(flat), width)]

    def _larger(self, scores: Values, than: Sequence[ir.Value]) -> Values:
        return [self.code.vectors.larger(*each) for each in zip(scores, than, strict=True)]

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

    def _rise(self, largest: Values) -> tuple[Values, Values]:
        """The maxima with those of a block, and the factors that rescale sums to them."""
        vectors, factor = self.code.vectors, self.code.factor
        before = self._load("largest", self.number)
        top = [self._top(old, vectors.larger(each, old)) for each, old in zip(largest, before, strict=True)]
        rescale = [vectors.exp2(arith.subf(old, new), factor) for old, new in zip(before, top, strict=True)]
        self._store(top, "largest", self.number)
        return top, rescale

    def _top(self, old: ir.Value, new: ir.Value) -> ir.Value:
        """Under which maxima a block's weights are computed."""
        del old
        return new

    def _weigh(self, first: Index, count: Index, top: Values, sums: Values) -> Values:
        """Turns the scores of `count` keys of the block, from number `first` on, into weights, and adds these to `sums`."""
        depth = self.code.tiling.depth
        return repeat(
            count, depth, lambda key, *held: self._weigh_word(index.value(index.add(first, key)), top, list(held)), sums
        )

    def _weigh_word(self, key: ir.Value, top: Values, sums: Values) -> Values:
        """The same of one key, or of a pair of keys."""
        tiling = self.code.tiling
        rows = []
        for each in range(tiling.depth):
            scores = self._load("scores", index.add(key, each))
            rows.append([self._weight(*both) for both in zip(scores, top, strict=True)])
        if tiling.pairs:
            pairs = [self._pair(*each) for each in zip(*rows, strict=True)]
            self._store(pairs, "powers", index.div(key, tiling.depth))
        else:
            self._store(rows[0], "scores", key)
        for row in rows:
            sums = [arith.addf(*each) for each in zip(sums, row, strict=True)]
        return sums

    def _pair(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Two vectors of weights as pairs of bf16."""
        return self.code.vectors.pairs(first, second)

    def _weight(self, score: ir.Value, top: ir.Value) -> ir.Value:
        """The weights of a vector of scores, under their maxima."""
        return self.code.vectors.exp2(arith.subf(score, top), self.code.factor)

    def _add_weights(self, rescale: Values, sums: Values) -> None:
        """Adds sums of a block's weights to those of the blocks before."""
        old = self._load("weights", self.number)
        new = [self.code.vectors.fma(*each) for each in zip(old, rescale, sums, strict=True)]
        self._store(new, "weights", self.number)

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
