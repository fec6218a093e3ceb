# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Codes of four bits as f32, by instructions that look up bytes: bf16, the upper half of f32, holds them in two bytes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tilewright.build.constants import integer, numbers
from tilewright.build.vectors import bits_as, intrinsic
from tilewright.codegen.scaled_sums.quantized import Read
from tilewright.codegen.scaled_sums.registers import Order, as_floats, inverse, sorted_
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.schedules.models.codes import Codes
from tilewright.targets.base import Target
from tilewright.targets.lookups import byte_lookup, lookup

_QUAD = 16
"""Bytes of 128 bits, in which indices are looked up and bytes interleaved."""
_LOW = 0x0F
_UPPER = -(1 << 16)


class ByteTables:
    """Codes of four bits as f32, a register of bytes at a time: all in some 128 bits of it are in the same 128 bits of registers of sums.

    Before: a register of bytes, each of two codes. After: eight registers, of the codes in lower and upper halves of bytes, of the first
    and the second eight bytes of each 128 bits, of even and odd bytes.
    """

    depth = spread = 1
    by_table = False

    def __init__(self, codes: Codes, name: str, lanes: int) -> None:
        """Takes the name of the instruction, and the lanes of a register of sums."""
        self._codes, self._name, self._lanes, self._bytes = codes, name, lanes, 4 * lanes
        self.order: Order = [
            [32 * (lane // 4) + 16 * half + 4 * (lane % 4) + 2 * odd + upper for lane in range(lanes)]
            for upper in (0, 1)
            for half in (0, 1)
            for odd in (0, 1)
        ]

    def elements(self, read: Read, row: int, part: Sequence[int], zeros: Sequence[ir.Value] | None) -> list[ir.Value]:
        """As `Multiplier` says."""
        found: dict[int, ir.Value] = {}
        pairs = bits_as(read(row, 0, 2 * self._bytes), integer(16))
        for upper in sorted({each // 4 for each in part}):
            codes = arith.shrui(pairs, numbers(integer(16), [4] * (self._bytes // 2))) if upper else pairs
            index = arith.andi(bits_as(codes, integer(8)), numbers(integer(8), [_LOW] * self._bytes))
            near, far = (intrinsic(self._name, index.type, each, index) for each in self._tables())
            for half in (0, 1):
                places = [
                    start + 8 * half + each + self._bytes * which
                    for start in range(0, self._bytes, _QUAD)
                    for each in range(8)
                    for which in (0, 1)
                ]
                words = bits_as(vector.shuffle(near, far, places), integer(32))
                even = arith.shli(words, numbers(integer(32), [16] * self._lanes))
                odd = arith.andi(words, numbers(integer(32), [_UPPER] * self._lanes))
                for which, each in enumerate((even, odd)):
                    found[4 * upper + 2 * half + which] = bits_as(each, ir.F32Type.get())
        if zeros is None:
            return [found[each] for each in part]
        return [arith.subf(found[each], zeros[each]) for each, number in zip(part, part, strict=True)]

    def _tables(self) -> list[ir.Value]:
        """The lower and the upper bytes of what codes stand for, in all 128 bits."""
        upper = [struct.pack("<f", each)[2:] for each in self._codes.values]
        times = self._bytes // _QUAD
        return [
            numbers(
                integer(8), [int.from_bytes(each[which : which + 1], "little", signed=True) for each in upper] * times
            )
            for which in (0, 1)
        ]

    def for_zeros(self, zeros: Sequence[ir.Value]) -> list[ir.Value]:
        """What is subtracted for zero points."""
        return list(zeros)

    def zeros(self, read: Read, stored: DType) -> list[ir.Value]:
        """As `Multiplier` says."""
        in_order = [as_floats(read(0, at * self._lanes, self._lanes), stored) for at in range(len(self.order))]
        return sorted_(in_order, inverse(self.order))

    def add(self, total: ir.Value, left: ir.Value, right: ir.Value) -> ir.Value:
        """As `Multiplier` says."""
        return vector.fma(left, right, total)


def byte_tables(codes: Codes, target: Target, lanes: int) -> ByteTables | None:
    """These, where the target looks up bytes in registers as wide as sums, and no better in wider words; None elsewhere.

    The 32 codes of 128 bits have one scale.
    """
    found = byte_lookup(target)
    fits = found is not None and found.lanes == 4 * lanes and lookup(target, 32) is None
    one_scale = not codes.group or codes.group % (2 * _QUAD) == 0
    return ByteTables(codes, found.intrinsic, lanes) if found is not None and fits and one_scale else None
