# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Integers of four or eight bits as floats in registers, a tile of columns at a time, in the order in which that is quickest.

A word of 32 bits has eight codes. Its bits below 23, with others from a constant, are the mantissa of a float: a power of two and
the code, from which one subtraction takes what is not the code's, exactly. Where the target looks numbers up in a register by the
lowest bits of an index, that is one instruction in place of two, and words are indices as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tilewright.build.constants import integer, numbers, zero
from tilewright.build.vectors import bits_as, intrinsic
from tilewright.codegen.scaled_sums.registers import Order, as_floats, inverse, sorted_
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.models.codes import Codes
from tilewright.targets.base import Target
from tilewright.targets.lookups import lookup

Tables = tuple[ir.Value, ir.Value]
"""Sixteen floats in a register's lanes, and those whose upper halves are in its halves of lanes."""
Read = Callable[[int, int, int], ir.Value]
"""Gives codes of a row of the tile: its number, the first column, and how many."""
_MANTISSA, _BIAS = 23, 127
_SHIFT = 12
"""By which words are shifted for the codes above the mantissa: the next ones take the places of those at 8, 12 and 16."""
_WAYS = 8
_SIGNS = 0x88888888 - (1 << 32)


class Multiplier(Protocol):
    """How rows of codes are multiplied.

    Attributes:
        depth: Rows of B that are multiplied at once.
        order: The column of each lane of each register of sums.
        spread: Elements that stand for a zero point.
    """

    depth: int
    order: Order
    spread: int

    def elements(self, read: Read, row: int, part: Sequence[int], zeros: Sequence[ir.Value] | None) -> list[ir.Value]:
        """What stands for the codes of a row, for the registers of sums number `part`; less `zeros`, as that function has them."""
        ...

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """What `elements` takes for the zero points of a tile, `spread` elements for each column in all, read as codes are."""
        ...

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """The sums and the products of what stands for A and for codes."""
        ...


class Words:
    """Codes of four bits as f32: lane i of register j is column 8 * i + j.

    Attributes:
        by_table: Whether codes can be looked up in tables of all.
    """

    depth = spread = 1

    def __init__(self, codes: Codes, target: Target, lanes: int) -> None:
        """Makes the constants that all tiles share."""
        self._codes, self._lanes = codes, lanes
        self.order: Order = [[_WAYS * lane + way for lane in range(lanes)] for way in range(_WAYS)]
        self._lookups = [each and each.intrinsic for each in (lookup(target, 32), lookup(target, 16))]
        self._lookups = self._lookups if all(self._lookups) and codes.in_bf16 else []
        self.by_table = bool(self._lookups)

    def elements(
        self,
        read: Read,
        row: int,
        part: Sequence[int],
        zeros: Sequence[ir.Value] | None = None,
        tables: Tables | None = None,
    ) -> list[ir.Value]:
        """As the protocol says; or all are looked up in `tables`, in which codes with a sign are 8 further."""
        words = bits_as(read(row, 0, _WAYS * self._lanes), integer(32))
        if tables is not None and self._codes.signed:
            words = arith.xori(words, numbers(integer(32), [_SIGNS] * self._lanes))
        shifted = {0: words}
        found = []
        for way in part:
            by_lookup = tables is not None or (zeros is None and self.by_table)
            upper, shift = divmod(4 * way, 16) if by_lookup else self._place(way)[1:]
            if shift not in shifted:
                shifted[shift] = arith.shrui(words, numbers(integer(32), [shift] * self._lanes))
            if by_lookup:
                found.append(self._looked_up(shifted[shift], upper, tables or self._tables()))
            else:
                found.append(self._computed(shifted[shift], way, zeros[way] if zeros else None))
        return found

    def _computed(self, words: ir.Value, way: int, zero_: ir.Value | None) -> ir.Value:
        """A code as a mantissa's, less what is beside it."""
        place = self._place(way)[0]
        mask = numbers(integer(32), [15 << place] * self._lanes)
        others = (_BIAS + _MANTISSA - place) << _MANTISSA | (8 << place if self._codes.signed else 0)
        # The sign's bit is turned: codes with a sign are 8 more.
        mantissa = arith.xori(arith.andi(words, mask), numbers(integer(32), [others] * self._lanes))
        less = numbers(ir.F32Type.get(), [self._beside(way)] * self._lanes) if zero_ is None else zero_
        return arith.subf(bits_as(mantissa, ir.F32Type.get()), less)

    def _place(self, way: int) -> tuple[int, int, int]:
        """Where a code's lowest bit is, in words that are shifted by so many halves, of which there are none, and bits."""
        place = 4 * way
        return (place, 0, 0) if place + 4 <= _MANTISSA else (place - _SHIFT, 0, _SHIFT)

    def _beside(self, way: int) -> float:
        """What a mantissa has beside the code."""
        return float((1 << (_MANTISSA - self._place(way)[0])) + 8 * self._codes.signed + self._codes.zero)

    def _tables(self) -> Tables:
        """What codes stand for, as f32 in a register's lanes, and as bf16, its upper half, in a register's halves of lanes."""
        values = [float(each) for each in self._codes.values]
        times = self._lanes // len(values)
        return (
            bits_as(numbers(ir.F32Type.get(), values * times), integer(32)),
            bits_as(numbers(ir.BF16Type.get(), values * 2 * times), integer(16)),
        )

    def _looked_up(self, words: ir.Value, upper: int, tables: Tables) -> ir.Value:
        """The codes in the lowest bits of words, or of their upper halves: what is looked up for the lower ones is dropped."""
        table, name = tables[upper], str(self._lookups[upper])
        found = intrinsic(name, table.type, table, bits_as(words, ir.VectorType(table.type).element_type))
        if upper:
            found = arith.select(numbers(integer(1), [0, 1] * self._lanes), found, zero(found.type))
        return bits_as(found, ir.F32Type.get())

    def for_zeros(self, zeros: Sequence[ir.Value]) -> list[ir.Value]:
        """What is subtracted for zero points in the order of the sums."""
        f32 = ir.F32Type.get()
        return [arith.addf(each, numbers(f32, [self._beside(way)] * self._lanes)) for way, each in enumerate(zeros)]

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """As the protocol says."""
        in_order = [as_floats(read(0, way * self._lanes, self._lanes), stored) for way in range(_WAYS)]
        return self.for_zeros(sorted_(in_order, inverse(self.order)))

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As the protocol says."""
        return vector.fma(left, right, total)


class Bytes:
    """Codes of eight bits as f32, in order."""

    depth = spread = 1

    def __init__(self, codes: Codes, stored: DType, lanes: int, registers: int) -> None:
        """Takes what is known of them."""
        self._codes, self._stored, self._lanes = codes, stored, lanes
        self.order: Order = [[lanes * each + lane for lane in range(lanes)] for each in range(registers)]

    def elements(self, read: Read, row: int, part: Sequence[int], zeros: Sequence[ir.Value] | None) -> list[ir.Value]:
        """As the protocol says."""
        found = [as_floats(read(row, self._lanes * each, self._lanes), self._stored) for each in part]
        if zeros is not None:
            return [arith.subf(each, zeros[number]) for each, number in zip(found, part, strict=True)]
        if not self._codes.zero:
            return found
        return [arith.subf(each, numbers(ir.F32Type.get(), [float(self._codes.zero)] * self._lanes)) for each in found]

    def for_zeros(self, zeros: Sequence[ir.Value]) -> list[ir.Value]:
        """What is subtracted for zero points."""
        return list(zeros)

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """As the protocol says."""
        return [as_floats(read(0, each * self._lanes, self._lanes), stored) for each in range(len(self.order))]

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As the protocol says."""
        return vector.fma(left, right, total)
