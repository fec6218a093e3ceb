# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands, arithmetic and scratch buffers of a thread; reads masks and writes results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.constants import zero
from tilewright.build.index import Index
from tilewright.codegen.attention.loops import Values
from tilewright.codegen.attention.problem import Problem, first
from tilewright.codegen.attention.vectors import Vectors
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.payload.attention_numbers import LOG2_E
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


def inverse(vectors: Vectors, weights: ir.Value) -> ir.Value:
    """1 / weights; 0 where no key was seen."""
    nothing = vectors.number(0.0)
    unseen = arith.cmpf(arith.CmpFPredicate.OEQ, weights, nothing)
    return arith.select(unseen, nothing, arith.divf(vectors.number(1.0), weights))


def store(value: ir.Value, buffer: ir.Value, place: Values, whole: int) -> None:
    """Writes the first `whole` elements of a vector."""
    count = ir.VectorType(value.type).shape[0]
    if whole >= count:
        vector.store(value, buffer, place)
    else:
        vector.maskedstore(buffer, place, first(count, whole), value)


def load_mask(code: Code, place: Values, left: ir.Value) -> ir.Value:
    """A vector of a row of the mask, of which `left` elements may be read, as numbers to add to the scores."""
    vectors = code.vectors
    lanes, element = vectors.lanes, str(code.problem.chain.mask)
    kind = vectors.of(element)
    seen = vector.create_mask(vectors.of("i1"), [left])
    none = zero(kind)
    loaded = vector.maskedload(kind, code.problem.mask, place, seen, none)
    if element == "f32":
        return loaded
    if element != "i8":
        return arith.extf(vectors.of("f32", lanes), loaded)
    hidden = arith.cmpi(arith.CmpIPredicate.eq, loaded, none)
    return arith.select(hidden, vectors.number(float("-inf")), vectors.number(0.0))
