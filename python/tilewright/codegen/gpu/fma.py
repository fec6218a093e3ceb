# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every thread multiplies and adds by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Index, add, mul, value
from tilewright.build.loops import loop
from tilewright.build.usedef import retyped
from tilewright.codegen.gpu.fragments import Part, Staged
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, scf, vector
from tilewright.schedules.gpu.simt import ThreadTile

_AT_ONCE = 4
"""Steps over k that are loaded from shared memory at once."""
_UNROLLED, _CHUNK = 64, 16
"""Steps over k that are all written out, at most; and, of more, how many in each step of a loop."""
_SUM_BITS = 32


@dataclass(slots=True)
class Fma:
    """A `parts.Multiplier`: a thread has a rectangle of the tile.

    Attributes:
        sizes: The strategy's.
        least_bits: Of the narrowest integers that shared memory holds.
    """

    sizes: ThreadTile
    least_bits: int
    _at: tuple[Index, Index] = field(default=(0, 0), init=False)
    swizzles: ClassVar[bool] = False  # Threads read several pieces of a row at once.
    copies: ClassVar[bool] = False  # Not on every GPU.

    @property
    def part(self) -> Part:
        """Rows and columns side by side."""
        return Part(tuple(range(self.sizes.rows)), ((0, self.sizes.columns),))

    def origin(self, thread: ir.Value) -> tuple[Index, Index]:
        """Threads lie side by side along the rows of the tile."""
        across = value(self.sizes.bn // self.sizes.columns)
        down, right = arith.divui(thread, across), arith.remui(thread, across)
        self._at = mul(down, self.sizes.rows), mul(right, self.sizes.columns)
        return self._at

    def is_swapped(self, operand: int, element: ir.Type, neighbors: int) -> bool:
        """Never: rows of B are read along n, elements of A one by one."""
        return False

    def takes(self, operand: int, element: ir.Type) -> bool:
        """Integers as they are stored, where memory holds them: what they are widened to would have to be multiplied as if it were large.

        Floats are widened once, on the way to shared memory.
        """
        return bits_of(element) >= (self.least_bits if isinstance(element, ir.IntegerType) else _SUM_BITS)

    def multiply(self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value) -> ir.Value:
        """Multiplies and adds, a few steps over k at a time.

        Before: ``sums += tile_a * tile_b``. After, of a few columns of A and rows of B at a time::

        mine += read tile_a[rows, k:k+4] * read tile_b[k:k+4, columns]
        """
        depth = a.tile.shape[1]
        if depth <= _UNROLLED or depth % _CHUNK:
            return self._steps(op, a, b, slot, sums, 0, depth)
        # Row by row: not every dialect has vectors of two axes.
        rows = [vector.extract(sums, [], [number]) for number in range(self.sizes.rows)]
        with loop(0, depth, _CHUNK, rows) as (k, carried, over):
            made = self._steps(op, a, b, slot, _stacked(carried, sums.type), k, _CHUNK)
            scf.yield_([vector.extract(made, [], [number]) for number in range(self.sizes.rows)])
        return _stacked(over.results, sums.type)

    def _steps(
        self, op: ir.Operation, a: Staged, b: Staged, slot: Index, sums: ir.Value, first: Index, count: int
    ) -> ir.Value:
        """The sums with so many steps over k added."""
        row, column = self._at
        for step in range(0, count, _AT_ONCE):
            k, at_once = add(first, step), min(_AT_ONCE, count - step)
            left = _read(a, (slot, row, k), (self.sizes.rows, at_once))
            right = _read(b, (slot, k, column), (at_once, self.sizes.columns))
            sums = retyped(op, sums.type, (left, right, sums))
        return sums


def _stacked(rows: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """The sums that have those rows."""
    whole = zero(kind)
    for number, row in enumerate(rows):
        whole = vector.insert(row, whole, [], [number])
    return whole


def _read(staged: Staged, at: Sequence[Index], shape: Sequence[int]) -> ir.Value:
    """What a thread multiplies of a tile."""
    buffer = staged.tile.buffer
    element = ir.MemRefType(buffer.type).element_type
    axes = [ir.AffineDimExpr.get(1), ir.AffineDimExpr.get(2)]
    part = vector.TransferReadOp(
        ir.VectorType.get(shape, element),
        buffer,
        [value(each) for each in at],
        ir.AffineMapAttr.get(ir.AffineMap.get(3, 0, axes)),
        zero(element),
        [True, True],
    ).result
    for op in staged.widening:
        part = retyped(op, ir.VectorType.get(shape, ir.VectorType(op.results[0].type).element_type), (part,))
    return part
