# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rounded to 8-bit integers with a scale for each group along K, in the order in which registers have codes.

`tilewright.precision` says what numbers these are.
"""

from __future__ import annotations

import struct

from tilewright.build.constants import constant, integer
from tilewright.build.index import Index, add, div, value
from tilewright.build.loops import loop
from tilewright.build.vectors import bits_as, fixed, read, write
from tilewright.codegen.scaled_sums.code_sums import CodeSums
from tilewright.codegen.scaled_sums.registers import as_floats, pieces
from tilewright.codegen.scaled_sums.transposed import joined
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector
from tilewright.precision import LEAST_ROUNDED, ROUNDED_TO
from tilewright.spec import MatmulSpec

_GAP = 64
"""Bytes by which a row is longer than needed, so that rows lie in different sets of the cache."""
_MAGIC = 1.5 * 2.0**23
"""A number plus this one is rounded to an integer, ties to even, which its lowest bits hold."""
_SIZE = 0x7FFFFFFF
"""The bits of a magnitude: as integers, these have the order of the magnitudes, and NaN is the largest."""


class Rounded:
    """A as integers, with scales, and sums of these integers times the offset of codes.

    Attributes:
        chunk: Elements along K that are rounded at once: whole groups, and whole units of the order.
        numbers: The integers, M x K.
        scales: By lanes, those of a chunk for each lane of a register of sums; otherwise one for each group.
        sums: Sums of integers, for the lanes or groups likewise; None where the offset is 0, and there is no operand of zero points.
            By lanes, without such an operand, these are integers, negative, from which sums of products start.
    """

    def __init__(
        self, spec: MatmulSpec, a: ir.Value, group: int, by: CodeSums, lanes: int, *, in_lanes: bool, zeros: bool
    ) -> None:
        """Makes the buffers."""
        self._spec, self._a, self._group, self._by, self._lanes, self._in_lanes = spec, a, group, by, lanes, in_lanes
        self._factor = 1 if zeros else by.offset
        self._are_starts = in_lanes and not zeros
        unit = by.block if in_lanes else by.in_word
        self.chunk = max(unit, group)
        order = [number for register in by.order for number in register]
        if not in_lanes:
            order = [number for way in range(by.ways) for number in range(way, unit, by.ways)]
        self._order = order
        f32 = self._f32 = ir.F32Type.get()
        chunks = -(-spec.k // self.chunk)
        each = lanes if in_lanes else self.chunk // group
        self.numbers = memref.alloc(ir.MemRefType.get([spec.m, chunks * self.chunk + _GAP], integer(8)), [], [])
        kind = ir.MemRefType.get([spec.m, chunks * each], f32)
        self.scales = memref.alloc(kind, [], [])
        sums = ir.MemRefType.get([spec.m, chunks * each], integer(32)) if self._are_starts else kind
        self.sums = memref.alloc(sums, [], []) if self._factor else None

    def prepare(self) -> None:
        """Fills the buffers; beyond K with zeros."""
        with loop(0, self._spec.m, 1) as (i, _, _):
            for inside, start, end in pieces(self._spec.k, self.chunk):
                with loop(start, end, self.chunk) as (k, _, _):
                    self._chunk(i, k, inside=inside)

    def _chunk(self, i: ir.Value, k: ir.Value, *, inside: bool) -> None:
        made: list[ir.Value] = []
        scales: list[ir.Value] = []
        for start in range(0, self.chunk, self._group):
            some, scale = self._of_group(i, add(k, start), inside=inside)
            made += some
            scales.append(scale)
        size = max(len(self._order), self._lanes)
        order = [
            start + each for start in range(0, size, len(self._order)) for each in self._order
        ]  # Of as many units as a register has.
        per = size // self._lanes
        for number in range(0, len(made), per):
            whole = joined(made[number : number + per])
            if order != [*range(size)]:
                whole = vector.shuffle(whole, whole, order)
            write(whole, self.numbers, [i, add(k, number * self._lanes)])
        self._keep_scales(i, k, scales)
        if self.sums is not None:
            self._keep_sums(i, k, self.sums)

    def _of_group(self, i: ir.Value, k: Index, *, inside: bool) -> tuple[list[ir.Value], ir.Value]:
        """The integers of a group, a register of sums at a time, and their scale."""
        lanes, f32, i32 = self._lanes, self._f32, integer(32)
        words, floats = fixed(lanes, i32), fixed(lanes, f32)
        values = [
            as_floats(read(self._a, [i, add(k, at)], lanes, inside=inside), self._spec.a_type)
            for at in range(0, self._group, lanes)
        ]
        sizes = [arith.andi(bits_as(each, i32), constant(words, _SIZE)) for each in values]
        while len(sizes) > 1:
            sizes = [arith.maxsi(x, y) for x, y in zip(sizes[::2], sizes[1::2], strict=True)]
        most = arith.bitcast(f32, vector.ReductionOp(i32, vector.CombiningKind.MAXSI, sizes[0]).result)
        scale = arith.mulf(most, constant(f32, _f32(1 / ROUNDED_TO)))
        small = arith.cmpf(arith.CmpFPredicate.OLT, most, constant(f32, LEAST_ROUNDED))
        inverse = arith.select(small, constant(f32, 0.0), arith.divf(constant(f32, float(ROUNDED_TO)), most))
        times, magic = vector.broadcast(floats, inverse), constant(floats, _MAGIC)
        found = [bits_as(vector.fma(each, times, magic), i32) for each in values]
        return [arith.trunci(fixed(lanes, integer(8)), each) for each in found], scale

    def _keep_scales(self, i: ir.Value, k: ir.Value, scales: list[ir.Value]) -> None:
        lanes, count = self._lanes, len(scales)
        if not self._in_lanes:
            for number, scale in enumerate(scales):
                memref.store(scale, self.scales, [i, value(add(div(k, self._group), number))])
            return
        some = vector.from_elements(fixed(count, self._f32), scales)
        spread = vector.shuffle(some, some, [lane * count // lanes for lane in range(lanes)])
        write(spread, self.scales, [i, self.place(k)])

    def _keep_sums(self, i: ir.Value, k: ir.Value, into: ir.Value) -> None:
        step = self.chunk if self._in_lanes else self._group
        for start in range(0, self.chunk, step):
            held = total = None
            size = min(self._by.bytes, step)
            for number, at in enumerate(range(start, start + step, size)):
                if number and number % self._by.at_once == 0:
                    total, held = self._by.whole(_known(held), total), None
                # Of a group that is less than a register, the rest is zero.
                bytes_ = _widened(read(self.numbers, [i, add(k, at)], size), self._by.bytes)
                held = self._by.of_ones(bytes_, held)
            total = self._by.whole(_known(held), total)
            if self._are_starts:
                starts = arith.muli(total, constant(total.type, -self._factor))
                write(starts, into, [i, self.place(k)])
                continue
            lanes = arith.sitofp(fixed(self._lanes, self._f32), total)
            if self._factor != 1:
                lanes = arith.mulf(lanes, constant(lanes.type, float(self._factor)))
            if self._in_lanes:
                write(lanes, into, [i, self.place(k)])
                continue
            sum_ = vector.ReductionOp(
                self._f32, vector.CombiningKind.ADD, lanes, fastmath=arith.FastMathFlags.reassoc
            ).result
            memref.store(sum_, into, [i, value(add(div(k, self._group), start // self._group))])

    def place(self, k: Index) -> Index:
        """Where a chunk has its lanes of scales and sums."""
        chunk = div(k, self.chunk)
        return chunk * self._lanes if isinstance(chunk, int) else arith.muli(chunk, value(self._lanes))


def _known(held: ir.Value | None) -> ir.Value:
    assert held is not None
    return held


def _widened(some: ir.Value, lanes: int) -> ir.Value:
    """A vector with zeros after its elements."""
    count = ir.VectorType(some.type).shape[0]
    if count == lanes:
        return some
    zeros = constant(some.type, 0)
    return vector.shuffle(some, zeros, [min(lane, count) for lane in range(lanes)])


def _f32(number: float) -> float:
    """The nearest number of f32."""
    return struct.unpack("<f", struct.pack("<f", number))[0]
