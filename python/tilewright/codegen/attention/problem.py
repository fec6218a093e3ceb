# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operands of attention, and the indices of one head's rows in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build import index
from tilewright.build.index import Index
from tilewright.codegen.attention.chain import Chain, Extent
from tilewright.mlir import ir
from tilewright.mlir.dialects import memref
from tilewright.schedules.models.online_softmax import Tiling


@dataclass(frozen=True, slots=True)
class Problem:
    """The arguments of a function of attention.

    Attributes:
        chain: What it computes.
        tiling: In which blocks.
        q: The queries.
        k: The keys.
        v: The values.
        out: The result.
        mask: What is added to the scores, or hides keys; None without.
        queries: Queries of a head.
        keys: Keys of a head.
    """

    chain: Chain
    tiling: Tiling
    q: ir.Value
    k: ir.Value
    v: ir.Value
    out: ir.Value
    mask: ir.Value | None
    queries: Index
    keys: Index

    @classmethod
    def of(cls, chain: Chain, tiling: Tiling, arguments: Sequence[ir.Value], out: ir.Value) -> Problem:
        """The problem of a function's arguments, which the chain numbers, and of its result."""
        q, k, v = (arguments[chain.arguments[name]] for name in ("q", "k", "v"))
        mask = arguments[chain.arguments["mask"]] if chain.mask is not None else None

        def extent(size: Extent, operand: ir.Value) -> Index:
            return memref.dim(operand, index.value(len(chain.batch) + 1)) if size is None else size

        return cls(chain, tiling, q, k, v, out, mask, extent(chain.queries, q), extent(chain.keys, k))

    @property
    def rows(self) -> Index:
        """Rows of the queries that a task takes together: those of a head, or of all heads that share keys."""
        return index.mul(self.queries, self.chain.group) if self.tiling.merged else self.queries

    @property
    def task_heads(self) -> int:
        """Tasks for each batch, without the blocks of rows."""
        return self.chain.kv_heads if self.tiling.merged else self.chain.heads


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
    lead: tuple[Index, ...]
    head: Index
    shared: Index

    @classmethod
    def at(cls, problem: Problem, number: ir.Value) -> Head:
        """Head number `number` of all tasks' heads, in the order of the batch."""
        chain = problem.chain
        position = index.rem(number, problem.task_heads)
        outer: Index = index.div(number, problem.task_heads)
        lead: list[Index] = []
        for size in reversed(chain.batch):
            lead.insert(0, index.rem(outer, max(size, 1)))
            outer = index.div(outer, max(size, 1))
        if problem.tiling.merged:
            return cls(problem, tuple(lead), index.mul(position, chain.group), position)
        return cls(problem, tuple(lead), position, index.div(position, chain.group))

    def place(self, row: Index) -> tuple[Index, Index]:
        """The head and the number of the query that row `row` of the task is."""
        if not self.problem.tiling.merged:
            return self.head, row
        queries = self.problem.queries
        return index.add(self.head, index.div(row, queries)), index.rem(row, queries)

    def query(self, row: Index) -> list[Index]:
        """The indices of a row of queries, or of results, but for the last one."""
        return [*self.lead, *self.place(row)]

    def key(self, number: Index) -> list[Index]:
        """The same of a key, or of a value."""
        return [*self.lead, self.shared, number]

    def masked(self, row: Index) -> list[Index]:
        """The same of a row of the mask."""
        axes = [*self.lead, *self.place(row)]
        return [axes[each] for each in self.problem.chain.mask_axes[:-1]]

    def last(self, row: Index) -> Index:
        """The row, but at most the last one of the task."""
        return index.signed_min(row, index.sub(self.problem.rows, 1))
