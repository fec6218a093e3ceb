# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights that are stored row by row: sums of codes, scaled once a group.

Upstream's patterns move no factor out of a sum, and have no order of columns but the one in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.build.affine import scaled, slice_size
from tilewright.build.constants import integer, numbers, zero
from tilewright.build.index import Index, add, round_down, sub, value
from tilewright.build.loops import if_else, loop
from tilewright.build.usedef import definition
from tilewright.build.vectors import bits_as, fixed, read, write
from tilewright.build.views import slice_of
from tilewright.codegen import block_products
from tilewright.codegen.scaled_sums.along_k import write_along_k
from tilewright.codegen.scaled_sums.along_k_vectors import Ordered
from tilewright.codegen.scaled_sums.pairs import more, multiplier, quicker
from tilewright.codegen.scaled_sums.quantized import Multiplier
from tilewright.codegen.scaled_sums.registers import as_floats, pieces, sorted_
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf, vector
from tilewright.payload.prologues import OWN_BATCH
from tilewright.schedules.decisions import ScaledSums
from tilewright.schedules.models import codes as codes_of
from tilewright.schedules.models import scaled_blocks
from tilewright.schedules.models.scaled_blocks import BYTE_VECTORS
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_GAP = 48
"""Elements by which a row of sums is longer than needed: three cache lines, so that rows lie in different sets."""
_BYTES = 64
"""Zero points that are looked at at once."""
_STEPS_AHEAD, _INTO_L2 = 2, 2
"""Steps along K by which codes are asked for, and into which cache. Measured on Zen 4, i4 by one row of bf16, 4096 x 4096 and
14336 x 4096, in GB/s of 29: without 10 and 15; one step ahead into L1 12 and 18, into L2 22 and 23; two steps into L2 23 and 24."""


def require(spec: MatmulSpec, target: Target, decision: ScaledSums) -> None:
    """Raises `ScheduleError` where `spec` is no such product, or not in blocks of these sizes."""
    scaled_blocks.require(spec, target, decision)


def expand(function: func.FuncOp, product: ir.Operation, spec: MatmulSpec, target: Target, sizes: ScaledSums) -> None:
    """Replaces a product that `sizes` is decided for, and the prologue that makes its B, by loops as `schedules.scaled_sums` says."""
    a, made, c = list(product.operands)
    prologue = next(use.owner.operation for use in made.uses if OWN_BATCH in use.owner.operation.attributes)
    codes, *further = list(prologue.operands)[:-1]
    fill = block_products.fill_of(c, function)
    with function.context, product.location:
        with ir.InsertionPoint(product):
            if spec.b_transposed:
                write_along_k(spec, target, sizes, a, codes, further, c, fresh=fill is not None)
            else:
                _write(
                    partial(_Product, spec, sizes, a, codes, further, c, fill is not None, target),
                    spec,
                    target,
                    further,
                )
        for op in (product, prologue, definition(made), fill):
            if op is not None:
                op.erase()


def _write(product: partial[_Product], spec: MatmulSpec, target: Target, further: Sequence[ir.Value]) -> None:
    """Writes the loops; where zero points that are codes are quicker, those for them too."""
    how = codes_of.of(spec)
    assert how is not None, "the schedule has asked"
    lanes = target.lanes(spec.acc_type)
    usual = product(multiplier(how, spec.b_stored, spec.a_type, target, lanes, BYTE_VECTORS))
    found = quicker(how, spec.a_type, target, lanes)
    if found is None:
        usual.write()
        return
    quick = product(found)
    if_else(_are_codes(further[1], how), quick.write, usual.write)


def _are_codes(zeros: ir.Value, how: codes_of.Codes) -> ir.Value:
    """Whether all zero points are codes."""
    shape, i8 = ir.MemRefType(zeros.type).shape, integer(8)
    found = zero(fixed(_BYTES, i8))
    for inside, start, end in pieces(shape[-1], _BYTES):
        with loop(0, shape[0] if len(shape) > 1 else 1, 1, [found]) as (row, (outer,), rows):
            with loop(start, end, _BYTES, [outer]) as (column, (inner,), columns):
                at = [row, column] if len(shape) > 1 else [column]
                some = more(read(zeros, at, _BYTES, inside=inside), how)
                high = arith.andi(some, numbers(i8, [-16] * _BYTES))
                scf.yield_([arith.ori(inner, high)])
            scf.yield_([columns.results[0]])
        found = rows.results[0]
    every = vector.ReductionOp(i8, vector.CombiningKind.OR, found).result
    return arith.cmpi(arith.CmpIPredicate.eq, every, arith.constant(i8, 0))


@dataclass(frozen=True)
class _Tile:
    """Columns that are computed at once.

    Attributes:
        column: The first one, in C.
        own: The first one, in the strip.
        inside: Whether all of them are there.
    """

    column: Index
    own: Index
    inside: bool


class _Product:
    """The operands of a product, and how it is computed."""

    def __init__(
        self,
        spec: MatmulSpec,
        sizes: ScaledSums,
        a: ir.Value,
        codes: ir.Value,
        further: Sequence[ir.Value],
        c: ir.Value,
        fresh: bool,
        target: Target,
        by: Multiplier,
    ) -> None:
        """Takes them, and makes the buffers."""
        how = codes_of.of(spec)
        assert how is not None, "the schedule has asked"
        self._spec, self._sizes, self._how = spec, sizes, how
        self._lanes, self._columns, self._by = target.lanes(spec.acc_type), sizes.nr, by
        self._most = scaled_blocks.sums_at_once(target, sizes.mr)
        self._codes, self._c, self._fresh = codes, c, fresh
        self._scale = further[0]
        self._zero_points = further[1] if how.zero_point else None
        self._f32 = ir.F32Type.get()
        strip = -(-min(sizes.nc, spec.n) // self._columns) * self._columns
        strips = -(-spec.n // sizes.nc)
        # The sums of a strip lie side by side: the core's prefetcher runs past the end of rows, into another thread's.
        self._sums = memref.alloc(ir.MemRefType.get([strips * spec.m, strip + _GAP], self._f32), [], [])
        self._zeros: ir.Value | None = None
        if self._zero_points is not None:
            element = self._f32 if by.spread == 1 else integer(8)
            self._zeros = memref.alloc(ir.MemRefType.get([1, strips * strip * by.spread], element), [], [])
        # A is read once for each tile of columns: what is done to it is done before.
        element, per_lane, parts = (self._f32, 1, 1) if by.depth == 1 else (ir.BF16Type.get(), 2, 2)
        same = spec.a_type.name == str(element)
        width = per_lane * self._lanes
        self._made = None if same else Ordered(spec, a, width, [range(width)], element, parts)
        self._a = [a] if self._made is None else self._made.parts

    def write(self) -> None:
        """Writes the loops."""
        spec, nc = self._spec, self._sizes.nc
        if self._made is not None:
            self._made.prepare()
        if nc >= spec.n:
            self._strip(0, spec.n)
            return
        with loop(0, spec.n, nc) as (jc, _, _):
            self._strip(jc, slice_size(nc, jc, spec.n))

    def _strip(self, jc: Index, width: Index) -> None:
        """Computes `width` columns from `jc` on."""
        k = self._spec.k
        group = self._how.group
        self._width, self._start = width, jc
        self._out, self._own, self._own_zeros = self._c, self._sums, self._zeros
        if not isinstance(jc, int):  # Threads may take strips, whose slices are apart.
            m, room = self._spec.m, self._sizes.nc
            self._out = slice_of(self._c, [0, jc], [m, width])
            self._own = slice_of(self._sums, [scaled(arith.divui(jc, value(room)), m), 0], [m, room])
            if self._zeros is not None:
                spread = self._by.spread
                self._own_zeros = slice_of(self._zeros, [0, scaled(jc, spread)], [1, room * spread])
        if not group or group >= k:
            self._group(0, k, whole=k % self._sizes.kc == 0, first=True)
            return
        if self._fresh:
            self._clear(self._out, exact=True)
        with loop(0, k, group) as (start, _, _):
            end = add(start, slice_size(group, start, k))
            self._group(start, end, whole=k % self._sizes.kc == 0, first=False)

    def _tiles(self, write: object) -> None:
        """Does `write` for each tile of the strip."""
        assert callable(write)
        for inside, start, end in pieces(self._width, self._columns):
            with loop(start, end, self._columns) as (j, _, _):
                write(_Tile(add(self._start, j), j, inside))

    def _clear(self, into: ir.Value, *, exact: bool) -> None:
        """Writes zeros: to columns that are there only, or to whole tiles."""
        zeros = zero(fixed(self._lanes, self._f32))

        def clear(tile: _Tile) -> None:
            with loop(0, self._spec.m, 1) as (i, _, _):
                for start in range(0, self._columns, self._lanes):
                    write(zeros, into, [i, add(tile.own, start)], inside=tile.inside or not exact)

        self._tiles(clear)

    def _group(self, start: Index, end: Index, *, whole: bool, first: bool) -> None:
        """Adds the products of rows `start` to `end` of B, which have one scale."""
        number = arith.divui(value(start), value(self._how.group)) if self._how.group else None
        self._clear(self._own, exact=False)
        if self._zero_points is not None:
            self._tiles(partial(self._keep_zeros, number))
        kc = self._sizes.kc
        rest = self._spec.k % kc
        rows = end if whole else add(start, round_down(sub(end, start), kc))
        with loop(start, rows, kc) as (k, _, _):
            self._tiles(partial(self._multiply, k, kc))
        if not whole:  # Only the last group has such rows.
            with loop(rows, end, kc) as (k, _, _):
                self._tiles(partial(self._multiply, k, rest))
        self._tiles(partial(self._finish, number, first))

    def _keep_zeros(self, number: ir.Value | None, tile: _Tile) -> None:
        """Puts the zero points of a group in the order of the sums."""
        assert self._zero_points is not None
        assert self._own_zeros is not None
        element = self._spec.further[1].type

        def of_columns(_row: int, start: int, count: int) -> ir.Value:
            return self._of_group(zeros, number, tile, start, count)

        zeros = self._zero_points
        for each, place in zip(self._by.zeros(of_columns, element), self._zero_places(tile), strict=True):
            write(each, self._own_zeros, place)

    def _zero_places(self, tile: _Tile) -> list[list[Index]]:
        """Where each register of what stands for zero points of a tile is."""
        size = self._zero_lanes
        start = tile.own if isinstance(tile.own, int) else scaled(tile.own, self._by.spread)
        return [[0, add(start, each)] for each in range(0, self._columns * self._by.spread, size)]

    @property
    def _zero_lanes(self) -> int:
        return self._lanes if self._by.spread == 1 else 4 * self._lanes

    def _of_group(self, matrix: ir.Value, number: ir.Value | None, tile: _Tile, start: int, count: int) -> ir.Value:
        """Scales or zero points of `count` columns of a tile from `start` on."""
        at = [add(tile.column, start)] if number is None else [number, add(tile.column, start)]
        return read(matrix, at, count, inside=tile.inside)

    def _multiply(self, k: Index, rows: int, tile: _Tile) -> None:
        """Adds the products of some rows of B."""
        m, mr, count = self._spec.m, self._sizes.mr, len(self._by.order)
        if tile.inside and rows == self._sizes.kc:
            self._prefetch(k, rows, tile)
        size = min(count, self._most)
        for first in range(0, m, mr):
            for begin in range(0, count, size):
                part = range(begin, min(begin + size, count))
                self._multiply_part(k, rows, tile, range(first, min(first + mr, m)), part)

    def _multiply_part(self, k: Index, rows: int, tile: _Tile, of_a: range, part: range) -> None:
        """Adds the products of some rows of B by some of A, for some registers of a tile."""
        zeros = None
        if self._own_zeros is not None:
            zeros = [read(self._own_zeros, place, self._zero_lanes) for place in self._zero_places(tile)]
        at = [[[i, add(tile.own, each * self._lanes)] for each in part] for i in of_a]
        sums = [[read(self._own, each, self._lanes) for each in row] for row in at]
        for row in range(0, rows, self._by.depth):
            codes = self._by.elements(partial(self._row, k, rows, tile), row, part, zeros)
            for place, i in enumerate(of_a):
                for a in self._a:
                    left = self._left(a, i, k, row, rows)
                    pairs = zip(sums[place], codes, strict=True)
                    sums[place] = [self._by.add(total, left, each) for total, each in pairs]
        for values, places in zip(sums, at, strict=True):
            for each, place in zip(values, places, strict=True):
                write(each, self._own, place)

    def _prefetch(self, k: Index, rows: int, tile: _Tile) -> None:
        """Asks for what comes some steps later where a tile is now: rows begin too far apart for the hardware to foresee."""
        level, never = ir.IntegerAttr.get(integer(32), _INTO_L2), ir.BoolAttr.get(False)
        for row in range(rows):
            at = [value(add(k, row + _STEPS_AHEAD * rows)), value(tile.column)]
            memref.PrefetchOp(self._codes, at, never, level, ir.BoolAttr.get(True))

    def _row(self, k: Index, rows: int, tile: _Tile, row: int, column: int, count: int) -> ir.Value:
        """Codes of a row of B; of one that is beyond the last, those of the last one, which are multiplied by zero."""
        return read(self._codes, [add(k, min(row, rows - 1)), add(tile.column, column)], count, inside=tile.inside)

    def _left(self, a: ir.Value, i: int, k: Index, row: int, rows: int) -> ir.Value:
        """Elements of A, in all lanes."""
        if self._by.depth == 1:
            one = memref.load(a, [value(i), value(add(k, row))])
            return vector.broadcast(fixed(self._lanes, self._f32), one)
        pair = bits_as(read(a, [i, add(k, row)], 2, inside=row + 2 <= rows), integer(32))
        word = vector.extract(pair, [], [0])
        return bits_as(vector.broadcast(fixed(self._lanes, integer(32)), word), ir.BF16Type.get())

    def _finish(self, number: ir.Value | None, first: bool, tile: _Tile) -> None:
        """Scales the sums of a group, and adds them to C."""
        count = len(self._by.order)
        element = self._spec.further[0].type
        scales = [
            as_floats(self._of_group(self._scale, number, tile, each * self._lanes, self._lanes), element)
            for each in range(count)
        ]
        with loop(0, self._spec.m, 1) as (i, _, _):
            places = [[i, add(tile.own, each * self._lanes)] for each in range(count)]
            sums = sorted_([read(self._own, each, self._lanes) for each in places], self._by.order)
            for value, scale, place in zip(sums, scales, places, strict=True):
                if first and self._fresh:
                    result = arith.mulf(value, scale)
                else:
                    result = vector.fma(value, scale, read(self._out, place, self._lanes, inside=tile.inside))
                write(result, self._out, place, inside=tile.inside)
