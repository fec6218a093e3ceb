# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What becomes of the products of queries and keys before the softmax: scaled, masked, and hidden behind the last key that is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.constants import constant
from tilewright.build.index import Index, add, less, minimum, signed_less, signed_max, signed_min, sub, value
from tilewright.build.loops import if_else
from tilewright.codegen.attention.chain import Chain
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_HIDDEN = float("-inf")


@dataclass(frozen=True, slots=True)
class Scores:
    """A thread's scores.

    Attributes:
        chain: What is computed.
        rows: The numbers of the thread's queries.
        columns: Its columns of a block of keys.
        queries: Queries of a head.
        keys: Keys of a head.
        mask: The mask; None without.
        place: The indices of the batch and the head.
    """

    chain: Chain
    rows: Sequence[Index]
    columns: Sequence[Index]
    queries: Index
    keys: Index
    mask: ir.Value | None
    place: Sequence[Index]

    def end(self, first: Index, count: int) -> Index:
        """How many keys are seen at most by `count` queries from `first` on."""
        if not self.chain.causal:
            return self.keys
        return signed_max(signed_min(add(add(first, count), self._offset), self.keys), 0)

    def seen(self, products: ir.Value, first: ir.Value, count: int) -> list[list[ir.Value]]:
        """The scores of the `count` keys from `first` on, by rows: -Inf for those that are not seen."""
        f32, height = ir.F32Type.get(), len(self.rows)
        scale = constant(f32, self.chain.scale)
        scaled = [
            [arith.mulf(vector.extract(products, [], [row, column]), scale) for column in range(len(self.columns))]
            for row in range(height)
        ]
        keys = [add(first, column) for column in self.columns]
        if self.mask is not None:
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
                for each, key in zip(line, keys, strict=True):
                    is_seen = less(key, self.keys)
                    if self.chain.causal:
                        is_seen = arith.andi(is_seen, signed_less(key, add(add(row, self._offset), 1)))
                    made.append(arith.select(is_seen, each, nothing))
            return made

        flat = [each for line in scaled for each in line]
        found = if_else(cut, hidden, lambda: flat, [f32] * len(flat))
        width = len(self.columns)
        return [found[row * width : (row + 1) * width] for row in range(height)]

    @property
    def _lowest(self) -> Index:
        """The thread's first query."""
        return self.rows[0]

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
