# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products by quantized weights along K of A rounded to 8-bit integers, in vectors along K: integer sums, scaled once a group."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import constant, integer
from tilewright.build.index import Index, add
from tilewright.build.vectors import bits_as, fixed, read
from tilewright.codegen.scaled_sums.code_sums import CodeSums
from tilewright.codegen.scaled_sums.rounded import Rounded
from tilewright.codegen.scaled_sums.streams import Streams
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.precision import rounded_group
from tilewright.schedules.models.codes import Codes
from tilewright.schedules.models.scaled_blocks import code_dot_of
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


class _Chunks:
    """Chunks of codes: whole registers that have one scale, or one register of some groups."""

    in_order = False

    def __init__(self, how: Codes, spec: MatmulSpec, target: Target, a: ir.Value) -> None:
        dot, lanes = code_dot_of(spec, target), target.lanes(spec.acc_type)
        assert dot is not None, "the model has asked"
        self.by = CodeSums(how, dot, lanes)
        zeros, group = how.zero_point is not None, rounded_group(how.group)
        self.a = Rounded(spec, a, group, self.by, lanes, in_lanes=True, zeros=zeros)
        self.block = self.a.chunk

    def prepare(self) -> None:
        self.a.prepare()


class RoundedAlongK(Streams):
    """The operands of a product, and how it is computed."""

    def _blocks(self, target: Target, a: ir.Value) -> _Chunks:
        self._chunks = _Chunks(self._how, self._spec, target, a)
        return self._chunks

    def _block(self, j: ir.Value, k: Index, rows: range, totals: list[ir.Value], *, inside: bool) -> list[ir.Value]:
        """The totals and the products of a chunk of codes of each stream by some rows."""
        streams = range(self._streams)
        codes = [self._bytes(q, j, k, inside=inside) for q in streams]
        scales = [self._scales(q, j, k, 0) if self._how.group else None for q in streams]
        zeros = [self._zeros(q, j, k) for q in streams]
        for i, row in enumerate(rows):
            rounded = self._numbers(row, k, len(codes[0]))
            place = [row, self._chunks.a.place(k)]
            own = read(self._chunks.a.scales, place, self._lanes)
            sums = None if self._chunks.a.sums is None else read(self._chunks.a.sums, place, self._lanes)
            for q in streams:
                zero_points = zeros[q]
                found = self._sum(codes[q], rounded, sums if zero_points is None else None)
                if zero_points is not None:
                    assert sums is not None
                    found = vector.fma(zero_points, sums, found)
                at, scale = i * self._streams + q, scales[q]
                if scale is None:
                    totals[at] = vector.fma(found, own, totals[at])
                else:
                    totals[at] = vector.fma(arith.mulf(found, own), scale, totals[at])
        return totals

    def _bytes(self, q: int, j: ir.Value, k: Index, *, inside: bool) -> list[ir.Value]:
        """The bytes of a chunk of a column."""
        column, size = self._column(q, j), self._chunks.by.block
        if inside:
            self._prefetch(k, column)
        starts = range(0, self._chunks.block, size)
        found = [read(self._codes, [add(k, at), column], size, inside=inside, along=0) for at in starts]
        return [each for some in found for each in self._chunks.by.of(bits_as(some, integer(8)))]

    def _numbers(self, row: int, k: Index, count: int) -> list[ir.Value]:
        """The integers of a row for these bytes."""
        size = self._chunks.by.bytes
        return [read(self._chunks.a.numbers, [row, add(k, number * size)], size) for number in range(count)]

    def _sum(self, codes: Sequence[ir.Value], rounded: Sequence[ir.Value], first: ir.Value | None) -> ir.Value:
        """Sums of products, and what they start from, if anything, as f32."""
        by = self._chunks.by
        held, total = (first, None) if by.is_exact else (None, first)
        for start in range(0, len(codes), by.at_once):
            held = held if start == 0 else None
            for left, right in zip(codes[start : start + by.at_once], rounded[start:], strict=False):
                held = by.add(held, left, right)
            assert held is not None
            total = by.whole(held, total)
        assert total is not None
        return arith.sitofp(fixed(self._lanes, self._f32), total)

    def _zeros(self, q: int, j: ir.Value, k: Index) -> ir.Value | None:
        """What sums of A are multiplied by, for an operand of zero points."""
        if self._zero_points is None:
            return None
        points = self._of_lanes(self._zero_points, 1, q, j, k, 0)
        return arith.subf(constant(points.type, -float(self._chunks.by.offset)), points)
