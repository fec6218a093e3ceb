# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a thread of a warp group does that multiplies: its loop over blocks of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tilewright.build.constants import constant
from tilewright.build.index import Index, add, equal, less, minimum, mul, rem, sub, value
from tilewright.build.loops import if_else, loop, when
from tilewright.codegen.gpu.barriers import await_turn, give_turn
from tilewright.codegen.gpu.ring import Turn
from tilewright.codegen.gpu_attention.exchange import Exchange
from tilewright.codegen.gpu_attention.group_products import HALVES, GroupProducts
from tilewright.codegen.gpu_attention.scores import Scores
from tilewright.codegen.gpu_attention.softmax import Block, Softmax
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, nvvm, scf


@dataclass(frozen=True, slots=True)
class Sums:
    """What a thread has summed of some blocks of keys.

    Attributes:
        results: Weights times values: by 8 columns two of a row, and two of the row 8 below.
        largest: The largest scores, by rows.
        weights: Sums of weights, by rows.
    """

    results: Sequence[ir.Value]
    largest: Sequence[ir.Value]
    weights: Sequence[ir.Value]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A thread of such a group.

    Attributes:
        number: Of the group.
        lane: Of the thread in its warp.
        products: How it multiplies.
        softmax: How it computes weights.
        scores: What becomes of products of queries and keys.
        exchange: What threads that share rows tell each other.
        start: The first block of keys.
        steps: How many there are.
        thread: The number of the thread among those that multiply, where values behind an entry's last key are cleared; None where
            there are none.
    """

    number: Index
    lane: ir.Value
    products: GroupProducts
    softmax: Softmax
    scores: Scores
    exchange: Exchange
    start: Index
    steps: Index
    thread: Index | None = None

    def results(self) -> Sums:
        """What a thread has summed when it has gone through all."""
        f32, by_values, zeros = ir.F32Type.get(), self.products.by_values, self.products.by_values.zeros()

        def some() -> list[ir.Value]:
            queries = self.products.rings.queries
            queries.await_full(queries.first())
            start = self.products.tiles.q.descriptor(self.number)
            return self._overlapped(start, zeros) if self.products.sizes.overlap else self._in_order(start, zeros)

        height = len(HALVES)
        kinds = [by_values.kind, *[f32] * 2 * height]
        results, *rows = if_else(less(0, self.steps), some, lambda: [zeros, *self.softmax.start(height)], kinds)
        sums = self.exchange.combined(rows[height:], arith.addf)
        return Sums(by_values.elements(results), rows[:height], sums)

    def _in_order(self, queries: ir.Value, results: ir.Value) -> list[ir.Value]:
        """The results, the largest scores and the sums of weights, block by block: scores, their softmax, and weights by values."""
        height, keys, values = len(HALVES), self.products.rings.keys, self.products.rings.values
        carried = [results, *self.softmax.start(height), *keys.first().values]
        with loop(0, self.steps, 1, carried) as (step, (results, *held), over):
            turn = Turn(*held[2 * height :])
            block = self._first_block(queries, step, turn, held[:height], held[height : 2 * height])
            results = self.products.scaled(results, block.factors)
            self._clear(step, turn)
            results = self.products.begin_values(self.products.held(block.weights), results, turn)
            nvvm.wgmma_wait_group_sync_aligned(0)
            values.release(turn.slot, self.lane)
            scf.yield_([results, *block.largest, *block.sums, *keys.after(turn).values])
        return list(over.results[: 1 + 2 * height])

    def _overlapped(self, queries: ir.Value, results: ir.Value) -> list[ir.Value]:
        """The same, where scores of the next block are begun before weights and values of this one are multiplied."""
        height, keys, values = len(HALVES), self.products.rings.keys, self.products.rings.values
        start = self.softmax.start(height)
        turn = keys.first()
        block = self._first_block(queries, 0, turn, start[:height], start[height:])
        weights = self.products.held(block.weights)
        carried = [results, *block.largest, *block.sums, *weights, *keys.after(turn).values, *turn.values]
        with loop(1, self.steps, 1, carried) as (step, (results, *held), over):
            most, sums, weights = held[:height], held[height : 2 * height], held[2 * height : -4]
            turn, before = Turn(*held[-4:-2]), Turn(*held[-2:])
            with self._in_turn(step):
                products = self.products.begin_scores(queries, turn)
                results = self.products.begin_values(weights, results, before)
            nvvm.wgmma_wait_group_sync_aligned(1)
            keys.release(turn.slot, self.lane)
            block = self._softmax_of(products, step, most, sums)
            weights = self.products.held(block.weights)
            nvvm.wgmma_wait_group_sync_aligned(0)
            values.release(before.slot, self.lane)
            results = self.products.scaled(results, block.factors)
            scf.yield_(
                [results, *block.largest, *block.sums, *weights, *keys.after(turn).values, *values.after(before).values]
            )
        results, *held = over.results
        self._clear(sub(self.steps, 1), Turn(*held[-2:]))
        results = self.products.begin_values(held[2 * height : -4], results, Turn(*held[-2:]))
        nvvm.wgmma_wait_group_sync_aligned(0)
        values.release(held[-2], self.lane)
        return [results, *held[: 2 * height]]

    def _clear(self, step: Index, turn: Turn) -> None:
        """Clears values of the block of that number behind the last key."""
        if self.thread is not None:
            first = mul(add(self.start, step), self.products.sizes.kc)
            self.products.clear(turn, sub(self.scores.keys, minimum(first, self.scores.keys)), self.thread)

    @contextmanager
    def _in_turn(self, step: ir.Value) -> Iterator[None]:
        """Where code goes that one consumer runs after the other, round and round; nobody waits for the first of all turns."""
        count = self.products.sizes.consumers
        if not self.products.sizes.pingpong:
            yield
            return
        first = arith.andi(equal(self.number, 0), equal(step, 1))
        with when(arith.xori(first, constant(first.type, 1))):
            await_turn(self.number)
        yield
        last = arith.andi(equal(self.number, count - 1), equal(add(step, 1), self.steps))
        with when(arith.xori(last, constant(last.type, 1))):
            give_turn(rem(add(self.number, 1), count))

    def _first_block(
        self, queries: ir.Value, step: Index, turn: Turn, most: Sequence[ir.Value], sums: Sequence[ir.Value]
    ) -> Block:
        """A block's scores, waited for, and their softmax."""
        products = self.products.begin_scores(queries, turn)
        nvvm.wgmma_wait_group_sync_aligned(0)
        self.products.rings.keys.release(turn.slot, self.lane)
        return self._softmax_of(products, step, most, sums)

    def _softmax_of(self, products: ir.Value, step: Index, most: Sequence[ir.Value], sums: Sequence[ir.Value]) -> Block:
        """What a block of keys makes of the largest scores and the sums, given its products, which have been waited for."""
        kc = self.products.sizes.kc
        seen = self.scores.seen(self.products.rows(products), value(mul(add(self.start, step), kc)), kc)
        return self.softmax.block(seen, most, sums, self.exchange)
