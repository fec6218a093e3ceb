# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operands of attention, and where the rows of one head of keys lie in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dims import Dim
from tilewright.lowering.attention import build
from tilewright.lowering.attention.build import Size
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.schedules.attention import AttentionPlan


@dataclass(frozen=True, slots=True)
class Problem:
    """The arguments of a function of attention.

    Attributes:
        spec: What it computes.
        plan: How.
        q: The queries.
        k: The keys.
        v: The values.
        out: The result.
        mask: What is added to the scores, or says what is seen.
        queries: Queries of a head.
        keys: Keys of a head.
    """

    spec: AttentionSpec
    plan: AttentionPlan
    q: ir.Value
    k: ir.Value
    v: ir.Value
    out: ir.Value
    mask: ir.Value | None
    queries: Size
    keys: Size

    @classmethod
    def of(cls, spec: AttentionSpec, plan: AttentionPlan, arguments: Sequence[ir.Value]) -> Problem:
        """The problem of a function's arguments, in the order of the call, the result after them."""
        q, k, v, *mask, out = arguments[: 4 + (spec.mask is not None)]

        def extent(size: object, operand: ir.Value) -> Size:
            axis = len(spec.batch) + 1
            return memref.dim(operand, build.at(axis)) if isinstance(size, Dim) else int(size)  # type: ignore[call-overload]

        return cls(spec, plan, q, k, v, out, mask[0] if mask else None, extent(spec.queries, q), extent(spec.keys, k))

    @property
    def rows(self) -> Size:
        """Rows of the queries that a task takes together: those of a head, or of all heads that share keys."""
        return build.multiply(self.queries, self.spec.group) if self.plan.merged else self.queries

    @property
    def task_heads(self) -> int:
        """Tasks for each batch, without the blocks of rows."""
        return self.spec.kv_heads if self.plan.merged else self.spec.heads


@dataclass(frozen=True, slots=True)
class Head:
    """One head of keys, and the rows of queries that a task takes with it.

    Attributes:
        problem: The operands.
        lead: The indices of its batch.
        head: The head of queries; the first one of those that are merged.
        shared: The head of keys.
    """

    problem: Problem
    lead: tuple[ir.Value, ...]
    head: Size
    shared: Size

    @classmethod
    def at(cls, problem: Problem, number: ir.Value) -> Head:
        """Head number `number` of all tasks' heads, those of a batch one after the other."""
        spec = problem.spec
        position = build.rest(number, problem.task_heads)
        outer: Size = build.divide(number, problem.task_heads)
        lead: list[ir.Value] = []
        for size in reversed(spec.batch):
            lead.insert(0, build.at(build.rest(outer, max(size, 1))))
            outer = build.divide(outer, max(size, 1))
        if problem.plan.merged:
            return cls(problem, tuple(lead), build.multiply(position, spec.group), position)
        return cls(problem, tuple(lead), position, build.divide(position, spec.group))

    def place(self, row: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The head and the number of the query that row `row` of the task is."""
        if not self.problem.plan.merged:
            return build.at(self.head), row
        queries = self.problem.queries
        return build.at(build.add(self.head, build.divide(row, queries))), build.at(build.rest(row, queries))

    def query(self, row: ir.Value) -> list[ir.Value]:
        """The indices of a row of queries, or of results, but for the last one."""
        return [*self.lead, *self.place(row)]

    def key(self, number: Size) -> list[ir.Value]:
        """The same of a key, or of a value."""
        return [*self.lead, build.at(self.shared), build.at(number)]

    def masked(self, row: ir.Value) -> list[ir.Value]:
        """The same of a row of the mask."""
        axes = self.problem.spec.mask_axes
        head, query = self.place(row)
        return [
            *(self.lead if "b" in axes else ()),
            *((head,) if "h" in axes else ()),
            *((query,) if "m" in axes else ()),
        ]

    def last(self, row: ir.Value) -> ir.Value:
        """The last row of the task, where `row` lies behind it."""
        return arith.minsi(row, build.at(build.subtract(self.problem.rows, 1)))


def load(buffer: ir.Value, indices: Sequence[ir.Value], element: str, count: int, whole: int | None = None) -> ir.Value:
    """`count` elements at `indices`; zeros from element `whole` on, where that is given, which are not read."""
    kind = ir.VectorType.get([count], ir.Type.parse(element))
    if whole is None or whole >= count:
        return vector.load(kind, buffer, list(indices))
    return vector.maskedload(kind, buffer, list(indices), first(count, whole), zeros(kind))


def zeros(kind: ir.Type) -> ir.Value:
    """Zeros of a vector type."""
    element = ir.VectorType(kind).element_type
    integer = isinstance(element, ir.IntegerType)
    zero = ir.IntegerAttr.get(element, 0) if integer else ir.FloatAttr.get(element, 0.0)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, zero))


def first(count: int, whole: int) -> ir.Value:
    """A mask of `count` elements that is set for the first `whole`."""
    kind = ir.VectorType.get([count], ir.IntegerType.get_signless(1))
    return vector.constant_mask(kind, [whole])
