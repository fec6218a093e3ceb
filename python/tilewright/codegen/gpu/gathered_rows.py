# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of A that are taken from a table, by their numbers.

No vector can be read from the table as it lies. So the payload reads it as if it were A, and the threads look where each row really
is: a block brings the numbers of its rows to shared memory once, and every piece of A is then read, or copied ahead of time, from
the row whose number stands there.

Before: ``a[i, k] = table[index[i], k]`` in a prologue. After: ``table[i, k]``, and in each thread::

    numbers[i] = index[first row of the block + i], or none beyond the last one;  barrier
    for k: ... table[numbers[i], k] ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tilewright.build.index import Index, add, less, minimum, sub, value
from tilewright.build.loops import when
from tilewright.build.usedef import defined_by, operations
from tilewright.codegen.gpu import scattered, staging
from tilewright.entries import Epilogue
from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, gpu, memref
from tilewright.payload.prologues import OWN_BATCH
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

TABLE, _INDEX = 0, 2
"""The numbers of two operands: the table stands for A, the rows' numbers are the first one after B."""
_WORD_BITS = 32
_NONE = -1
"""Stands for the number of a row that there is not: above all others, where numbers have no sign."""


def read_as_a(spec: MatmulSpec, target: GpuTarget) -> MatmulSpec:
    """The spec of a payload that reads the table as if it were A, and no row's number; those are words where there is nothing else."""
    entry, *others = spec.prologue_a
    words = target.least_bits == _WORD_BITS
    operands = tuple(replace(each, type="i32") if words else each for each in entry.operands)
    plain = Epilogue(entry.name, operands, entry.program)
    return replace(spec, prologue_a=(plain, *others))


def drop_prologue(module: ir.Module) -> None:
    """Drops the op that makes of A what it is, where it only gathers rows."""
    (made,) = (op for op in operations(module.operation) if OWN_BATCH in op.attributes and _matrix(op) == TABLE)
    made.results[0].replace_all_uses_with(made.operands[0])
    made.erase()


def _matrix(op: ir.Operation) -> int:
    """The number of the operand of which a prologue's op makes something."""
    return ir.BlockArgument(op.operands[0]).arg_number


@dataclass(frozen=True, slots=True)
class Numbers:
    """A `scattered.Scattered`: the numbers of the rows that a block multiplies.

    Attributes:
        table: The table.
        buffer: Their memory.
    """

    table: ir.Value
    buffer: ir.Value

    def is_whole(self, width: int) -> bool:
        """Always: elements of a row are neighbors in the table."""
        return True

    def source(self, view: ir.Value, of: scattered.Of, extents: Sequence[Index]) -> scattered.Pieces:
        """What a block's view of A stands for."""
        return Gathered(self, scattered.start(view, 1, of), extents[1])


@dataclass(frozen=True, slots=True)
class Gathered:
    """A `scattered.Pieces`: rows of a table.

    Attributes:
        numbers: Their numbers.
        column: The first column.
        columns: How many columns there are from there on.
    """

    numbers: Numbers
    column: Index
    columns: Index

    @property
    def across(self) -> int:
        """Elements of a row are neighbors: no table is stored transposed."""
        return 1

    def place(self, outer: Index, inner: Index, width: int) -> tuple[ir.Value, list[ir.Value]]:
        """The table, and where in it a piece of the tile is."""
        table = self.numbers.table
        row = staging.least(self._row(outer), sub(memref.dim(table, value(0)), 1))
        column = staging.least(add(self.column, inner), sub(add(self.column, self.columns), width))
        return table, [value(row), value(column)]

    def exists(self, outer: Index, inner: Index) -> ir.Value:
        """Whether the table has the row of a row of the tile, and the view such a column."""
        known = less(self._row(outer), memref.dim(self.numbers.table, value(0)))
        return arith.andi(known, less(inner, self.columns))

    def copy(self, tile: staging.Tile, slot: Index, outer: Index, inner: Index, width: int) -> None:
        """Begins a copy of as many neighbors as are inside to the same place of a slot; the rest becomes zero."""
        table, row = self.numbers.table, self._row(outer)
        count = memref.dim(table, value(0))
        inside = minimum(sub(self.columns, minimum(inner, self.columns)), width)
        some = arith.select(less(row, count), value(inside), value(0))
        at = minimum(row, sub(count, 1)), add(self.column, inner)
        staging.begin_copy(table, at, tile, tile.of_rows(slot, outer, inner), width, some)

    def _row(self, outer: Index) -> ir.Value:
        number = memref.load(self.numbers.buffer, [value(outer)])
        return arith.index_cast(ir.IndexType.get(), number)


def bring(
    view: ir.Value, of: scattered.Of, count: int, team: staging.Team, meet: Callable[[], object] = gpu.barrier
) -> Numbers:
    """Brings the numbers of a block's rows to shared memory; threads meet then.

    Args:
        view: What the block reads as A.
        of: Gives the value of a thread for one of the block.
        count: How many rows its tile has.
        team: The threads.
        meet: Has them meet.
    """
    table, first = _root(view), scattered.start(view, 0, of)
    arguments = ir.BlockArgument(table).owner.arguments
    if arguments[TABLE] != table:
        raise LoweringError("rows of something else than A are gathered", stage="threads")
    index = arguments[_INDEX]
    word = ir.IntegerType.get_signless(_WORD_BITS)
    space = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), staging.SHARED)
    buffer = memref.alloc(ir.MemRefType.get([count], word, memory_space=space), [], [])
    rows_ = memref.dim(index, value(0))
    for start in range(0, count, team.count):
        own = add(team.thread, start)
        with when(less(own, count)):
            place = add(first, own)
            number = arith.index_cast(ir.IndexType.get(), memref.load(index, [value(minimum(place, sub(rows_, 1)))]))
            known = arith.andi(less(place, rows_), less(number, memref.dim(table, value(0))))
            number = arith.select(known, arith.index_cast(word, number), arith.constant(word, _NONE))
            memref.store(number, buffer, [value(own)])
    meet()
    return Numbers(table, buffer)


def _root(view: ir.Value) -> ir.Value:
    """The operand that a view is of."""
    subview = defined_by(view, "memref.subview")
    return view if subview is None else _root(subview.operands[0])
