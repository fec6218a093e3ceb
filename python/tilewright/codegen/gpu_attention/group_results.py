# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A warp group's results on their way to memory: divided by the sums of weights, and stored by boxes, or by each thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.build.constants import constant, zero
from tilewright.build.index import Index, add, mul
from tilewright.codegen.gpu import rows as row_access
from tilewright.codegen.gpu.barriers import meet_consumer
from tilewright.codegen.gpu.tma_stores import BoxStores, Chunk
from tilewright.codegen.gpu_attention.group_block import GroupBlock
from tilewright.codegen.gpu_attention.group_consumer import Sums
from tilewright.codegen.gpu_attention.heads import matrix
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.gpu.warpgroup import WARP_ROWS

_EIGHTS = 4
"""Groups of 8 columns that are finished at once, so that what is computed of them fits into registers."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The thread of a consumer whose code this is.

    Attributes:
        consumer: The number of its warp group among those that multiply.
        warp: The number of its warp among theirs.
        lane: Its number in the warp.
    """

    consumer: Index
    warp: Index
    lane: Index


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the result a thread's results are.

    Attributes:
        rows: Of each of its rows the head, and the query.
        column: Its first column.
    """

    rows: Sequence[tuple[Index, Index]]
    column: Index


@dataclass(frozen=True, slots=True)
class GroupResults:
    """Where results go.

    Attributes:
        block: Of which queries.
        out: The result.
        stores: How boxes of it are stored; None where each thread stores what it has.
        columns: Columns of the instructions.
    """

    block: GroupBlock
    out: ir.Value
    stores: BoxStores | None
    columns: int

    def write(self, sums: Sums, who: Owner, at: Place) -> None:
        """Writes a thread's results; zeros for queries that see no key."""
        factors = [inverse(each) for each in sums.weights]
        stores = self.stores
        per = stores.eights if stores else _EIGHTS
        if stores:
            # Boxes may lie where the group's queries were.
            meet_consumer(who.consumer)
            stores.start(who.warp, who.lane)
        for first in range(0, self.columns // 8, per):
            last = min(first + per, self.columns // 8)
            if stores:
                stores.begin()
            for start in range(first, last, _EIGHTS):
                self.write_chunk(range(start, min(start + _EIGHTS, last)), sums.results, factors, at)
            if stores:
                row = add(self.block.first, mul(who.warp, WARP_ROWS))
                stores.end([*self.block.entry.query(self.block.head, row), first * 8])
        if stores:
            stores.finish()

    def write_chunk(self, eights: range, elements: Sequence[ir.Value], factors: Sequence[ir.Value], at: Place) -> None:
        """Writes a thread's results of some groups of 8 columns, its sums multiplied by factors of its rows."""
        element = ir.Type.parse(self.block.chain.out)
        width = 2 * len(eights)
        rows = []
        for half, factor in enumerate(factors):
            own = [elements[eight * 4 + half * 2 + each] for eight in eights for each in (0, 1)]
            row = vector.from_elements(ir.VectorType.get([width], ir.F32Type.get()), own)
            row = arith.mulf(row, vector.broadcast(row.type, factor))
            rows.append(row if element == ir.F32Type.get() else arith.truncf(ir.VectorType.get([width], element), row))
        if self.stores:
            part = zero(ir.VectorType.get([len(rows), width], element))
            for half, row in enumerate(rows):
                part = vector.insert(row, part, [], [half])
            self.stores.put(Chunk(0, tuple(eights)), part)
            return
        extents = (self.block.queries, self.block.chain.value_head)
        for (head, query), row in zip(at.rows, rows, strict=True):
            view = matrix(self.out, self.block.entry.query(head, 0), extents)
            for number, eight in enumerate(eights):
                pair = vector.extract_strided_slice(ir.VectorType.get([2], element), row, [2 * number], [2], [1])
                row_access.store(pair, view, (query, add(at.column, 8 * eight)), extents)


def inverse(total: ir.Value) -> ir.Value:
    """1 / total, and 0 of nothing."""
    f32 = ir.F32Type.get()
    some = arith.cmpf(arith.CmpFPredicate.OGT, total, zero(f32))
    return arith.select(some, arith.divf(constant(f32, 1), total), zero(f32))
