# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operands of attention, and the indices of one head's rows in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewright.build import index
from tilewright.build.index import Index
from tilewright.codegen.attention.chain import Chain, Extent
from tilewright.codegen.attention.rows import Entry, Slots, most_keys, place_of
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
        operands: All arguments but the result, by name.
        queries: Queries of a head: of all sequences, or of a head's own.
        keys: Keys of a head, at most, or a head's own.
    """

    chain: Chain
    tiling: Tiling
    q: ir.Value
    k: ir.Value
    v: ir.Value
    out: ir.Value
    mask: ir.Value | None
    operands: Mapping[str, ir.Value]
    queries: Index
    keys: Index

    @classmethod
    def of(cls, chain: Chain, tiling: Tiling, arguments: Sequence[ir.Value], out: ir.Value) -> Problem:
        """The problem of a function's arguments, which the chain numbers, and of its result."""
        named = {name: arguments[number] for name, number in chain.arguments.items()}

        def extent(size: Extent, operand: ir.Value) -> Index:
            return memref.dim(operand, index.value(len(chain.batch) + 1)) if size is None else size

        queries = extent(chain.queries, named["q"])
        keys = most_keys(chain, named) if chain.page else extent(chain.keys, named["k"])
        return cls(chain, tiling, named["q"], named["k"], named["v"], out, named.get("mask"), named, queries, keys)

    @property
    def rows(self) -> Index:
        """Rows of the queries that a task takes together: those of a head, or of all heads that share keys."""
        return index.mul(self.queries, self.chain.group) if self.tiling.merged else self.queries

    @property
    def slots(self) -> Slots | None:
        """Places for blocks of rows, where those of sequences lie end to end."""
        if not self.chain.packed:
            return None
        tiling = self.tiling
        per = self.chain.group if tiling.merged else 1
        return Slots(self.operands["q_starts"], tiling.rows * tiling.columns, per, self.queries)

    @property
    def task_heads(self) -> int:
        """Tasks for each batch, without the blocks of rows."""
        return self.chain.kv_heads if self.tiling.merged else self.chain.heads


@dataclass(frozen=True, slots=True)
class Head:
    """One head of keys, and the rows of queries that a task takes with it.

    Attributes:
        problem: The operands.
        entry: Its entry of the batch.
        head: The head of queries; the first one of those that are merged.
        shared: The head of keys.
    """

    problem: Problem
    entry: Entry
    head: Index
    shared: Index

    @classmethod
    def at(cls, problem: Problem, number: ir.Value, sequence: Index | None = None) -> Head:
        """Head number `number` of all tasks' heads, in the order of the batch; or of a sequence."""
        chain = problem.chain
        position = index.rem(number, problem.task_heads)
        place = place_of(chain, index.div(number, problem.task_heads)) if sequence is None else [sequence]
        entry = Entry.of(chain, problem.operands, place, problem.queries, problem.keys)
        own = replace(problem, queries=entry.queries, keys=entry.keys)
        if problem.tiling.merged:
            return cls(own, entry, index.mul(position, chain.group), position)
        return cls(own, entry, position, index.div(position, chain.group))

    def place(self, row: Index) -> tuple[Index, Index]:
        """The head and the number of the query that row `row` of the task is."""
        if not self.problem.tiling.merged:
            return self.head, row
        queries = self.problem.queries
        return index.add(self.head, index.div(row, queries)), index.rem(row, queries)

    def query(self, row: Index) -> list[Index]:
        """The indices of a row of queries, or of results, but for the last one."""
        return self.entry.query(*self.place(row))

    def key(self, number: Index) -> list[Index]:
        """The same of a key, or of a value."""
        return self.entry.key(self.shared, number)

    def masked(self, row: Index) -> list[Index]:
        """The same of a row of the mask."""
        axes = [*self.entry.place, *self.place(row)]
        return [axes[each] for each in self.problem.chain.mask_axes[:-1]]

    def last(self, row: Index) -> Index:
        """The row, but at most the last one of the task."""
        return index.signed_min(row, index.sub(self.problem.rows, 1))
