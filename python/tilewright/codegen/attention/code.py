# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands, arithmetic and scratch buffers of a thread: elements become the words that are multiplied, f32 or pairs of bf16 in i32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.constants import constant, element_of, integer, like, zero
from tilewright.build.index import Index
from tilewright.build.vectors import fixed, load, store
from tilewright.codegen.attention.problem import Problem
from tilewright.codegen.attention.vectors import Vectors
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOG2_E, LOWEST
from tilewright.schedules.models.online_softmax import Tiling


@dataclass(frozen=True, slots=True)
class Code:
    """What the code of a thread uses.

    Attributes:
        problem: The operands.
        vectors: Arithmetic.
        scratch: The thread's buffers by name.
    """

    problem: Problem
    vectors: Vectors
    scratch: Mapping[str, ir.Value]

    @property
    def tiling(self) -> Tiling:
        """The sizes."""
        return self.problem.tiling

    @property
    def scaled(self) -> bool:
        """Whether scores are scaled before their maximum is taken; otherwise the exponent's factor has the scale."""
        return self.problem.mask is not None or self.problem.chain.scale <= 0

    @property
    def factor(self) -> float:
        """The factor of a difference of scores in the exponent of two."""
        return LOG2_E * (1.0 if self.scaled else self.problem.chain.scale)

    @property
    def offset(self) -> Index:
        """Query i sees the keys up to number i + this, if causal."""
        offset = self.problem.chain.offset
        return index.sub(self.problem.keys, self.problem.queries) if offset is None else offset

    def seen(self, last: Index) -> Index:
        """The most keys that rows up to `last` see."""
        if not self.problem.chain.causal:
            return self.problem.keys
        query = index.sub(self.problem.queries, 1) if self.tiling.merged else last
        return index.signed_max(index.signed_min(index.add(index.add(query, self.offset), 1), self.problem.keys), 0)

    def load(self, name: str, *at: Index, count: int | None = None) -> ir.Value:
        """`count` elements of a buffer from `at` on, by default one for each lane."""
        return load(self.scratch[name], at, count or self.tiling.lanes)

    def store(self, value: ir.Value, name: str, *at: Index) -> None:
        """Writes a vector to a buffer from `at` on."""
        store(value, self.scratch[name], at)

    def start(self, *at: Index) -> None:
        """Starts the running maxima and the sums of weights at `at`."""
        for name, value in (("largest", LOWEST), ("weights", 0.0)):
            self.store(self.vectors.number(value), name, *at)

    def words(self, operand: ir.Value, at: Sequence[Index], whole: int) -> ir.Value:
        """A word for each lane, of contiguous elements of an operand: numbers of f32, or pairs of bf16; zeros from element `whole` on."""
        lanes = self.tiling.lanes
        if not self.tiling.pairs:
            return widened(load(operand, at, lanes, whole), "f32")
        return vector.bitcast(self.vectors.integers, widened(load(operand, at, 2 * lanes, whole), "bf16"))

    def mask(self, place: Sequence[Index], left: ir.Value) -> ir.Value:
        """A vector of a row of the mask, of which `left` elements may be read, as numbers to add to the scores."""
        vectors, mask = self.vectors, self.problem.mask
        assert mask is not None, "there is one"
        kind = fixed(vectors.lanes, element_of(mask))
        none = zero(kind)
        seen = vector.create_mask(vectors.of("i1"), [left])
        loaded = vector.maskedload(kind, mask, index.values(place), seen, none)
        if isinstance(kind.element_type, ir.FloatType):
            return widened(loaded, "f32")
        hidden = arith.cmpi(arith.CmpIPredicate.eq, loaded, none)
        return arith.select(hidden, vectors.number(float("-inf")), vectors.number(0.0))


def inverse(vectors: Vectors, weights: ir.Value) -> ir.Value:
    """1 / weights; 0 where no key was seen."""
    nothing = vectors.number(0.0)
    unseen = arith.cmpf(arith.CmpFPredicate.OEQ, weights, nothing)
    return arith.select(unseen, nothing, arith.divf(vectors.number(1.0), weights))


def widened(loaded: ir.Value, element: str) -> ir.Value:
    """A vector as f32, or as bf16, of a type that this holds without loss."""
    kind = like(loaded.type, element)
    return loaded if loaded.type == kind else arith.extf(kind, loaded)


def narrowed(value: ir.Value, element: str) -> ir.Value:
    """A vector of f32 as another type."""
    return value if element == "f32" else arith.truncf(like(value.type, element), value)


def interleaved(first: ir.Value, second: ir.Value) -> ir.Value:
    """Two vectors of bf16 as pairs: the first in the lower half of each i32."""
    i16, i32 = (like(first.type, integer(bits)) for bits in (16, 32))
    low, high = (arith.extui(i32, arith.bitcast(i16, each)) for each in (first, second))
    return arith.ori(low, arith.shli(high, constant(i32, 16)))
