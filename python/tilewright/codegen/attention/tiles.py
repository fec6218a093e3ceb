# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A column of queries whose products AMX's tile registers compute: 32 keys, or elements of values, by up to 32 queries at a time.

As in a column of vectors, queries lie in the lanes. So keys are the first operand as they are stored, and queries and weights, as pairs,
the second; of values, which are the first operand by rows of single elements, each block is transposed once for all of its queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tilewright.build import index
from tilewright.build.constants import constant, integer
from tilewright.build.index import Index
from tilewright.build.loops import chunks, loop, repeat, when
from tilewright.build.vectors import bits_as, intrinsic, load
from tilewright.codegen.attention.code import Code, widened
from tilewright.codegen.attention.column import Column
from tilewright.codegen.attention.problem import Head
from tilewright.codegen.attention.vectors import Values, Vectors
from tilewright.mlir import ir
from tilewright.mlir.dialects import amx, arith, memref, scf, vector
from tilewright.payload.attention_numbers import EXP2_FLOOR, LOWEST
from tilewright.schedules.models.online_softmax import TILE

_STEP = 2 * TILE
"""Keys of a step: of two tiles of scores, and of the words of a row of values."""
_FEW = 4
"""Keys whose scores are in vector registers at a time, while maxima are taken."""
_MOST_GROWTH = 8.0
"""How far, in powers of two, a maximum may fall behind the scores."""
_LEAST_EXPONENT = -126.0
"""Of a normal number of f32."""
_FLOOR, _CURRENT, _AND_OR = 0x09, 4, 0xEC
"""Operands of AVX-512's instructions: rounding down without exceptions, the current rounding, and (first and third) or second."""

_Works = list[Callable[[], None]]
"""Pieces of code to be written in this order, wherever other code has room for them."""


@dataclass(frozen=True, slots=True)
class TileColumn(Column):
    """The code of one column of queries, whose scores are computed ahead by `scores`."""

    def steps(self, first_key: ir.Value) -> Index:
        """How many steps of the block of keys from `first_key` on these queries see."""
        return index.ceil_div(index.signed_max(self.count(first_key), 0), _STEP)

    def scores(self, step: ir.Value) -> None:
        """Computes the sums of a step's scores into scratch memory."""
        totals = self._zeros()
        for each in self._products(step, totals):
            each()
        self._write(step, totals)

    def _zeros(self) -> Values:
        return [amx.tile_zero(_sums()) for _ in range(2 * self.code.tiling.nr)]

    def _products(self, step: ir.Value, totals: Values) -> _Works:
        """What adds the products of a step's keys and the queries to `totals`, tiles by rows."""
        row, width = index.mul(step, _STEP), self.code.tiling.nr
        queries: dict[tuple[int, int], ir.Value] = {}
        keys: dict[tuple[int, int], ir.Value] = {}

        def multiply(word: int, at: int, column: int) -> None:
            if not at:
                queries[word, column] = self._tile("queries", self.number, word, column * TILE)
            if not column:
                keys[word, at] = self._tile("keys", index.add(row, at * TILE), word)
            place = at * width + column
            totals[place] = amx.tile_mulf(_sums(), keys[word, at], queries[word, column], totals[place])

        words = range(0, self._shape("keys")[1], TILE)
        return [partial(multiply, *each) for each in ((w, a, c) for w in words for a in range(2) for c in range(width))]

    def _write(self, step: ir.Value, totals: Values) -> None:
        """Writes a step's scores."""
        for place, total in enumerate(totals):
            at, column = divmod(place, self.code.tiling.nr)
            row = index.add(index.mul(step, _STEP), at * TILE)
            amx.tile_store(self.code.scratch["scores"], index.values([row, column * TILE]), total)

    def _shape(self, name: str) -> list[int]:
        return list(ir.MemRefType(self.code.scratch[name].type).shape)

    def _tile(self, name: str, *at: Index) -> ir.Value:
        """A tile of pairs of a buffer."""
        return amx.tile_load(_pairs(), self.code.scratch[name], index.values(at))

    def finish(self, first_key: ir.Value, steps: Index, after: TileColumn, both: Index) -> None:
        """Adds `steps` of a block's keys, whose scores are computed. In `both` of them, those of the next column are computed meanwhile."""
        count = index.mul(steps, _STEP)  # Scores behind the last key are -Inf, and their weights zero.
        if self.code.problem.mask is not None:
            self._stage_mask(first_key, count)
        top, rescale = self._rise(self._maxima(first_key, count))

        def weigh_both(step: ir.Value, *sums: ir.Value) -> Values:
            # A product between two pairs of keys: the core has the next pairs to compute while tiles are multiplied.
            held, totals, first = list(sums), after._zeros(), index.mul(step, _STEP)
            works = [after._products(step, totals), self._prefetch_sums(step)]
            for pair in range(TILE):
                held = self._weigh_word(index.value(index.add(first, 2 * pair)), top, held)
                for each in works:
                    for work in each[pair * len(each) // TILE : (pair + 1) * len(each) // TILE]:
                        work()
            after._write(step, totals)
            return held

        def weigh(step: ir.Value, *sums: ir.Value) -> Values:
            return self._weigh(index.mul(step, _STEP), _STEP, top, list(sums))

        sums = repeat(both, 1, weigh_both, [self.code.vectors.number(0.0)] * self.code.tiling.nr)
        with loop(both, steps, 1, sums) as (at, held, rest):
            scf.yield_(weigh(at, *held))
        self._add_weights(rescale, list(rest.results))
        self._values(first_key, count, rescale)

    def _maxima(self, first_key: ir.Value, count: Index) -> Values:
        """The maxima of a block's scores, which become final here."""
        whole = self._whole()

        def some(at: ir.Value, *largest: ir.Value) -> Values:
            keys: list[Index] = [index.add(at, each) for each in range(_FEW)]
            numbers = [index.add(first_key, each) for each in keys]
            found = self._seen([self._load("scores", key) for key in keys], keys, numbers, whole)
            for key, each in zip(keys, found, strict=True):
                self._store(each, "scores", key)
            while len(found) > 1:
                found = [self._larger(*found[each : each + 2]) for each in range(0, len(found), 2)]
            return self._larger(found[0], largest)

        return repeat(count, _FEW, some, [self.code.vectors.number(LOWEST)] * self.code.tiling.nr)

    def _top(self, old: ir.Value, new: ir.Value) -> ir.Value:
        """The old maxima where the new ones are little above: weights may be up to 2**8 then, and sums need no rescaling."""
        vectors = self.code.vectors
        far = arith.cmpf(arith.CmpFPredicate.OGT, arith.subf(new, old), vectors.number(_MOST_GROWTH / self.code.factor))
        return arith.select(far, new, old)

    def _weight(self, score: ir.Value, top: ir.Value) -> ir.Value:
        """The weights of a vector of scores, by AVX-512's instructions for fractions and powers: a fifth less for Golden Cove's cores.

        A factor above one would make infinite products of maxima that are finite: then differences are multiplied.
        """
        vectors = self.code.vectors
        factor = vectors.number(self.code.factor)
        if self.code.factor > 1:
            return _exp2(vectors, arith.mulf(arith.subf(score, top), factor))
        return _exp2(vectors, vectors.fma(score, factor, arith.negf(arith.mulf(top, factor))))

    def _pair(self, first: ir.Value, second: ir.Value) -> ir.Value:
        """Two vectors of weights as pairs. LLVM would make one shuffle of shift, mask and or, of three micro-operations in place of two."""
        vectors = self.code.vectors
        half = vectors.integer(0x8000)
        low, high = (arith.addi(arith.bitcast(vectors.integers, each), half) for each in (first, second))
        low = arith.shrui(low, vectors.integer(16))
        table = constant(integer(32), _AND_OR)
        return intrinsic(
            "llvm.x86.avx512.pternlog.d.512", vectors.integers, high, low, vectors.integer(-0x10000), table
        )

    def _prefetch_sums(self, step: ir.Value) -> _Works:
        """What fetches a step's share of the sums, to which values are added when all steps are done."""
        sums = self.code.scratch["sums"]
        _, rows, width = self._shape("sums")
        share = -(-rows // (self.code.tiling.kc // _STEP))
        first = index.mul(step, share)

        def fetch(row: int, column: int) -> None:
            place = index.values([self.number, index.add(first, row), column])
            memref.prefetch(sums, place, is_write=False, locality_hint=3, is_data_cache=True)

        return [partial(fetch, row, column) for row in range(share) for column in range(0, width, TILE)]

    def _values(self, first_key: ir.Value, count: Index, rescale: Values) -> None:
        del first_key
        sums, one, width = self.code.scratch["sums"], self.code.vectors.number(1.0), self.code.tiling.nr
        changed = [arith.cmpf(arith.CmpFPredicate.UNE, each, one) for each in rescale]
        some = changed[0] if width == 1 else arith.ori(*changed)

        def rescaled(row: ir.Value) -> None:
            old = self._load("sums", self.number, row)
            self._store([arith.mulf(*each) for each in zip(old, rescale, strict=True)], "sums", self.number, row)

        def add_rows(row: ir.Value) -> None:
            first = index.div(row, TILE)
            rows = (index.add(row, at * TILE) for at in range(2))
            places = [index.values([self.number, each, column * TILE]) for each in rows for column in range(width)]

            def step(number: ir.Value, *held: ir.Value) -> Values:
                weights = [self._tile("powers", index.mul(number, TILE), column * TILE) for column in range(width)]
                found = []
                for at in range(2):
                    values = self._tile("values", index.add(first, at), number, 0, 0)
                    totals = held[at * width : (at + 1) * width]
                    found += [amx.tile_mulf(_sums(), values, *each) for each in zip(weights, totals, strict=True)]
                return found

            start = [amx.tile_load(_sums(), sums, each) for each in places]
            for place, total in zip(places, repeat(index.div(count, _STEP), 1, step, start), strict=True):
                amx.tile_store(sums, place, total)

        with when(vector.reduction(integer(1), vector.CombiningKind.OR, some)):
            repeat(self.code.problem.chain.value_head, 1, rescaled)
        repeat(self._shape("sums")[1], 2 * TILE, add_rows)


def add(columns: Index, of: Callable[[ir.Value], TileColumn], first_key: ir.Value) -> None:
    """Adds the block of keys from `first_key` on to `columns` of queries.

    Tile registers multiply what the next column needs while vectors compute this one's weights::

        S(0) = K * Q(0)
        for c in 0..columns:
            m = max(m, S(c))
            for each step of keys: P(c) = 2 ** (S(c) - m); S(c + 1) = K * Q(c + 1)
            O(c) = O(c) * a + V * P(c)
    """
    first = of(index.value(0))
    repeat(first.steps(first_key), 1, first.scores)

    def column(number: ir.Value) -> None:
        this, after = of(number), of(index.value(index.add(number, 1)))
        steps = this.steps(first_key)
        is_last = index.less_equal(columns, index.add(number, 1))
        next_steps = arith.select(is_last, index.value(0), index.value(after.steps(first_key)))
        both = index.signed_min(steps, next_steps)
        with when(index.less(0, steps)):
            this.finish(first_key, steps, after, both)
        with loop(both, next_steps, 1) as (at, _, _):
            after.scores(at)

    repeat(columns, 1, column)


def stage_values(code: Code, head: Head, first_key: ir.Value) -> None:
    """Transposes a block of values into tiles: a row for each element, pairs of keys in its words.

    Behind the last key stands that one's value again, and meets weights of zero.
    """
    chain, values = code.problem.chain, code.problem.v
    last = index.sub(code.problem.keys, 1)
    count = index.signed_min(code.tiling.kc, index.sub(code.problem.keys, first_key))
    # Rows are interleaved within 128 bits, which each x86 processor does in one instruction: elements 0 to 3, 8 to 11 and so on come first.
    halves = [[start + each for start in range(at, _STEP, 8) for each in range(4)] for at in (0, 4)]

    def keys(step: ir.Value) -> None:
        first = index.add(first_key, index.mul(step, _STEP))
        numbers = [index.signed_min(index.add(first, each), last) for each in range(_STEP)]

        def tiles(at: Index, whole: int) -> None:
            rows = [widened(load(values, [*head.key(each), at], _STEP, whole), "bf16") for each in numbers]
            for elements in halves:
                both = [each for element in elements for each in (element, _STEP + element)]
                pairs = [vector.shuffle(rows[each], rows[each + 1], both) for each in range(0, _STEP, 2)]
                words = code.vectors.transposed([bits_as(each, integer(32)) for each in pairs])
                for element, row in zip(elements, words, strict=True):
                    tile, line = divmod(element, TILE)
                    code.store(row, "values", index.add(index.div(at, TILE), tile), step, line, 0)

        chunks(chain.value_head, _STEP, tiles)

    repeat(index.ceil_div(count, _STEP), 1, keys)


def _exp2(vectors: Vectors, exponent: ir.Value) -> ir.Value:
    """2 to a power below 2**7; exactly 0 below 2**-126, and NaN of NaN. A mask leaves out what would be subnormal, and take 200 cycles."""
    word, zero = integer(32), vectors.number(0.0)
    every, current = constant(integer(TILE), -1), constant(word, _CURRENT)
    floor = constant(word, _FLOOR)
    part = intrinsic("llvm.x86.avx512.mask.reduce.ps.512", vectors.floats, exponent, floor, zero, every, current)
    power = vectors.polynomial(part, EXP2_FLOOR)
    normal = arith.cmpf(arith.CmpFPredicate.UGE, exponent, vectors.number(_LEAST_EXPONENT))
    mask = vector.extract(bits_as(normal, integer(TILE)), [], [0])
    return intrinsic("llvm.x86.avx512.mask.scalef.ps.512", vectors.floats, power, exponent, zero, mask, current)


def _sums() -> ir.Type:
    """A tile of sums."""
    return ir.Type.parse(f"!amx.tile<{TILE}x{TILE}xf32>")


def _pairs() -> ir.Type:
    """A tile of words, each a pair of elements."""
    return ir.Type.parse(f"!amx.tile<{TILE}x{2 * TILE}xbf16>")
