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

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.lowering.attention import build, convert
from tilewright.lowering.attention.build import Size, Values
from tilewright.lowering.attention.problem import Head, Problem, first
from tilewright.lowering.attention.tile import product
from tilewright.lowering.attention.vectors import Vectors
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOG2_E, LOWEST
from tilewright.schedules.attention import AttentionPlan, stages_keys, stages_values


@dataclass(frozen=True, slots=True)
class Blocks:
    """The code of a block of queries.

    Attributes:
        problem: The operands.
        vectors: Arithmetic.
        scratch: The thread's buffers by name.
    """

    problem: Problem
    vectors: Vectors
    scratch: Mapping[str, ir.Value]

    @property
    def plan(self) -> AttentionPlan:
        """The sizes."""
        return self.problem.plan

    @property
    def scaled(self) -> bool:
        """Whether scores are multiplied by the scale before their maximum is taken, and not in the exponent."""
        return self.problem.mask is not None or self.problem.spec.scale <= 0

    @property
    def factor(self) -> float:
        """What a difference of scores is multiplied by in the exponent of two."""
        return LOG2_E * (1.0 if self.scaled else self.problem.spec.scale)

    @property
    def offset(self) -> Size:
        """Query i sees the keys up to number i + this, if causal."""
        if self.problem.spec.causal == "lower_right":
            return build.subtract(self.problem.keys, self.problem.queries)
        return 0

    def block(self, head: Head, number: ir.Value) -> None:
        """Computes block number `number` of the rows of a task."""
        plan, rows = self.plan, self.problem.rows
        start = build.multiply(number, plan.columns * plan.rows)
        columns = build.least(plan.columns, build.steps(build.subtract(rows, start), plan.rows))

        def begin(column: ir.Value) -> None:
            Column(self, head, column, build.add(start, build.multiply(column, plan.rows))).begin()

        def end(column: ir.Value) -> None:
            Column(self, head, column, build.add(start, build.multiply(column, plan.rows))).end()

        def keys(first_key: ir.Value) -> None:
            self._stage(head, first_key)

            def each(column: ir.Value) -> None:
                Column(self, head, column, build.add(start, build.multiply(column, plan.rows))).add(first_key)

            build.loop(columns, 1, each)

        build.loop(columns, 1, begin)
        last = build.subtract(build.least(build.add(start, plan.columns * plan.rows), rows), 1)
        build.loop(self.seen(last), plan.kc, keys)
        build.loop(columns, 1, end)

    def seen(self, last: Size) -> Size:
        """How many keys the rows up to `last` see at most."""
        if not self.problem.spec.causal:
            return self.problem.keys
        query = build.subtract(self.problem.queries, 1) if self.plan.merged else last
        return build.most(build.least(build.add(build.add(query, self.offset), 1), self.problem.keys), 0)

    def _stage(self, head: Head, first_key: ir.Value) -> None:
        """Converts a block of keys and of values, where they cannot be multiplied as they lie."""
        spec, plan = self.problem.spec, self.plan
        count = build.least(plan.kc, build.subtract(self.problem.keys, first_key))
        if stages_keys(spec, plan):
            size = plan.lanes * plan.depth

            def key(row: ir.Value) -> None:
                for at in range(0, spec.head, size):
                    words = convert.words(
                        self.problem.k,
                        [*head.key(build.add(first_key, row)), build.at(at)],
                        spec.k,
                        plan.lanes,
                        pairs=plan.pairs,
                        whole=spec.head - at,
                    )
                    vector.store(words, self.scratch["keys"], [row, build.at(at // plan.depth)])

            build.loop(count, 1, key)
        if stages_values(spec, plan):
            build.loop(build.steps(count, plan.depth), 1, lambda row: self._stage_values(head, first_key, row))

    def _stage_values(self, head: Head, first_key: ir.Value, row: ir.Value) -> None:
        """Converts a row of values, or makes pairs of two; behind the last one it stands itself: its weight is zero."""
        spec, plan, values = self.problem.spec, self.plan, self.problem.v
        lanes = plan.lanes
        number = build.add(first_key, build.multiply(row, plan.depth))
        for at in range(0, spec.value_head, lanes):
            whole = spec.value_head - at
            if plan.pairs:
                after = build.least(build.add(number, 1), build.subtract(self.problem.keys, 1))
                two = [
                    convert.halves(values, [*head.key(each), build.at(at)], spec.v, lanes, whole)
                    for each in (number, after)
                ]
                words = convert.interleaved(*two)
            else:
                words = convert.floats(values, [*head.key(number), build.at(at)], spec.v, lanes, whole)
            vector.store(words, self.scratch["values"], [row, build.at(at)])


@dataclass(frozen=True, slots=True)
class Column:
    """The code of one register tile's queries: as many as `AttentionPlan.rows`.

    Attributes:
        blocks: The block that they belong to.
        head: Whose rows they are.
        number: Which ones of the block.
        start: Their first row.
    """

    blocks: Blocks
    head: Head
    number: ir.Value
    start: Size

    def begin(self) -> None:
        """Transposes the queries into scratch memory, and starts the sums."""
        blocks, plan, spec = self.blocks, self.blocks.plan, self.blocks.problem.spec
        vectors, scratch, lanes = blocks.vectors, blocks.scratch, plan.lanes
        size = lanes * plan.depth

        def group(lane: ir.Value) -> None:
            rows = [self.head.last(build.at(build.add(build.add(self.start, lane), each))) for each in range(lanes)]
            places = [self.head.query(row) for row in rows]
            for at in range(0, spec.head, size):
                loaded = [
                    convert.words(
                        blocks.problem.q, [*place, build.at(at)], spec.q, lanes, pairs=plan.pairs, whole=spec.head - at
                    )
                    for place in places
                ]
                for step, word in enumerate(vectors.transposed(loaded)):
                    vector.store(word, scratch["queries"], [self.number, build.at(at // plan.depth + step), lane])
            for name, value in (("largest", LOWEST), ("weights", 0.0)):
                vector.store(vectors.number(value), scratch[name], [self.number, lane])
            vector.store(self._limits(lane), scratch["limits"], [self.number, lane])
            zero = vectors.number(0.0)
            build.loop(
                spec.value_head, 1, lambda row: vector.store(zero, scratch["sums"], [self.number, row, lane]) and None
            )

        build.loop(plan.rows, lanes, group)

    def _limits(self, lane: ir.Value) -> ir.Value:
        """The last key that each of a vector of queries sees; below zero where there is none."""
        vectors, problem = self.blocks.vectors, self.blocks.problem
        last = vectors.splat_index(build.at(build.subtract(problem.keys, 1)))
        if not problem.spec.causal:
            return last
        row = arith.addi(vectors.splat_index(build.at(build.add(self.start, lane))), vectors.counting())
        query = arith.remui(row, vectors.splat_index(build.at(problem.queries))) if self.blocks.plan.merged else row
        return arith.minsi(last, arith.addi(query, vectors.splat_index(build.at(self.blocks.offset))))

    def add(self, first_key: ir.Value) -> None:
        """Adds the block of keys from `first_key` on, as far as these queries see it."""
        blocks, plan = self.blocks, self.blocks.plan
        last = build.subtract(build.least(build.add(self.start, plan.rows), blocks.problem.rows), 1)
        count = build.least(plan.kc, build.subtract(blocks.seen(last), first_key))
        build.branch(build.less(0, count), lambda: self._add(first_key, count))

    def _add(self, first_key: ir.Value, count: Size) -> None:
        if self.blocks.problem.mask is not None:
            self._stage_mask(first_key, count)
        largest = self._scores(first_key, count)
        rescale = self._powers(largest, count)
        self._values(first_key, count, rescale)

    def _lanes(self) -> range:
        return range(0, self.blocks.plan.rows, self.blocks.plan.lanes)

    def _load(self, name: str, *indices: Size, element: str = "f32") -> Values:
        """The vectors of a row of a buffer."""
        kind = self.blocks.vectors.of(element)
        return [
            vector.load(kind, self.blocks.scratch[name], [*(build.at(each) for each in indices), build.at(lane)])
            for lane in self._lanes()
        ]

    def _store(self, values: Values, name: str, *indices: Size) -> None:
        for lane, value in zip(self._lanes(), values, strict=True):
            vector.store(value, self.blocks.scratch[name], [*(build.at(each) for each in indices), build.at(lane)])

    def _scores(self, first_key: ir.Value, count: Size) -> Values:
        """Computes the scores of a block of keys into scratch memory, and returns their maxima."""
        blocks, plan = self.blocks, self.blocks.plan
        vectors, problem = blocks.vectors, blocks.problem
        word = "i32" if plan.pairs else "f32"
        steps = -(-problem.spec.head // plan.depth)
        zero = vectors.number(0.0)
        last = build.subtract(problem.keys, 1)
        # Up to this key all of these queries see all.
        whole: Size = last
        if problem.spec.causal:
            earliest = 0 if plan.merged else self.start
            whole = build.least(build.add(earliest, blocks.offset), last)

        def tile(row: ir.Value, *largest: ir.Value) -> Values:
            keys = [build.add(row, each) for each in range(plan.mr)]
            numbers = [build.add(first_key, each) for each in keys]
            left = self._keys(keys, [build.least(each, last) for each in numbers])
            sums = product(
                vectors,
                plan,
                steps,
                [[zero] * plan.nr] * plan.mr,
                left,
                lambda step: self._load("queries", self.number, step, element=word),
            )
            flat = [each for key, row_ in zip(keys, sums, strict=True) for each in self._scaled(row_, key)]

            def hidden() -> Values:
                limits = self._load("limits", self.number, element="i32")
                lowest = vectors.number(float("-inf"))
                found = []
                for at, score in enumerate(flat):
                    number = vectors.splat_index(build.at(numbers[at // plan.nr]))
                    beyond = arith.cmpi(arith.CmpIPredicate.sgt, number, limits[at % plan.nr])
                    found.append(arith.select(beyond, lowest, score))
                return found

            partly = build.less(whole, numbers[-1])
            flat = build.branch(partly, hidden, lambda: flat, [vectors.floats] * len(flat))
            top = list(largest)
            for at, key in enumerate(keys):
                scores = flat[at * plan.nr : (at + 1) * plan.nr]
                self._store(scores, "scores", key)
                top = [vectors.larger(score, each) for score, each in zip(scores, top, strict=True)]
            return top

        return build.loop(count, plan.mr, tile, [vectors.number(LOWEST)] * plan.nr)

    def _keys(self, rows: list[Size], numbers: list[Size]):  # noqa: ANN202 - what `product` takes
        """The words of keys, in every lane: of the operand itself, or of the block in scratch memory."""
        blocks, plan = self.blocks, self.blocks.plan
        staged = stages_keys(blocks.problem.spec, plan)
        places = [self.head.key(each) for each in numbers]

        def word(row: int, step: ir.Value) -> ir.Value:
            if staged:
                return self._word(blocks.scratch["keys"], [build.at(rows[row]), step], staged=True)
            return self._word(blocks.problem.k, [*places[row], build.at(build.multiply(step, plan.depth))], staged=False)

        return word

    def _word(self, buffer: ir.Value, indices: Values, *, staged: bool) -> ir.Value:
        """A word in every lane; a pair of bf16 where it is not `staged` as a word."""
        vectors, plan = self.blocks.vectors, self.blocks.plan
        if staged or not plan.pairs:
            element = "i32" if plan.pairs else "f32"
            one = vector.load(vectors.of(element, 1), buffer, indices)
        else:
            one = vector.bitcast(vectors.of("i32", 1), vector.load(vectors.of("bf16", 2), buffer, indices))
        return vector.broadcast(vectors.of("i32" if plan.pairs else "f32"), one)

    def _scaled(self, scores: Values, key: Size) -> Values:
        """The scores of a key, with the scale and the mask where they have to be seen by the maximum."""
        blocks = self.blocks
        if not blocks.scaled:
            return scores
        scale = blocks.vectors.number(blocks.problem.spec.scale)
        if blocks.problem.mask is None:
            return [arith.mulf(each, scale) for each in scores]
        masks = self._load("mask", key)
        return [blocks.vectors.fma(each, scale, mask) for each, mask in zip(scores, masks, strict=True)]

    def _powers(self, largest: Values, count: Size) -> Values:
        """Makes weights of a block's scores, and adds them up. Returns what earlier sums are multiplied by."""
        blocks, plan = self.blocks, self.blocks.plan
        vectors, factor = blocks.vectors, blocks.factor
        before = self._load("largest", self.number)
        top = [vectors.larger(each, old) for each, old in zip(largest, before, strict=True)]
        rescale = [vectors.power(arith.subf(old, new), factor) for old, new in zip(before, top, strict=True)]
        self._store(top, "largest", self.number)

        def powers(key: Size) -> Values:
            return [
                vectors.power(arith.subf(score, new), factor)
                for score, new in zip(self._load("scores", key), top, strict=True)
            ]

        def step(key: ir.Value, *sums: ir.Value) -> Values:
            rows = [powers(build.add(key, each)) for each in range(plan.depth)]
            if plan.pairs:
                pairs = [vectors.pairs(*each) for each in zip(*rows, strict=True)]
                self._store(pairs, "powers", build.divide(key, plan.depth))
            else:
                self._store(rows[0], "scores", key)
            totals = list(sums)
            for row in rows:
                totals = [arith.addf(total, each) for total, each in zip(totals, row, strict=True)]
            return totals

        sums = build.loop(count, plan.depth, step, [vectors.number(0.0)] * plan.nr)
        old = self._load("weights", self.number)
        new = [vectors.fma(*each) for each in zip(old, rescale, sums, strict=True)]
        self._store(new, "weights", self.number)
        return rescale

    def _values(self, first_key: ir.Value, count: Size, rescale: Values) -> None:
        """Adds the values of a block, by their weights."""
        plan, size = self.blocks.plan, self.blocks.problem.spec.value_head
        whole = size - size % plan.mr
        if whole:
            build.loop(whole, plan.mr, lambda row: self._value_tile(first_key, count, rescale, row, plan.mr))
        if size % plan.mr:
            self._value_tile(first_key, count, rescale, build.at(whole), size % plan.mr)

    def _value_tile(self, first_key: ir.Value, count: Size, rescale: Values, row: ir.Value, rows: int) -> None:
        """The same for `rows` elements of the values, from number `row` on."""
        blocks, plan = self.blocks, self.blocks.plan
        staged = stages_values(blocks.problem.spec, plan)
        weights, word = ("powers", "i32") if plan.pairs else ("scores", "f32")
        elements = [build.at(build.add(row, each)) for each in range(rows)]

        def left(at: int, step: ir.Value) -> ir.Value:
            if staged:
                return self._word(blocks.scratch["values"], [step, elements[at]], staged=True)
            place = self.head.key(build.add(first_key, step))
            return self._word(blocks.problem.v, [*place, elements[at]], staged=False)

        old = [self._load("sums", self.number, each) for each in elements]
        old = [[arith.mulf(*each) for each in zip(sums, rescale, strict=True)] for sums in old]
        new = product(
            blocks.vectors,
            plan,
            build.steps(count, plan.depth),
            old,
            left,
            lambda step: self._load(weights, step, element=word),
        )
        for each, sums in zip(elements, new, strict=True):
            self._store(sums, "sums", self.number, each)

    def _stage_mask(self, first_key: ir.Value, count: Size) -> None:
        """Brings the mask of a block into the order of its scores, as what is added to them."""
        blocks, plan = self.blocks, self.blocks.plan
        vectors, lanes = blocks.vectors, plan.lanes

        def group(lane: ir.Value) -> None:
            rows = [self.head.last(build.at(build.add(build.add(self.start, lane), each))) for each in range(lanes)]
            places = [self.head.masked(row) for row in rows]

            def keys(key: ir.Value) -> None:
                number = build.at(build.add(first_key, key))
                left = build.at(build.subtract(blocks.problem.keys, number))
                loaded = [load_mask(blocks, [*place, number], left) for place in places]
                for at, each in enumerate(vectors.transposed(loaded)):
                    vector.store(each, blocks.scratch["mask"], [build.at(build.add(key, at)), lane])

            build.loop(count, lanes, keys)

        build.loop(plan.rows, lanes, group)

    def end(self) -> None:
        """Divides the sums by the weights, and writes them as rows of the result."""
        blocks, plan = self.blocks, self.blocks.plan
        spec, vectors, lanes = blocks.problem.spec, blocks.vectors, plan.lanes
        scratch = blocks.scratch

        def group(lane: ir.Value) -> None:
            weights = vector.load(vectors.floats, scratch["weights"], [self.number, lane])
            reciprocal = inverse(vectors, weights)
            rows = [build.add(build.add(self.start, lane), each) for each in range(lanes)]
            for at in range(0, spec.value_head, lanes):
                whole = min(lanes, spec.value_head - at)
                columns = [
                    vector.load(
                        vectors.floats, scratch["sums"], [self.number, build.at(at + min(each, whole - 1)), lane]
                    )
                    for each in range(lanes)
                ]
                results = vectors.transposed([arith.mulf(each, reciprocal) for each in columns])
                for row, result in zip(rows, results, strict=True):
                    place = [*self.head.query(build.at(row)), build.at(at)]
                    value = convert.narrowed(result, spec.out)
                    build.branch(
                        build.less(row, blocks.problem.rows),
                        lambda value=value, place=place, whole=whole: store(value, blocks.problem.out, place, whole),
                    )

        build.loop(plan.rows, lanes, group)


def inverse(vectors: Vectors, weights: ir.Value) -> ir.Value:
    """1 / weights; 0 where no key was seen."""
    zero = vectors.number(0.0)
    none = arith.cmpf(arith.CmpFPredicate.OEQ, weights, zero)
    return arith.select(none, zero, arith.divf(vectors.number(1.0), weights))


def store(value: ir.Value, buffer: ir.Value, place: Values, whole: int) -> None:
    """Writes the first `whole` elements of a vector."""
    count = ir.VectorType(value.type).shape[0]
    if whole >= count:
        vector.store(value, buffer, place)
    else:
        vector.maskedstore(buffer, place, first(count, whole), value)


def load_mask(blocks: Blocks, place: Values, left: ir.Value) -> ir.Value:
    """A vector of a row of the mask, of which `left` elements may be read, as what is added to scores."""
    vectors, spec = blocks.vectors, blocks.problem.spec
    lanes = vectors.lanes
    element = "i8" if spec.mask == "u8" else str(spec.mask)
    kind = vectors.of(element)
    seen = vector.create_mask(vectors.of("i1"), [left])
    zero = arith.constant(
        kind,
        ir.DenseElementsAttr.get_splat(
            kind,
            ir.IntegerAttr.get(ir.IntegerType.get_signless(8), 0)
            if element == "i8"
            else ir.FloatAttr.get(ir.Type.parse(element), 0.0),
        ),
    )
    loaded = vector.maskedload(kind, blocks.problem.mask, place, seen, zero)
    if element == "f32":
        return loaded
    if element != "i8":
        return arith.extf(vectors.of("f32", lanes), loaded)
    hidden = arith.cmpi(arith.CmpIPredicate.eq, loaded, zero)
    return arith.select(hidden, vectors.number(float("-inf")), vectors.number(0.0))
