# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of eight bits: conversions from and to them, written out, and f4E2M1FN's as codes in bytes.

No backend has vectors of them, and upstream's ``arith-expand`` knows f8E8M0FNU and f4E2M1FN only, the latter on vectors of i4, which
LLVM's backends take apart. What only moves f8 moves i8: MLIR's LLVM dialect has no other type for them.

f8E5M2 is the upper half of an f16. The bits of another in their places of an f16 are a power of two times the number, 2**-8 for f8E4M3FN,
subnormal ones too, and what makes an f32 of an f16 is quick with all of those. Every other wider type holds the f32's numbers
without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log2, nan

from tilewright.build.constants import constant, element_of, like
from tilewright.build.usedef import operations
from tilewright.dtypes import SMALL_FLOATS, dtype
from tilewright.lowering.types import lookup
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_SIGN = 0x80
_F16_BIAS, _F16_MANTISSA = 15, 10
_F32_BIAS, _F32_MANTISSA, _F32_NAN = 127, 23, 0x7F800000


@dataclass(frozen=True, slots=True)
class _Format:
    """A float of eight bits with a sign.

    Attributes:
        mantissa: Its bits of mantissa.
        bias: Of its exponent.
        overflow: The code of what is too large: Inf, or NaN where there is no Inf.
        nan: The code of NaN.
        first_nan: The least code of a NaN, without a sign.
    """

    mantissa: int
    bias: int
    overflow: int
    nan: int
    first_nan: int


def _format(name: str) -> _Format:
    """The format of type `name`, as IEEE 754 has wider ones; a type without Inf has numbers in its place, and one NaN.

    OCP 8-bit Floating Point Specification, revision 1.0 (2023), tables 1 and 2.
    """
    row = dtype(name)
    mantissa = -int(log2(row.roundoff or 1)) - 1
    bias = (1 << (6 - mantissa)) - 1
    if row.finite:
        return _Format(mantissa, bias, overflow=0x7F, nan=0x7F, first_nan=0x7F)
    overflow = 0x80 - (1 << mantissa)
    return _Format(mantissa, bias, overflow, overflow | 1 << (mantissa - 1), overflow + 1)


_WIDENED = (*SMALL_FLOATS, "f8E8M0FNU")


def of(spec: MatmulSpec) -> bool:
    """Whether there are such floats among the element types of `spec`."""
    stored = {each.type.name for each in (*spec.operands, spec.result)}
    return not stored.isdisjoint(_WIDENED) or not spec.chain.types.isdisjoint(SMALL_FLOATS)


def expand(function: ir.Operation, target: Target | GpuTarget) -> None:
    """Writes out the conversions from and to floats of eight bits in `function`; they round to nearest even.

    Where `target` has an instruction that looks up 16-bit numbers in a register, whole registers of them are looked up.

    Before: ``%y = arith.extf %x : vector<16xf8E5M2> to vector<16xf32>``. After::

        %h = arith.shli (arith.extui (arith.bitcast %x : i8) : i16), 8
        %y = arith.extf (arith.bitcast %h : f16) : vector<16xf16> to vector<16xf32>
    """
    for op in operations(function):
        if op.name == "arith.extf" and (name := str(element_of(op.operands[0]))) in _WIDENED:
            with ir.InsertionPoint(op), op.location:
                wide = op.results[0].type
                found = lookup.widened(op.operands[0], name, wide, target) if name in SMALL_FLOATS else None
                op.results[0].replace_all_uses_with(found or _widened(op.operands[0], name, wide))
        elif op.name == "arith.truncf" and (name := str(element_of(op.results[0]))) in SMALL_FLOATS:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_narrowed(op.operands[0], name, op.results[0].type))
        else:
            continue
        op.erase()


def _widened(value: ir.Value, name: str, wide: ir.Type) -> ir.Value:
    i8, i16, i32, f16, f32 = (like(value.type, each) for each in ("i8", "i16", "i32", "f16", "f32"))
    code = arith.bitcast(i8, value)
    if name == "f8E8M0FNU":
        return _shortened(arith.bitcast(f32, _power(arith.extui(i32, code))), wide)
    form = _format(name)
    if form.bias == _F16_BIAS:
        half = arith.bitcast(f16, arith.shli(arith.extui(i16, code), constant(i16, 8)))
        return half if wide == f16 else _shortened(arith.extf(f32, half), wide)
    # Copies of the sign, of which the uppermost one stays.
    place = _F16_MANTISSA - form.mantissa
    shifted = arith.shli(arith.extsi(i16, code), constant(i16, place))
    half = arith.bitcast(f16, arith.andi(shifted, constant(i16, (0x7F << place) - 0x8000)))
    exact = arith.mulf(arith.extf(f32, half), constant(f32, 2.0 ** (_F16_BIAS - form.bias)))
    size = arith.andi(code, constant(i8, 0x7F))
    if form.first_nan > form.overflow:
        is_inf = arith.cmpi(arith.CmpIPredicate.eq, size, constant(i8, form.overflow))
        exact = arith.select(is_inf, arith.mulf(exact, constant(f32, inf)), exact)
    is_nan = arith.cmpi(arith.CmpIPredicate.sge, size, constant(i8, form.first_nan))
    return _shortened(arith.select(is_nan, constant(f32, nan), exact), wide)


def _power(code: ir.Value) -> ir.Value:
    """The bits of the f32 that is a power of two, by its exponent: 2**-127 is a subnormal number, and the last one NaN."""
    shifted = arith.shli(code, constant(code.type, _F32_MANTISSA))
    is_least = arith.cmpi(arith.CmpIPredicate.eq, code, constant(code.type, 0))
    is_nan = arith.cmpi(arith.CmpIPredicate.eq, code, constant(code.type, 255))
    some = arith.select(is_least, constant(code.type, 1 << (_F32_MANTISSA - 1)), shifted)
    return arith.select(is_nan, constant(code.type, 0x7FC00000), some)


def _shortened(single: ir.Value, wide: ir.Type) -> ir.Value:
    """An f32 that `wide` holds as it is, in `wide`: of bf16 its upper half."""
    i16, i32 = like(wide, "i16"), like(wide, "i32")
    if wide == single.type:
        return single
    if wide == like(wide, "bf16"):
        half = arith.shrui(arith.bitcast(i32, single), constant(i32, 16))
        return arith.bitcast(wide, arith.trunci(i16, half))
    return arith.truncf(wide, single)


def _narrowed(single: ir.Value, name: str, narrow: ir.Type) -> ir.Value:
    """The float of eight bits nearest to an f32; what is too large is Inf, or NaN where there is no Inf."""
    form = _format(name)
    i8, i32, f32 = (like(narrow, each) for each in ("i8", "i32", "f32"))
    if element_of(single) != ir.F32Type.get(narrow.context):
        single = arith.extf(f32, single)
    cut, rebias = _F32_MANTISSA - form.mantissa, (_F32_BIAS - form.bias) << _F32_MANTISSA
    bits = arith.bitcast(i32, single)
    sign = arith.andi(arith.shrui(bits, constant(i32, 24)), constant(i32, _SIGN))
    size = arith.andi(bits, constant(i32, 0x7FFFFFFF))
    # Half of what is cut off, less one where the last bit that stays is even, carries into that bit.
    odd = arith.andi(arith.shrui(size, constant(i32, cut)), constant(i32, 1))
    rounded = arith.addi(arith.addi(size, constant(i32, (1 << (cut - 1)) - 1 - rebias)), odd)
    normal = arith.minui(arith.shrui(rounded, constant(i32, cut)), constant(i32, form.overflow))
    # In a sum with a number whose last bit is worth a step of the subnormal ones, a smaller one is rounded to such steps.
    step = 2.0 ** (1 - form.bias - form.mantissa)
    ruler = constant(f32, step * 2**_F32_MANTISSA)
    steps = arith.subi(arith.bitcast(i32, arith.addf(arith.bitcast(f32, size), ruler)), arith.bitcast(i32, ruler))
    least = constant(i32, (_F32_BIAS - form.bias + 1) << _F32_MANTISSA)
    magnitude = arith.select(arith.cmpi(arith.CmpIPredicate.ult, size, least), steps, normal)
    is_nan = arith.cmpi(arith.CmpIPredicate.ugt, size, constant(i32, _F32_NAN))
    magnitude = arith.select(is_nan, constant(i32, form.nan), magnitude)
    return arith.bitcast(narrow, arith.trunci(i8, arith.ori(magnitude, sign)))


def from_f4_code(code: ir.Value, wide: ir.Type) -> ir.Value:
    """The numbers of type `wide` that bytes with the codes of f4E2M1FN stand for.

    Twice their magnitudes are 0, 1, 2, 3, 4, 6, 8, 12: the largest of t, 2t - 4 and 4t - 16, where t is the code without its sign.
    """
    i8, i32, f32 = (like(wide, each) for each in ("i8", "i32", "f32"))
    size = arith.andi(code, constant(i8, 7))
    double, fourfold = arith.shli(size, constant(i8, 1)), arith.shli(size, constant(i8, 2))
    twice = arith.maxsi(arith.maxsi(size, arith.subi(double, constant(i8, 4))), arith.subi(fourfold, constant(i8, 16)))
    magnitude = arith.mulf(arith.sitofp(f32, arith.extsi(i32, twice)), constant(f32, 0.5))
    sign = arith.shli(arith.extui(i32, arith.andi(code, constant(i8, 8))), constant(i32, 28))
    return _shortened(arith.bitcast(f32, arith.ori(arith.bitcast(i32, magnitude), sign)), wide)
