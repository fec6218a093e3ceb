# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of the products of queries and keys before the softmax: scaled, masked, and hidden behind the last key that is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.build.constants import constant
from tilewright.build.index import Index, add, less, minimum, signed_less, signed_max, signed_min, sub, value
from tilewright.build.loops import if_else
from tilewright.codegen.attention.chain import Chain
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref

_HIDDEN = float("-inf")


@dataclass(frozen=True, slots=True)
class Scores:
    """A thread's scores.

    Attributes:
        chain: What is computed.
        scale: What products are multiplied by here; 1 where the softmax does that.
        rows: The numbers of the thread's queries.
        column: Its first column of a block of keys.
        offsets: Its columns, counted from that.
        queries: Queries of a head.
        keys: Keys of a head.
        mask: The mask; None without.
        place: The indices of the batch and the head.
    """

    chain: Chain
    scale: float
    rows: Sequence[Index]
    column: Index
    offsets: Sequence[int]
    queries: Index
    keys: Index
    mask: ir.Value | None
    place: Sequence[Index]

    def end(self, first: Index, count: int) -> Index:
        """How many keys are seen at most by `count` queries from `first` on."""
        if not self.chain.causal:
            return self.keys
        return signed_max(signed_min(add(add(first, count), self._offset), self.keys), 0)

    def seen(self, products: Sequence[Sequence[ir.Value]], first: ir.Value, count: int) -> list[list[ir.Value]]:
        """The scores of the `count` keys from `first` on, by rows, of products by rows: -Inf for those that are not seen."""
        f32 = ir.F32Type.get()
        scaled = [list(row) for row in products]
        if self.scale != 1:
            scale = constant(f32, self.scale)
            scaled = [[arith.mulf(each, scale) for each in row] for row in scaled]
        if self.mask is not None:
            keys = [add(first, add(self.column, offset)) for offset in self.offsets]
            scaled = [
                [self._masked(each, row, key) for each, key in zip(line, keys, strict=True)]
                for line, row in zip(scaled, self.rows, strict=True)
            ]
        # Most blocks of keys are seen as a whole.
        last = add(first, count)
        cut = less(self.keys, last)
        if self.chain.causal:
            cut = arith.ori(cut, signed_less(add(self._lowest, self._offset), sub(last, 1)))

        def hidden() -> list[ir.Value]:
            nothing = constant(f32, _HIDDEN)
            made = []
            for line, row in zip(scaled, self.rows, strict=True):
                left = self._left(row, first, count)
                for each, offset in zip(line, self.offsets, strict=True):
                    is_seen = arith.cmpi(arith.CmpIPredicate.slt, constant(left.type, offset), left)
                    made.append(arith.select(is_seen, each, nothing))
            return made

        flat = [each for line in scaled for each in line]
        found = if_else(cut, hidden, lambda: flat, [f32] * len(flat))
        width = len(self.offsets)
        return [found[row * width : (row + 1) * width] for row in range(len(self.rows))]

    def _left(self, row: Index, first: ir.Value, count: int) -> ir.Value:
        """How many columns from the thread's first one on a query sees of `count` keys, in 32 bits; it may be below zero."""
        end = self.keys
        if self.chain.causal:
            end = signed_min(add(add(row, self._offset), 1), end)
        inside = signed_min(signed_max(sub(end, first), 0), count)
        return arith.index_cast(ir.IntegerType.get_signless(32), value(sub(inside, self.column)))

    @property
    def _lowest(self) -> Index:
        """The first of the thread's queries."""
        return reduce(signed_min, self.rows)

    @property
    def _offset(self) -> Index:
        """Query i sees the keys up to number i + this."""
        return sub(self.keys, self.queries) if self.chain.offset is None else self.chain.offset

    def _masked(self, score: ir.Value, row: Index, key: Index) -> ir.Value:
        """A score with the mask applied; of what is beyond the edges, the nearest element of the mask stands for it."""
        assert self.mask is not None, "there is one"
        inside = minimum(row, sub(self.queries, 1)), minimum(key, sub(self.keys, 1))
        axes = [*self.place, *inside]
        given = memref.load(self.mask, [value(axes[each]) for each in self.chain.mask_axes])
        if isinstance(given.type, ir.IntegerType):
            is_seen = arith.cmpi(arith.CmpIPredicate.ne, given, constant(given.type, 0))
            return arith.select(is_seen, score, constant(score.type, _HIDDEN))
        return arith.addf(score, given if given.type == score.type else arith.extf(score.type, given))
