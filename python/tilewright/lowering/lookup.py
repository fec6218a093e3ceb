# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of eight bits as 16-bit ones by a look-up in registers: exact for every code, subnormal numbers and NaN as quick as others.

VPERMI2W of AVX512BW takes each of 32 words from the 64 of two registers (Intel SDM, volume 2). Of the 128 magnitudes of a code,
half are in two registers, half in two more; its sign is put back. By arithmetic, f8E4M3FN takes twice as many operations, because
its subnormal numbers are normal ones of bf16. Upstream has no look-up by a vector of indices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.dtypes import dtype, to_numpy
from tilewright.lowering.half_floats import constant
from tilewright.lowering.scalable_vectors import intrinsic
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector
from tilewright.targets.base import Target

_LANES = 32
"""Words of a register."""
_INTRINSIC = "llvm.x86.avx512.vpermi2var.hi.512"


def widened(value: ir.Value, name: str, wide: ir.Type, target: Target) -> ir.Value | None:
    """The numbers of a vector of floats `name` of eight bits in the type `wide`; None where they are no whole registers.

    Before: ``arith.extf %x : vector<64xf8E4M3FN> to vector<64xbf16>``. After, for each half of %x::

        %c = arith.extsi %half : vector<32xi8> to vector<32xi16>
        %m = select (bit 6 of %c), vpermi2w(the upper half of the table, %c), vpermi2w(the lower half, %c)
        %y = %m | (%c & 0x8000)
    """
    kind = value.type
    if "avx512bw" not in target.features or not isinstance(kind, ir.VectorType):
        return None
    if ir.VectorType(kind).rank != 1 or ir.VectorType(kind).shape[0] % _LANES:
        return None
    element = str(ir.VectorType(wide).element_type)
    half = element if element in ("bf16", "f16") else "bf16"
    if half == "f16" and name == "f8E5M2":
        return None  # which is a shift
    count = ir.VectorType(kind).shape[0]
    codes = arith.bitcast(ir.VectorType.get([count], ir.IntegerType.get_signless(8)), value)
    find = _finder(name, half)
    words = _by_register(codes, find)
    found = arith.bitcast(ir.VectorType.get([count], ir.Type.parse(half)), words)
    return found if element == half else arith.extf(wide, found)


def _finder(name: str, half: str) -> Callable[[ir.Value], ir.Value]:
    i16 = ir.VectorType.get([_LANES], ir.IntegerType.get_signless(16))
    codes = np.arange(128, dtype=np.uint8).view(to_numpy(dtype(name)))
    words = codes.astype(np.float32).astype(to_numpy(dtype(half))).view(np.int16)
    quarters = [
        arith.constant(i16, ir.DenseElementsAttr.get(part, type=i16))
        for part in words.reshape(4, _LANES)
    ]

    def find(code: ir.Value) -> ir.Value:
        index = arith.extsi(i16, code)
        low, high = (intrinsic(_INTRINSIC, i16, quarters[each], index, quarters[each + 1]) for each in (0, 2))
        zero = constant(i16, 0)
        is_high = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(index, constant(i16, 64)), zero)
        return arith.ori(arith.select(is_high, high, low), arith.andi(index, constant(i16, -0x8000)))

    return find


def _by_register(codes: ir.Value, find: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """What `find` makes of each register of `codes`, in one vector."""
    count = ir.VectorType(codes.type).shape[0]
    if count == _LANES:
        return find(codes)
    whole: ir.Value | None = None
    for start in range(0, count, _LANES):
        piece = vector.extract_strided_slice(
            ir.VectorType.get([_LANES], ir.IntegerType.get_signless(8)), codes, [start], [_LANES], [1]
        )
        found = find(piece)
        if whole is None:
            whole = constant(ir.VectorType.get([count], ir.IntegerType.get_signless(16)), 0)
        whole = vector.insert_strided_slice(found, whole, [start], [1])
    assert whole is not None, "there is a register"
    return whole
