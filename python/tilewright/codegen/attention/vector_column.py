# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A column of queries whose products are of vectors: rows of broadcast words, of keys or values, times vectors of queries or weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.constants import bits_of, element_of, element_type
from tilewright.build.index import Index
from tilewright.build.loops import repeat, when
from tilewright.build.vectors import bits_as, load
from tilewright.codegen.attention.column import Column
from tilewright.codegen.attention.tile import product
from tilewright.codegen.attention.vectors import Values
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOWEST
from tilewright.schedules.models.online_softmax import stages_keys, stages_values


@dataclass(frozen=True, slots=True)
class VectorColumn(Column):
    """The code of one column of queries."""

    def add(self, first_key: ir.Value) -> None:
        """Adds the block of keys from `first_key` on, as far as these queries see it."""
        count = self.count(first_key)
        with when(index.signed_less(0, count)):
            self._add(first_key, count)

    def _add(self, first_key: ir.Value, count: Index) -> None:
        if self.code.problem.mask is not None:
            self._stage_mask(first_key, count)
        largest = self._scores(first_key, count)
        rescale = self._powers(largest, count)
        self._values(first_key, count, rescale)

    def _scores(self, first_key: ir.Value, count: Index) -> Values:
        """Computes the scores of a block of keys into scratch memory, and returns their maxima."""
        code, tiling = self.code, self.code.tiling
        vectors, problem = code.vectors, code.problem
        steps = -(-problem.chain.head // tiling.depth)
        zero = vectors.number(0.0)
        last, whole = index.sub(problem.keys, 1), self._whole()

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
            scores = self._seen(sums, keys, numbers, whole)
            top = list(largest)
            for key, row_ in zip(keys, scores, strict=True):
                self._store(row_, "scores", key)
                top = self._larger(row_, top)
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

    def _powers(self, largest: Values, count: Index) -> Values:
        """Turns a block's scores into weights, and adds them up. Returns the factors that rescale earlier sums."""
        top, rescale = self._rise(largest)
        zeros = [self.code.vectors.number(0.0)] * self.code.tiling.nr
        self._add_weights(rescale, self._weigh(0, count, top, zeros))
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
