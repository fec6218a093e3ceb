# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of eight bits as 16-bit ones by a look-up in registers: exact for every code, subnormal numbers and NaN as quick as others.

VPERMI2B of VBMI takes each of 64 bytes from the 128 of two registers, as many as a code has magnitudes, and VPERMI2W of AVX512BW each
of 32 words from 64 (Intel SDM, volume 2). The sign is put back. By arithmetic, f8E4M3FN takes twice as many operations, because
its subnormal numbers are normal ones of bf16. Upstream has no look-up by a vector of indices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.build.constants import constant
from tilewright.build.vectors import intrinsic
from tilewright.dtypes import dtype, to_numpy
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_WORDS, _BYTES = 32, 64
"""Of a register."""
_PART = 16
"""Bytes within which VPUNPCKLBW and VPUNPCKHBW interleave two registers. They take less time than what moves bytes between such parts."""
_ORDER = [
    half * _WORDS + part // 2 + byte
    for part in range(0, _BYTES, _PART)
    for half in (0, 1)
    for byte in range(_PART // 2)
]
"""The order of codes in which those give the numbers in order; what interleaved rows before does it at once."""
_PAIRS = [
    part + half * _PART // 2 + byte + operand
    for half in (0, 1)
    for part in range(0, _BYTES, _PART)
    for byte in range(_PART // 2)
    for operand in (0, _BYTES)
]
"""The bytes of both registers, interleaved in each part: first all of their lower halves."""
_BY_WORD, _BY_BYTE = "llvm.x86.avx512.vpermi2var.hi.512", "llvm.x86.avx512.vpermi2var.qi.512"


def widened(value: ir.Value, name: str, wide: ir.Type, target: Target | GpuTarget) -> ir.Value | None:
    """The numbers of a vector of floats `name` of eight bits in the type `wide`; None where they are no whole registers.

    Before: ``arith.extf %x : vector<64xf8E4M3FN> to vector<64xbf16>``. After, with VBMI::

        %low, %high = vpermi2b(table of the lower bytes, %x), vpermi2b(table of the upper bytes, %x) | (%x & 0x80)
        %y = interleave of %low and %high

    and without it, for each half of %x::

        %c = arith.extsi %half : vector<32xi8> to vector<32xi16>
        %m = select (bit 6 of %c), vpermi2w(the upper half of the table, %c), vpermi2w(the lower half, %c)
        %y = %m | (%c & 0x8000)
    """
    kind = value.type
    if "avx512bw" not in target.features or not isinstance(kind, ir.VectorType):
        return None
    if ir.VectorType(kind).rank != 1 or ir.VectorType(kind).shape[0] % _WORDS:
        return None
    element = str(ir.VectorType(wide).element_type)
    half = element if element in ("bf16", "f16") else "bf16"
    if half == "f16" and name == "f8E5M2":
        return None  # which is a shift
    count = ir.VectorType(kind).shape[0]
    codes = arith.bitcast(_vector(count, 8), value)
    by_byte = "avx512vbmi" in target.features and count % _BYTES == 0
    find = (_byte_finder if by_byte else _word_finder)(_table(name, half))
    words = _by_register(codes, find, _BYTES if by_byte else _WORDS)
    found = arith.bitcast(ir.VectorType.get([count], ir.Type.parse(half)), words)
    return found if element == half else arith.extf(wide, found)


def _vector(count: int, bits: int) -> ir.VectorType:
    return ir.VectorType.get([count], ir.IntegerType.get_signless(bits))


def _table(name: str, half: str) -> NDArray[np.int16]:
    """The 16-bit floats of the codes without a sign, as words."""
    codes = np.arange(128, dtype=np.uint8).view(to_numpy(dtype(name)))
    return codes.astype(np.float32).astype(to_numpy(dtype(half))).view(np.int16)


def _registers(table: NDArray[Any], kind: ir.VectorType) -> list[ir.Value]:
    """A table in registers."""
    parts = table.reshape(-1, kind.shape[0])
    return [arith.constant(kind, ir.DenseElementsAttr.get(part.copy(), type=kind)) for part in parts]


def _byte_finder(table: NDArray[np.int16]) -> Callable[[ir.Value], ir.Value]:
    """Looks up a register of bytes: the lower and the upper bytes of what they stand for, each in a table of all."""
    i8 = _vector(_BYTES, 8)
    lower, upper = (_registers(table.view(np.int8)[each::2], i8) for each in (0, 1))

    def find(code: ir.Value) -> ir.Value:
        code = vector.shuffle(code, code, _ORDER)
        low, high = (intrinsic(_BY_BYTE, i8, first, code, second) for first, second in (lower, upper))
        high = arith.ori(high, arith.andi(code, constant(i8, -0x80)))
        return vector.bitcast(_vector(_BYTES, 16), vector.shuffle(low, high, _PAIRS))

    return find


def _word_finder(table: NDArray[np.int16]) -> Callable[[ir.Value], ir.Value]:
    """Looks up half a register of bytes: what each stands for in both halves of the table."""
    i16 = _vector(_WORDS, 16)
    quarters = _registers(table, i16)

    def find(code: ir.Value) -> ir.Value:
        index = arith.extsi(i16, code)
        low, high = (intrinsic(_BY_WORD, i16, quarters[each], index, quarters[each + 1]) for each in (0, 2))
        is_high = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(index, constant(i16, _BYTES)), constant(i16, 0))
        return arith.ori(arith.select(is_high, high, low), arith.andi(index, constant(i16, -0x8000)))

    return find


def _by_register(codes: ir.Value, find: Callable[[ir.Value], ir.Value], lanes: int) -> ir.Value:
    """What `find` makes of each `lanes` of `codes`, in one vector."""
    count = ir.VectorType(codes.type).shape[0]
    if count == lanes:
        return find(codes)
    whole = constant(_vector(count, 16), 0)
    for start in range(0, count, lanes):
        piece = vector.extract_strided_slice(_vector(lanes, 8), codes, [start], [lanes], [1])
        whole = vector.insert_strided_slice(find(piece), whole, [start], [1])
    return whole
