# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the rows of an entry of the batch lie, and how many there are: entries of one length, sequences end to end, lengths, pages.

A table is read where a row is needed. Whatever it says, no row outside of an operand is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.build.index import Index, add, div, div_rem, less, minimum, mul, rem, sub, value, values
from tilewright.build.loops import search
from tilewright.codegen.attention.chain import Chain
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the batch, or a sequence.

    Attributes:
        chain: What is computed.
        operands: The operands by name.
        place: The indices of the batch, or the number of the sequence.
        queries: How many queries it has.
        keys: How many keys.
        first_query: Where its queries start among those of all sequences.
        first_key: Where its keys do.
    """

    chain: Chain
    operands: Mapping[str, ir.Value]
    place: Sequence[Index]
    queries: Index
    keys: Index
    first_query: Index = 0
    first_key: Index = 0

    @staticmethod
    def of(
        chain: Chain, operands: Mapping[str, ir.Value], place: Sequence[Index], queries: Index, keys: Index
    ) -> Entry:
        """The entry at some indices, where operands have so many queries and keys."""
        first_query: Index = 0
        first_key: Index = 0
        if chain.packed:
            first_query, queries = _between(operands["q_starts"], place[0], queries)
        if chain.packed and not chain.lengths:
            first_key, keys = _between(operands["k_starts"], place[0], keys)
        elif chain.lengths:
            keys = minimum(number(operands["lengths"], place), keys)
        return Entry(chain, operands, place, queries, keys, first_query, first_key)

    def query(self, head: Index, row: Index) -> list[Index]:
        """The indices of a query, or of its result, but for the last one."""
        lead = [] if self.chain.packed else self.place
        return [*lead, head, add(self.first_query, row)]

    def key(self, head: Index, row: Index) -> list[Index]:
        """The same of a key, or of a value."""
        if self.chain.page:
            column, within = div_rem(row, self.chain.page)
            table = self.operands["table"]
            # Behind the last key there is no page, and the last number may be anything.
            inside = minimum(column, sub(memref.dim(table, value(len(self.place))), 1))
            pages = memref.dim(self.operands["k"], value(0))
            return [minimum(number(table, [*self.place, inside]), sub(pages, 1)), head, within]
        lead = [] if self.chain.packed else self.place
        return [*lead, head, add(self.first_key, row)]


def place_of(chain: Chain, entry: Index) -> list[Index]:
    """The indices of the batch's entry of that number."""
    place: list[Index] = []
    for size in reversed(chain.batch):
        is_first = len(place) + 1 == len(chain.batch)
        place.insert(0, entry if is_first else rem(entry, max(size, 1)))
        entry = div(entry, max(size, 1))
    return place


def most_keys(chain: Chain, operands: Mapping[str, ir.Value]) -> Index:
    """Keys that an entry may have: as many as its pages do, or as there are."""
    if chain.page:
        table = operands["table"]
        columns = memref.dim(table, value(ir.MemRefType(table.type).rank - 1))
        some = less(0, memref.dim(operands["k"], value(0)))
        return arith.select(some, value(mul(columns, chain.page)), value(0))
    return memref.dim(operands["k"], value(ir.MemRefType(operands["k"].type).rank - 2))


def sequences(operands: Mapping[str, ir.Value]) -> Index:
    """How many sequences lie end to end."""
    return sub(memref.dim(operands["q_starts"], value(0)), 1)


@dataclass(frozen=True, slots=True)
class Slots:
    """Places for blocks of `unit` rows of sequences, more than there can be blocks.

    Sequence s has those from ``start(s) div unit + s`` on, one more than the whole units that it reaches into: its blocks are no more
    than that, rounded up. So a block finds its sequence by a search, and nobody counts blocks before.

    Attributes:
        starts: Where sequences start.
        unit: Rows of a block.
        per: Rows of each query.
        total: Queries of all sequences.
    """

    starts: ir.Value
    unit: int
    per: int
    total: Index

    @property
    def count(self) -> Index:
        """How many there are."""
        sequences_ = sub(memref.dim(self.starts, value(0)), 1)
        slots = add(div(mul(self.total, self.per), self.unit), sequences_)
        return mul(slots, minimum(sequences_, 1))

    def find(self, slot: Index) -> tuple[Index, Index]:
        """The sequence of a place, and the number of the block in it, which it need not have."""
        count = sub(memref.dim(self.starts, value(0)), 1)
        found = search(count, lambda sequence: less(slot, self._first(sequence)))
        return found, sub(slot, self._first(found))

    def _first(self, sequence: Index) -> Index:
        start = minimum(number(self.starts, [sequence]), self.total)
        return add(div(mul(start, self.per), self.unit), sequence)


def number(table: ir.Value, place: Sequence[Index]) -> ir.Value:
    """A number of a table; one below zero is above all others."""
    return arith.index_cast(ir.IndexType.get(), memref.load(table, values(place)))


def _between(starts: ir.Value, sequence: Index, total: Index) -> tuple[Index, Index]:
    """Where a sequence starts, and how long it is."""
    start, end = (minimum(number(starts, [each]), total) for each in (sequence, add(sequence, 1)))
    return start, sub(arith.maxui(value(end), value(start)), start)
