# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Columns of quantized weights along K, some far apart read at once: their loops, scales and zero points, and the results in C."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from tilewright.build.constants import integer, zero
from tilewright.build.index import Index, add, value
from tilewright.build.loops import loop
from tilewright.build.vectors import fixed, read, write
from tilewright.codegen.scaled_sums.registers import as_floats, pieces, placed
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, scf, vector
from tilewright.schedules.decisions import ScaledSums
from tilewright.schedules.models import codes as codes_of
from tilewright.schedules.models.prefetching import stream_ahead
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_INTO_L1 = 3


class Blocks(Protocol):
    """How blocks of codes are multiplied.

    Attributes:
        block: Codes of a block.
        in_order: Whether its registers have their codes in order; otherwise lane i of each has codes of part i of the block.
    """

    block: int
    in_order: bool

    def prepare(self) -> None:
        """Puts A in order, and makes tables, before all loops."""
        ...


class Streams(ABC):
    """The operands of a product, and how it is computed."""

    def __init__(
        self,
        spec: MatmulSpec,
        target: Target,
        sizes: ScaledSums,
        a: ir.Value,
        codes: ir.Value,
        further: Sequence[ir.Value],
        c: ir.Value,
        *,
        fresh: bool,
    ) -> None:
        """Takes them, and makes the buffers."""
        how = codes_of.of(spec)
        assert how is not None, "the schedule has asked"
        self._spec, self._how = spec, how
        self._lanes = target.lanes(spec.acc_type)
        self._ahead = stream_ahead(target)
        self._f32 = ir.F32Type.get()
        self._by = self._blocks(target, a)
        self._codes, self._c, self._fresh = codes, c, fresh
        self._scale, self._zero_points = further[0], further[1] if how.zero_point else None
        self._rows, self._streams = sizes.mr, sizes.nr
        self._apart = spec.n // sizes.nr
        self._sums = memref.alloc(ir.MemRefType.get([spec.m, sizes.nr, self._apart], self._f32), [], [])

    def write(self) -> None:
        """Writes the loops."""
        m, rows = self._spec.m, self._rows
        self._by.prepare()
        with loop(0, self._apart, 1) as (j, _, _):
            for first in range(0, m, rows):
                self._columns(j, range(first, min(first + rows, m)))
        self._copy()

    def _columns(self, j: ir.Value, rows: range) -> None:
        """Computes some rows of the columns that the streams are at."""
        spec, block = self._spec, self._by.block
        totals: list[ir.Value] = [zero(fixed(self._lanes, self._f32))] * (len(rows) * self._streams)
        for inside, start, end in pieces(spec.k, block):
            assert isinstance(start, int)
            if inside:
                with loop(start, end, block, totals) as (k, carried, over):
                    scf.yield_(self._block(j, k, rows, list(carried), inside=True))
                totals = [*over.results]
            else:
                totals = self._block(j, start, rows, totals, inside=False)
        for place, total in enumerate(totals):
            i, q = divmod(place, self._streams)
            self._keep(total, rows[i], q, j)

    def _keep(self, total: ir.Value, i: int, q: int, j: ir.Value) -> None:
        """Writes the sum of a vector's elements."""
        # In pairs, and not one after the other: the sums have no order to begin with.
        fast = arith.FastMathFlags.reassoc
        number = vector.ReductionOp(self._f32, vector.CombiningKind.ADD, total, fastmath=fast).result
        if not self._how.group:
            scale = memref.load(self._scale, [self._column(q, j)])
            number = arith.mulf(number, self._number(scale, 0))
        memref.store(number, self._sums, [value(i), value(q), j])

    def _column(self, q: int, j: ir.Value) -> ir.Value:
        """The column of C that stream number `q` is at."""
        return value(add(j, q * self._apart))

    def _number(self, value: ir.Value, operand: int) -> ir.Value:
        """One scale or zero point as f32."""
        found = as_floats(vector.from_elements(fixed(1, value.type), [value]), self._spec.further[operand].type)
        return vector.extract(found, [], [0])

    @abstractmethod
    def _blocks(self, target: Target, a: ir.Value) -> Blocks:
        """How blocks of codes are multiplied by A."""

    @abstractmethod
    def _block(self, j: ir.Value, k: Index, rows: range, totals: list[ir.Value], *, inside: bool) -> list[ir.Value]:
        """The totals and the products of a block of codes of each stream by some rows."""

    def _prefetch(self, k: Index, column: ir.Value) -> None:
        """Asks for codes of a column, or of those after it, that are read later."""
        at = [value(add(k, self._ahead * 8 // self._how.bits)), column]
        level, never = ir.IntegerAttr.get(integer(32), _INTO_L1), ir.BoolAttr.get(False)
        memref.PrefetchOp(self._codes, at, never, level, ir.BoolAttr.get(True))

    def _scales(self, q: int, j: ir.Value, k: Index, register: int) -> ir.Value:
        return self._of_lanes(self._scale, 0, q, j, k, register)

    def _group(self, k: Index, start: int) -> Index:
        """The number of the group of an element."""
        at = add(k, start)
        return at // self._how.group if isinstance(at, int) else arith.divui(at, value(self._how.group))

    def _of_lanes(self, matrix: ir.Value, operand: int, q: int, j: ir.Value, k: Index, register: int) -> ir.Value:
        """Scales or zero points for the lanes of a register of sums."""
        column, group, lanes = self._column(q, j), self._how.group, self._lanes
        kind = fixed(lanes, self._f32)
        start = register * lanes if self._by.in_order else 0
        spread = lanes if self._by.in_order else self._by.block
        if not group:
            return vector.broadcast(kind, self._number(memref.load(matrix, [column]), operand))
        first = self._group(k, start)
        if group >= spread:
            return vector.broadcast(kind, self._number(memref.load(matrix, [value(first), column]), operand))
        count = spread // group
        whole = -(-self._spec.k // group) % count == 0
        some = read(matrix, [first, column], count, inside=whole, along=0)
        return placed(some, self._spec.further[operand].type, [lane * count // lanes for lane in range(lanes)])

    def _copy(self) -> None:
        """Adds the sums to C, or writes them."""
        lanes = self._lanes
        for i in range(self._spec.m):
            for q in range(self._streams):
                # What is beyond the columns of a stream is zero, and those of the next one are written after it.
                for inside, start, end in pieces(self._apart, lanes):
                    with loop(start, end, lanes) as (j, _, _):
                        value = read(self._sums, [i, q, j], lanes, inside=inside)
                        at = [i, self._column(q, j)]
                        if not self._fresh:
                            value = arith.addf(value, read(self._c, at, lanes, inside=inside))
                        write(value, self._c, at, inside=inside)
