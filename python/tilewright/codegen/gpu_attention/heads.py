# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which entry and tile a block of threads has, and the rows of one head in an operand: a matrix, or pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewright.build.constants import zero
from tilewright.build.index import Index, less, minimum, sub, value
from tilewright.build.views import DYNAMIC, subview
from tilewright.codegen.attention.chain import Chain
from tilewright.codegen.attention.rows import Entry, Slots, most_keys, place_of
from tilewright.codegen.gpu import rows, staging
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref


def entry_of(chain: Chain, operands: Mapping[str, ir.Value], tile: Index, bm: int) -> tuple[Index, Entry]:
    """The tile of `bm` queries, and the entry, of a block whose number along its axis of the grid is `tile`."""
    queries = memref.dim(operands["q"], value(rank_of(chain, "q") - 2))
    if chain.packed:
        sequence, tile = Slots(operands["q_starts"], bm, 1, queries).find(tile)
        place: Sequence[Index] = [sequence]
    else:
        place = place_of(chain, gpu.block_id(gpu.Dimension.z))
    return tile, Entry.of(chain, operands, place, queries, most_keys(chain, operands))


def rank_of(chain: Chain, name: str) -> int:
    """Axes of Q, K or V: the batch, or the pages of keys, then heads, rows and elements."""
    return 4 if chain.page and name in "kv" else len(chain.batch) + 3


def matrix(operand: ir.Value, place: Sequence[Index], extents: tuple[Index, int]) -> ir.Value:
    """The matrix of one head, from the row on whose indices are `place`."""
    source = ir.MemRefType(operand.type)
    layout = ir.StridedLayoutAttr.get(DYNAMIC, [DYNAMIC, 1])
    kind = ir.MemRefType.get([DYNAMIC, extents[1]], source.element_type, layout)
    return subview(kind, operand, [*place, 0], [*[1] * (len(place) - 1), *extents])


class HeadRows(Protocol):
    """Rows of one head, of which some come to shared memory."""

    def load(self, row: Index, column: Index, width: int) -> ir.Value:
        """The `width` elements of a row from a column on; zeros for those that there are not."""
        ...

    def copy(self, row: Index, column: Index, tile: staging.Tile, to: Sequence[ir.Value], width: int) -> None:
        """Begins a copy of them to a place of a tile."""
        ...


@dataclass(frozen=True, slots=True)
class Matrix:
    """A `HeadRows` whose rows lie together.

    Attributes:
        view: The matrix.
        extents: How many rows and columns may be read.
    """

    view: ir.Value
    extents: tuple[Index, int]

    @staticmethod
    def of(operand: ir.Value, place: Sequence[Index], extents: tuple[Index, int]) -> Matrix:
        """That of one head, from the row on whose indices are `place`."""
        return Matrix(matrix(operand, place, extents), extents)

    def load(self, row: Index, column: Index, width: int) -> ir.Value:
        """The `width` elements of a row from a column on; zeros for those that there are not."""
        return rows.load(
            self.view, (row, column), self.extents, width, zero(ir.MemRefType(self.view.type).element_type)
        )

    def copy(self, row: Index, column: Index, tile: staging.Tile, to: Sequence[ir.Value], width: int) -> None:
        """Begins a copy of them to a place of a tile."""
        staging.begin_copy(self.view, (row, column), tile, to, width, _inside(row, column, self.extents, width))


@dataclass(frozen=True, slots=True)
class Pages:
    """A `HeadRows` whose rows lie in pages, which a table names.

    Attributes:
        operand: The pages of all entries and heads.
        entry: Whose rows they are.
        head: Of which head.
        extents: How many rows it has, and of how many columns.
    """

    operand: ir.Value
    entry: Entry
    head: Index
    extents: tuple[Index, int]

    def load(self, row: Index, column: Index, width: int) -> ir.Value:
        """The `width` elements of a row from a column on; zeros for those that there are not."""
        page, head, within = self.entry.key(self.head, row)
        pages, heads = (memref.dim(self.operand, value(axis)) for axis in (0, 1))
        there = arith.select(less(row, self.extents[0]), value(self.entry.chain.page), value(0))
        nothing = zero(ir.MemRefType(self.operand.type).element_type)
        extents = (pages, heads, there, self.extents[1])
        return rows.load(self.operand, (page, head, within, column), extents, width, nothing)

    def copy(self, row: Index, column: Index, tile: staging.Tile, to: Sequence[ir.Value], width: int) -> None:
        """Begins a copy of them to a place of a tile."""
        place = [*self.entry.key(self.head, row), column]
        staging.begin_copy(self.operand, place, tile, to, width, _inside(row, column, self.extents, width))


def _inside(row: Index, column: Index, extents: tuple[Index, int], width: int) -> ir.Value:
    """How many of a row's `width` elements from a column on there are."""
    inside = minimum(sub(extents[1], minimum(column, extents[1])), width)
    return arith.select(less(row, extents[0]), value(inside), value(0))
