# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products on vectors whose length only the machine knows: panels as wide as its registers, and tiles of whole registers.

The schedule says which blocks of a product there are (strategy `scalable`), and this is what becomes of one block. A panel of B has
as many columns as the register tile, ``NR = v * lanes * vscale``, so its layout is decided when the code runs; its buffer has room
for the longest vectors. Rows and columns that fill no tile are read and written under predicates; no loop is scalar.

Upstream vectorises a tile of scalable size, and has no packing of such panels, no products by lane or of groups of elements, and
no sums that stay in the order of the mmla instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.lowering import uses
from tilewright.lowering.scalable_panels import Panels, pack_a, pack_b
from tilewright.lowering.scalable_tile import Tile
from tilewright.lowering.scalable_vectors import branch, is_less, loop, plus, times, value_of
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf, vector
from tilewright.schedules.scalable import SIZES
from tilewright.spec import MatmulSpec
from tilewright.targets.base import SCALABLE_BITS, Target

_LONGEST = SCALABLE_BITS[1] // SCALABLE_BITS[0]
"""The largest vscale."""


def expand(function: func.FuncOp, spec: MatmulSpec, target: Target) -> None:
    """Replaces each product that strategy `scalable` has marked.

    Before: ``C += A * B`` on blocks. After, with NR columns in a register tile::

        for jr in 0..n step NR: packed_b[jr / NR][k][NR] = B[:, jr:jr+NR]       (outside of loops that B does not depend on)
        for ir in 0..m step mr: packed_a[ir / mr][k][mr] = A[ir:ir+mr, :]
        for jr in 0..n step NR:
          for ir in 0..m step mr:
            acc = 0
            for kk in 0..k step t: acc += packed_a[ir / mr][kk:kk+t] * packed_b[jr / NR][kk:kk+t]
            C[ir:ir+mr, jr:jr+NR] = acc, or C + acc in all but the first block of K     (under predicates)
    """
    marked = [op for op in uses.in_order(function.operation) if SIZES in op.attributes]
    for op in marked:
        with function.context, op.location:
            _Block(function, op, spec, target).expand()


@dataclass(frozen=True)
class _Fill:
    """Zeros that C is filled with before its sums.

    Attributes:
        op: The op that fills.
        loops: The loops around the product that go through K: in their first step C is zero.
    """

    op: ir.Operation
    loops: tuple[scf.ForOp, ...]


class _Block:
    """One product of blocks that is to be replaced."""

    def __init__(self, function: func.FuncOp, op: ir.Operation, spec: MatmulSpec, target: Target) -> None:
        self._function, self._op = function, op
        self._a, self._b, self._c = op.operands
        mr, nr, mc, nc, kc = ir.DenseI64ArrayAttr(op.attributes[SIZES])
        self._tile = Tile(spec, target.scalable_dot(spec.a_type.name, spec.b_type.name), mr, nr)
        self._most = mc, nc, kc

    def expand(self) -> None:
        mc, nc, kc = self._most
        tile, panels = self._tile, Panels(self._tile)
        with ir.InsertionPoint.at_block_begin(self._function.entry_block):
            to_a = self._buffer(panels.a_elements(mc, kc), tile.panel_element)
            to_b = self._buffer(panels.b_words(nc + nr_most(tile), kc), tile.word)
        before = self._op
        for around in list(uses.upwards(self._op))[1:]:
            if _depends(self._b, around):
                break
            if around.name == "scf.for":
                before = around
        with ir.InsertionPoint(before):
            pack_b(tile, self._b, to_b, columns=self._tile.columns())
        fill = self._fill()
        with ir.InsertionPoint(self._op):
            pack_a(tile, self._a, to_a)
            self._multiply(to_a, to_b, fill)
        self._op.erase()
        if fill is not None:
            fill.op.erase()

    def _buffer(self, elements: int, element: ir.Type) -> ir.Value:
        return memref.alloc(ir.MemRefType.get([elements], element), [], [], alignment=64)

    def _multiply(self, a: ir.Value, b: ir.Value, fill: _Fill | None) -> None:
        tile = self._tile
        m, n = (memref.dim(self._c, value_of(d)) for d in (0, 1))
        k = tile.padded(memref.dim(self._a, value_of(1)))
        columns = tile.columns()
        first = None if fill is None else _are_first(fill.loops)
        with loop(0, n, columns) as (jr, _, _):
            masks = tile.masks(jr, n)
            with loop(0, m, tile.rows) as (ir_, _, _):
                sums = tile.sums(a, times(ir_, k), b, times(jr, tile.groups_in(k)), k, columns)
                self._write(sums, ir_, jr, m, n, masks, first)

    def _write(
        self,
        sums: list[list[ir.Value]],
        row: ir.Value,
        column: ir.Value,
        m: ir.Value,
        n: ir.Value,
        masks: list[ir.Value],
        first: ir.Value | bool | None,
    ) -> None:
        """Writes a tile's sums; with `first` false, or none, adds them to what is in C."""
        tile = self._tile
        whole = arith.cmpi(arith.CmpIPredicate.ule, value_of(plus(row, tile.rows)), m)
        branched = scf.IfOp(whole, has_else=True)
        with branch(branched):
            self._write_rows(sums, row, column, [masks] * tile.rows, first)
        with branch(branched, otherwise=True):
            limits = [arith.select(is_less(plus(row, i), m), n, value_of(0)) for i in range(tile.rows)]
            self._write_rows(sums, row, column, [tile.masks(column, limit) for limit in limits], first)

    def _write_rows(
        self,
        sums: list[list[ir.Value]],
        row: ir.Value,
        column: ir.Value,
        masks: list[list[ir.Value]],
        first: ir.Value | bool | None,
    ) -> None:
        if isinstance(first, ir.Value):
            branched = scf.IfOp(first, has_else=True)
            with branch(branched):
                self._write_rows(sums, row, column, masks, True)
            with branch(branched, otherwise=True):
                self._write_rows(sums, row, column, masks, None)
            return
        tile = self._tile
        for i, (values, of_row) in enumerate(zip(sums, masks, strict=True)):
            for x, (value, mask) in enumerate(zip(values, of_row, strict=True)):
                at = [value_of(plus(row, i)), value_of(plus(column, tile.offset(x)))]
                if first is None:
                    value = tile.add(vector.maskedload(value.type, self._c, at, mask, tile.zeros()), value)
                vector.maskedstore(self._c, at, mask, value)

    def _fill(self) -> _Fill | None:
        """The op that fills C with zeros before the product, and the loops between the two over which C stays."""
        root = _root(self._c)
        around = list(uses.upwards(self._op))
        for op in uses.in_order(self._function.operation):
            if op.name != "linalg.fill" or _root(op.operands[1]) != root:
                continue
            between = [each for each in around[1:] if each.name == "scf.for" and not _contains(each, op)]
            return _Fill(op, tuple(each.opview for each in between if not _depends(self._c, each)))
        return None


def nr_most(tile: Tile) -> int:
    """Columns of a register tile of the longest vectors."""
    return tile.across * tile.lanes * _LONGEST


def _are_first(loops: tuple[scf.ForOp, ...]) -> ir.Value | bool:
    """Whether each of the loops is in its first step."""
    first: ir.Value | bool = True
    for each in loops:
        here = arith.cmpi(arith.CmpIPredicate.eq, each.induction_variable, each.lowerBound)
        first = here if first is True else arith.andi(first, here)
    return first


def _root(buffer: ir.Value) -> ir.Value:
    """The buffer that `buffer` is a view of."""
    while isinstance(buffer.owner, ir.Operation) and buffer.owner.name in uses.VIEWS:
        buffer = buffer.owner.operands[0]
    return buffer


def _contains(outer: ir.Operation, op: ir.Operation) -> bool:
    return any(each == outer for each in uses.upwards(op))


def _depends(value: ir.Value, loop_: ir.Operation) -> bool:
    """Whether `value` comes from what changes in a loop."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return owner.owner.operation == loop_
    return _contains(loop_, owner.operation) and any(_depends(each, loop_) for each in owner.operation.operands)
