# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights along K of A rounded to 8-bit integers, in vectors of columns: integer sums, scaled once a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.affine import scaled
from tilewright.build.constants import constant, integer
from tilewright.build.index import Index, add, div, value
from tilewright.build.loops import loop
from tilewright.build.vectors import bits_as, fixed, read, write
from tilewright.codegen.scaled_sums.code_sums import CodeSums
from tilewright.codegen.scaled_sums.columns import Columns
from tilewright.codegen.scaled_sums.registers import pieces
from tilewright.codegen.scaled_sums.rounded import Rounded
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector
from tilewright.precision import rounded_group
from tilewright.schedules.models.scaled_blocks import code_dot_of
from tilewright.targets.base import Target

_WORDS = 4
"""Words of a column that are multiplied before the loop goes on: of four bits as many as may be added up in 16 bits."""


@dataclass(frozen=True)
class _Part:
    """What one turn of the loops multiplies.

    Attributes:
        i: The first row of A.
        rows: How many.
        j: The first column of the strip.
        inside: Whether all columns are there.
        k: The first row of B of the chunk.
        after: Where what is prefetched begins.
    """

    i: ir.Value
    rows: int
    j: Index
    inside: bool
    k: ir.Value
    after: tuple[Index, Index]


class RoundedColumns(Columns):
    """The operands of a product, and how it is computed."""

    def _take(self, target: Target, strips: int) -> None:
        dot, zeros = code_dot_of(self._spec, target), self._zero_points is not None
        assert dot is not None, "the model has asked"
        self._sums_of = CodeSums(self._how, dot, self._lanes)
        self._rounded_group = rounded_group(self._how.group)
        self._rounded = Rounded(
            self._spec, self._given, self._rounded_group, self._sums_of, self._lanes, in_lanes=False, zeros=zeros
        )
        if zeros:
            self._zeros = self._buffer(strips, self._groups, self._f32)

    def _prepare(self) -> None:
        self._rounded.prepare()

    def _keep_zeros(self, given: ir.Value, place: Sequence[Index]) -> ir.Value | None:
        """Puts what sums of A are multiplied by into the buffer."""
        write(arith.subf(constant(given.type, -float(self._sums_of.offset)), given), self._of("zeros"), place)
        return None

    def _rows(
        self,
        i: ir.Value,
        rows: int,
        j: Index,
        k: ir.Value,
        depth: int,
        others: Sequence[ir.Value | None],
        *,
        inside: bool,
    ) -> None:
        """Adds the products of some rows of A by the words in the buffer."""
        part = _Part(i, rows, j, inside, k, self._ahead(j, k))
        group = min(self._rounded_group, self._sizes.kc)
        for whole, first, last in pieces(depth, group):
            with loop(first, last, group) as (at, _, _):
                words = -(-(group if whole else depth % group) // self._in_word)
                self._finish_group(part, at, self._products(part, div(at, self._in_word), words))

    def _products(self, part: _Part, first: Index, words: int) -> list[ir.Value]:
        """The sums of a group: for each row and vector."""
        count = part.rows * self._vectors
        start = [constant(fixed(self._lanes, integer(32)), 0)] * count
        totals: list[ir.Value] | None = None
        for whole, begin, end in pieces(words, _WORDS):
            assert isinstance(begin, int)
            assert isinstance(end, int)
            size = _WORDS if whole else words % _WORDS
            if end - begin <= _WORDS:
                totals = self._some(part, add(first, begin), size, totals)
                continue
            with loop(begin, end, _WORDS, totals or start) as (word, held, made):
                scf.yield_(self._some(part, add(first, word), size, held))
            totals = [*made.results]
        assert totals is not None
        return totals

    def _some(self, part: _Part, first: Index, words: int, totals: list[ir.Value] | None) -> list[ir.Value]:
        """The totals and the products of some words."""
        by = self._sums_of
        held: list[ir.Value | None] = [None] * (part.rows * self._vectors)
        for number in range(words):
            word = add(first, number)
            self._prefetch(part.after, word)
            stored = [read(self._of("words"), [0, word, v * self._lanes], self._lanes) for v in range(self._vectors)]
            codes = [by.of(bits_as(each, integer(8))) for each in stored]
            for way in range(by.ways):
                for r in range(part.rows):
                    at = [add(part.i, r), add(part.k, add(scaled(word, self._in_word), 4 * way))]
                    left = self._in_all(at)
                    for v in range(self._vectors):
                        place = r * self._vectors + v
                        held[place] = by.add(held[place], codes[v][way], left)
        found = [each for each in held if each is not None]
        return [by.whole(each, totals[place] if totals else None) for place, each in enumerate(found)]

    def _in_all(self, at: Sequence[Index]) -> ir.Value:
        """Four integers of a row of A, in all lanes."""
        word = vector.extract(bits_as(read(self._rounded.numbers, at, 4), integer(32)), [], [0])
        return bits_as(vector.broadcast(fixed(self._lanes, integer(32)), word), integer(8))

    def _finish_group(self, part: _Part, at: ir.Value, totals: Sequence[ir.Value]) -> None:
        """Scales the sums of a group, and adds them to C."""
        lanes, floats = self._lanes, fixed(self._lanes, self._f32)
        number, group = div(at, self._group), div(add(part.k, at), self._rounded_group)
        for r in range(part.rows):
            row = add(part.i, r)
            place = [value(row), value(group)]
            own = vector.broadcast(floats, memref.load(self._rounded.scales, place))
            sums = self._rounded.sums
            of_a = None if sums is None else vector.broadcast(floats, memref.load(sums, place))
            for v in range(self._vectors):
                found = arith.sitofp(floats, totals[r * self._vectors + v])
                if self._zeros is not None:
                    assert of_a is not None
                    found = vector.fma(read(self._of("zeros"), [0, number, v * lanes], lanes), of_a, found)
                elif of_a is not None:
                    found = arith.subf(found, of_a)
                scale = read(self._of("scales"), [0, number, v * lanes], lanes)
                where = [row, add(part.j, v * lanes)]
                former = read(self._out, where, lanes, inside=part.inside)
                write(vector.fma(arith.mulf(found, own), scale, former), self._out, where, inside=part.inside)
