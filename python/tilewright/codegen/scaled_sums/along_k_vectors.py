# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of codes along K in registers, and A in the order that they have there.

An f16 is the sum of two numbers of bf16, exactly: where an instruction multiplies those, it does so twice, which takes less than
converting codes to f32 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol, cast

from tilewright.build.constants import integer, numbers, zero
from tilewright.build.index import Index, add, value
from tilewright.build.loops import loop
from tilewright.build.vectors import bits_as, fixed, intrinsic, read, write
from tilewright.codegen.scaled_sums.byte_tables import ByteTables, byte_tables
from tilewright.codegen.scaled_sums.quantized import Bytes, Read, Tables, Words
from tilewright.codegen.scaled_sums.registers import Order, as_floats, inverse, pieces, sorted_
from tilewright.codegen.scaled_sums.streams import Blocks
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector
from tilewright.schedules.models.codes import Codes
from tilewright.schedules.models.scaled_blocks import BYTE_VECTORS
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.dots import Dot
from tilewright.targets.lookups import lookup

Zeros = ir.Value | Sequence[ir.Value] | None
"""A zero point for a block, or as f32 for each lane of its registers of sums."""
_CODES = 16


class Along(Blocks, Protocol):
    """How blocks of codes are multiplied as floats.

    Attributes:
        registers: Registers that a block is multiplied in.
        one_zero: Whether it takes the zero point of a whole block.
    """

    registers: int
    one_zero: bool

    def elements(self, codes: Read, zeros: Zeros) -> list[Sequence[ir.Value]]:
        """What stands for the codes of a block, less their zero points: for each register what `lefts` tells by number."""
        ...

    def lefts(self, i: int, k: Index, register: int) -> Iterator[tuple[ir.Value, int]]:
        """What stands for a row of A from `k` on, and by which of `elements` it is multiplied."""
        ...

    def add(self, total: ir.Value | None, left: ir.Value, right: ir.Value) -> ir.Value:
        """The sums, if there are any yet, and products."""
        ...


class Ordered:
    """A in an order that blocks of codes have, in buffers of one type.

    Attributes:
        parts: The buffers.
    """

    def __init__(
        self, spec: MatmulSpec, a: ir.Value, block: int, order: Order, element: ir.Type, parts: int, gap: int = 0
    ) -> None:
        """Makes `parts` buffers, of numbers of which an element of A is the sum, with `gap` elements after each row."""
        self._spec, self._a, self._block, self._order, self._element = spec, a, block, order, element
        self._lanes = len(order[0])
        width = -(-spec.k // block) * block
        kind = ir.MemRefType.get([spec.m, width + gap], element)
        self.parts = [memref.alloc(kind, [], []) for _ in range(parts)]

    def prepare(self) -> None:
        """Fills the buffers; beyond K with zeros."""
        ordered = inverse(self._order)
        for i in range(self._spec.m):
            for inside, start, end in pieces(self._spec.k, self._block):
                with loop(start, end, self._block) as (k, _, _):
                    for number, registers in enumerate(zip(*self._read(i, k, inside=inside), strict=True)):
                        for place, each in enumerate(sorted_(list(registers), ordered)):
                            write(each, self.parts[number], [i, add(k, place * self._lanes)])

    def _read(self, i: int, k: ir.Value, *, inside: bool) -> Iterator[Sequence[ir.Value]]:
        """Each register of a block of A, in parts of which it is the sum."""
        for start in range(0, self._block, self._lanes):
            value = read(self._a, [i, add(k, start)], self._lanes, inside=inside)
            if len(self.parts) == 1:
                same = ir.VectorType(value.type).element_type == self._element
                yield [value if same else as_floats(value, self._spec.a_type)]
                continue
            whole = as_floats(value, self._spec.a_type)
            short = fixed(self._lanes, self._element)
            upper = arith.truncf(short, whole)
            known = arith.extf(whole.type, upper)
            # Of an Inf nothing is left.
            is_all = arith.cmpf(arith.CmpFPredicate.OEQ, whole, known)
            rest = arith.select(is_all, zero(whole.type), arith.subf(whole, known))
            yield [upper, arith.truncf(short, rest)]

    def of(self, i: int, k: Index, register: int) -> Iterator[tuple[ir.Value, int]]:
        """Each part of a register."""
        for part in self.parts:
            yield read(part, [i, add(k, register * self._lanes)], self._lanes), 0


class _Floats:
    """Codes as f32, by multiply-adds."""

    def __init__(
        self, by: Words | ByteTables | Bytes, codes: Codes, spec: MatmulSpec, a: ir.Value, *, one_zero: bool
    ) -> None:
        self._by, self._codes = by, codes
        self.registers = len(by.order)
        self._lanes = len(by.order[0])
        self.block = self.registers * self._lanes
        self.in_order = isinstance(by, Bytes)
        self.one_zero = one_zero
        f32 = ir.F32Type.get()
        self._a = Ordered(spec, a, self.block, by.order, f32, 1) if spec.a != "f32" or not self.in_order else None
        self._given, self._k = a, spec.k
        self._ramps: list[ir.Value] = []

    def prepare(self) -> None:
        if self._a is not None:
            self._a.prepare()
        if self.one_zero:
            self._ramps = [_ramp(self._codes, each, self._lanes) for each in (ir.F32Type.get(), ir.BF16Type.get())]

    def elements(self, codes: Read, zeros: Zeros) -> list[Sequence[ir.Value]]:
        part = range(self.registers)
        if self.one_zero:
            words, halves = (_table(each, self._codes, cast("ir.Value", zeros)) for each in self._ramps)
            tables: Tables = (bits_as(words, integer(32)), bits_as(_repeated(halves, 2 * self._lanes), integer(16)))
            return [[each] for each in cast("Words", self._by).elements(codes, 0, part, tables=tables)]
        own = cast("Sequence[ir.Value] | None", zeros)
        if own is not None and self._codes.has_fractions:
            plain = self._by.elements(codes, 0, part, None)
            return [[arith.subf(each, less)] for each, less in zip(plain, own, strict=True)]
        given = None if own is None else self._by.for_zeros(own)
        return [[each] for each in self._by.elements(codes, 0, part, given)]

    def lefts(self, i: int, k: Index, register: int) -> Iterator[tuple[ir.Value, int]]:
        if self._a is not None:
            yield from self._a.of(i, k, register)
            return
        inside = not isinstance(k, int) or k + self.block <= self._k
        yield read(self._given, [i, add(k, register * self._lanes)], self._lanes, inside=inside), 0

    def add(self, total: ir.Value | None, left: ir.Value, right: ir.Value) -> ir.Value:
        return arith.mulf(left, right) if total is None else vector.fma(left, right, total)


class _Halves:
    """Codes of four bits as bf16, by an instruction that adds two products: lane i of register j is code 4 * i + j."""

    in_order = False

    def __init__(self, codes: Codes, dot: Dot, name: str, spec: MatmulSpec, a: ir.Value, lanes: int) -> None:
        self._codes, self._dot, self._name, self._lanes = codes, dot, name, 2 * lanes
        self.registers = 4
        self.block = self.registers * self._lanes
        self.one_zero = codes.zero_point is not None
        order = [[self.registers * lane + way for lane in range(self._lanes)] for way in range(self.registers)]
        parts = 1 if spec.a == "bf16" else 2
        self._a = Ordered(spec, a, self.block, order, ir.BF16Type.get(), parts)
        self._zero = zero(fixed(lanes, ir.F32Type.get()))

    def prepare(self) -> None:
        self._a.prepare()
        if self.one_zero:
            self._ramp = _ramp(self._codes, ir.BF16Type.get(), self._lanes // 2)

    def elements(self, codes: Read, zeros: Zeros) -> list[Sequence[ir.Value]]:
        words = bits_as(codes(0, 0, self.block), integer(16))
        if self.one_zero:
            if self._codes.signed:
                words = arith.xori(words, numbers(integer(16), [_SIGNS] * self._lanes))
            table = _table(self._ramp, self._codes, cast("ir.Value", zeros))
        else:
            table = numbers(ir.BF16Type.get(), [float(each) for each in self._codes.values])
        table = bits_as(_repeated(table, self._lanes), integer(16))
        found = []
        for way in range(self.registers):
            shifted = arith.shrui(words, numbers(integer(16), [4 * way] * self._lanes)) if way else words
            found.append([bits_as(intrinsic(self._name, table.type, table, shifted), ir.BF16Type.get())])
        return found

    def lefts(self, i: int, k: Index, register: int) -> Iterator[tuple[ir.Value, int]]:
        yield from self._a.of(i, k, register)

    def add(self, total: ir.Value | None, left: ir.Value, right: ir.Value) -> ir.Value:
        return intrinsic(self._dot.intrinsic, self._zero.type, self._zero if total is None else total, left, right)


_SIGNS = 0x8888 - (1 << 16)


def _ramp(codes: Codes, element: ir.Type, lanes: int) -> ir.Value:
    """A buffer of numbers, of which any sixteen side by side are a table of the codes less a zero point."""
    least, most = codes.zeros
    f32, start = ir.F32Type.get(), min(codes.values) - most
    width = -(-(most - least + _CODES) // lanes) * lanes
    made = memref.alloc(ir.MemRefType.get([width], element), [], [])
    for at in range(0, width, lanes):
        values = numbers(f32, [float(start + at + lane) for lane in range(lanes)])
        write(values if element == f32 else arith.truncf(fixed(lanes, element), values), made, [at])
    return made


def _table(ramp: ir.Value, codes: Codes, zero_point: ir.Value) -> ir.Value:
    """Sixteen codes, from the least one on, less a zero point."""
    index = ir.IndexType.get()
    number = (arith.index_cast if codes.zeros[0] < 0 else arith.index_castui)(index, zero_point)
    return read(ramp, [arith.subi(value(codes.zeros[1]), number)], _CODES)


def _repeated(table: ir.Value, lanes: int) -> ir.Value:
    """A table as often as fills a register."""
    return vector.shuffle(table, table, [lane % _CODES for lane in range(lanes)])


def along(codes: Codes, spec: MatmulSpec, target: Target, a: ir.Value) -> Along:
    """How blocks of codes are multiplied by A best."""
    lanes = target.lanes(spec.acc_type)
    if codes.bits == 8:
        return _Floats(Bytes(codes, spec.b_stored, lanes, BYTE_VECTORS), codes, spec, a, one_zero=False)
    by_bytes = byte_tables(codes, target, lanes)
    if codes.has_fractions:  # Codes as they are, which tables may have, less these.
        plain = by_bytes or Words(replace(codes, zero_point=None), target, lanes)
        return _Floats(plain, codes, spec, a, one_zero=False)
    dot, found = target.dot_along_k("bf16", "bf16"), lookup(target, 16)
    known = dot is not None and dot.depth == 2 and dot.adds and found is not None and codes.in_bf16
    if by_bytes is not None:
        return _Floats(by_bytes, codes, spec, a, one_zero=False)
    words = Words(codes, target, lanes)
    size = lanes * len(words.order)
    one = codes.zero_point is not None and codes.in_bf16 and codes.group % size == 0
    if known and spec.a in ("bf16", "f16") and (one or codes.zero_point is None):
        assert dot is not None
        assert found is not None
        return _Halves(codes, dot, found.intrinsic, spec, a, lanes)
    return _Floats(words, codes, spec, a, one_zero=one and words.by_table)
