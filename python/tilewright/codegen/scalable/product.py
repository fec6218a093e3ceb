# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products on vectors whose length only the machine knows: panels as wide as its registers, and tiles of whole registers.

The schedule says which blocks of a product there are (strategy `scalable`), and this is what becomes of one block. A panel of B has
as many columns as the register tile, ``NR = v * lanes * vscale``, so its layout is decided when the code runs; its buffer has room
for the longest vectors. Rows and columns that fill no tile are read and written under predicates; no loop is scalar.

Upstream vectorizes a tile of scalable size, and has no packing of such panels, no products by lane or of groups of elements, and
no sums that stay in the order of the mmla instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.build.affine import slice_size
from tilewright.build.index import Index, add, less, mul, value
from tilewright.build.loops import if_else, loop
from tilewright.build.views import slice_of
from tilewright.codegen import block_products
from tilewright.codegen.scalable.panels import pack_a, pack_b
from tilewright.codegen.scalable.tile import Sums, Tile
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, vector
from tilewright.schedules.decisions import ScalableTiles
from tilewright.schedules.models import scalable_blocks
from tilewright.spec import MatmulSpec
from tilewright.targets.base import SCALABLE_BITS, Target


def require(spec: MatmulSpec, target: Target, decision: ScalableTiles) -> None:
    """Raises `ScheduleError` where `target` or `spec` has no such products, or a register tile is no whole number of registers."""
    scalable_blocks.require(spec, target, decision)


def expand(
    function: func.FuncOp, product: ir.Operation, spec: MatmulSpec, target: Target, sizes: ScalableTiles
) -> None:
    """Replaces a product of a bufferized function that `sizes` is decided for, whose slices `block_products.HOIST` has moved.

    Before: ``C += A * B`` on blocks. After, with NR columns in a register tile, and each block packed where it begins to exist::

        for jr in 0..n step NR: packed_b[jr / NR][k][NR] = B[:, jr:jr+NR]
        for ir in 0..m step mr: packed_a[ir / mr][k][mr] = A[ir:ir+mr, :]
        for jr in 0..n step NR:
          for ir in 0..m step mr:
            acc = 0, or C[ir:ir+mr, jr:jr+NR] in all but the first block of K           (under predicates)
            for kk in 0..k step t: acc += packed_a[ir / mr][kk:kk+t] * packed_b[jr / NR][kk:kk+t]
            C[ir:ir+mr, jr:jr+NR] = acc                                                 (under predicates)
    """
    dot = target.scalable_dot(spec.a_type.name, spec.b_type.name)
    assert dot is not None, "`require` has asked"
    tile = Tile(spec, dot, sizes.mr, sizes.nr)
    a, b, c = list(product.operands)
    with function.context, product.location:
        c = block_products.static(c, function, [sizes.mc, sizes.nc])
        kc = -(-sizes.kc // dot.step) * dot.step
        rows = -(-sizes.mc // tile.rows) * tile.rows
        longest = SCALABLE_BITS[1] // target.scalable_unit
        columns = sizes.nc + tile.across * tile.lanes * longest
        with ir.InsertionPoint.at_block_begin(function.entry_block):
            to_a, to_b = (
                memref.alloc(ir.MemRefType.get([count], element), [], [])
                for count, element in ((rows * kc, tile.panel_element), (columns * kc // dot.depth, tile.word))
            )
        with block_products.behind(a, to_a):
            pack_a(tile, a, to_a, kc)
        with block_products.behind(b, to_b):
            pack_b(tile, b, to_b)
        fill = block_products.fill_of(c, function)
        with ir.InsertionPoint(product):
            first = None if fill is None else block_products.first_step(product, c, fill)
            _Block(tile, to_a, to_b, c, kc, fresh=fill is not None, first=first).multiply(block_products.extent(a, 1))
        product.erase()
        if fill is not None:
            fill.erase()


@dataclass(frozen=True)
class _Place:
    """Where a tile is written.

    Attributes:
        rows: The rows of C that it has.
        exist: How many they are.
        column: The column that it starts with.
        columns: How many columns C has.
    """

    rows: ir.Value
    exist: Index
    column: ir.Value
    columns: Index


@dataclass(frozen=True)
class _Block:
    """A block of C, and the panels of which it is the product.

    Attributes:
        tile: The register tile.
        a: Panels of A.
        b: Panels of B.
        c: The block.
        depth: Elements along K of a panel of A, with room for the longest block.
        fresh: Whether nothing is in the block before the first step over K.
        first: Whether this is that step; None: it is, if the block is fresh.
    """

    tile: Tile
    a: ir.Value
    b: ir.Value
    c: ir.Value
    depth: int
    fresh: bool
    first: ir.Value | None

    def multiply(self, k: Index) -> None:
        """Computes the block from panels of `k` elements along K."""
        tile = self.tile
        m, n = (block_products.extent(self.c, d) for d in (0, 1))
        k = value(tile.padded(k))
        columns = tile.columns()
        # Made outside of the loop over columns: threads share the one over rows.
        rows = [value(each) for each in (0, m, tile.rows)]
        with loop(0, n, columns) as (jr, _, _):
            masks = tile.masks(jr, n)
            with loop(*rows) as (row, _, _):
                exist = slice_size(tile.rows, row, m)
                place = _Place(slice_of(self.c, [row, 0], [exist, n]), exist, jr, n)
                starts = mul(row, self.depth), mul(jr, tile.groups_in(k))
                former = self._former(place, masks)
                self._write(tile.sums(self.a, starts[0], self.b, starts[1], k, columns, former), place, masks)

    def _former(self, place: _Place, masks: list[ir.Value]) -> Sums:
        """The sums that the products are added to: zeros in the first step over K, where nothing was before."""
        tile = self.tile
        zeros = [[tile.zeros()] * tile.across] * tile.rows
        if self.first is None:
            return zeros if self.fresh else self._read(place, masks)
        kinds = [zeros[0][0].type] * (tile.across * tile.rows)

        def flat(sums: Sums) -> list[ir.Value]:
            return [each for of_row in sums for each in of_row]

        found = if_else(self.first, lambda: flat(zeros), lambda: flat(self._read(place, masks)), kinds)
        return [found[i * tile.across : (i + 1) * tile.across] for i in range(tile.rows)]

    def _read(self, place: _Place, masks: list[ir.Value]) -> Sums:
        """A tile of C; rows that do not exist are like the last one."""
        tile, last = self.tile, value(add(place.exist, -1))
        kind, zeros = tile.zeros().type, tile.zeros()
        rows = [value(i) if place.exist == tile.rows else arith.minui(value(i), last) for i in range(tile.rows)]
        return [
            [
                vector.maskedload(kind, place.rows, [row, self._at(place, x)], mask, zeros)
                for x, mask in enumerate(masks)
            ]
            for row in rows
        ]

    def _at(self, place: _Place, x: int) -> ir.Value:
        """The column of C where register number `x` of a row starts."""
        return value(add(place.column, self.tile.offset(x)))

    def _write(self, sums: Sums, place: _Place, masks: list[ir.Value]) -> None:
        """Writes a tile's sums; rows that do not exist under predicates that are false."""
        tile = self.tile
        if place.exist == tile.rows:
            self._write_rows(sums, place, [masks] * tile.rows)
            return
        whole = arith.cmpi(arith.CmpIPredicate.eq, value(place.exist), value(tile.rows))

        def write_some() -> None:
            none, all_ = value(0), value(place.columns)
            limits = [arith.select(less(i, place.exist), all_, none) for i in range(tile.rows)]
            self._write_rows(sums, place, [tile.masks(place.column, limit) for limit in limits])

        if_else(whole, lambda: self._write_rows(sums, place, [masks] * tile.rows), write_some)

    def _write_rows(self, sums: Sums, place: _Place, masks: list[list[ir.Value]]) -> None:
        for i, (values, of_row) in enumerate(zip(sums, masks, strict=True)):
            for x, (each, mask) in enumerate(zip(values, of_row, strict=True)):
                vector.maskedstore(place.rows, [value(i), self._at(place, x)], mask, each)
