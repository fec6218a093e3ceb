# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of 16 bits, f16 and bf16, on processors that can do no more with them than convert, or not even that.

LLVM's x86 backend selects, shuffles and loads under masks vectors of such floats by widening them, and rounding them back: by
calls of functions that need not be there, or by an instruction that flushes subnormal numbers. So what only moves them moves
integers here (`move_as_integers`), for which upstream has no pass. And where there is no instruction that converts, it is
written out: by upstream's ``arith-expand`` for bf16, and by `expand_f16` for f16, which upstream's pass does not know.
"""

from __future__ import annotations

import re

from tilewright.build.constants import constant, element_of, like
from tilewright.build.usedef import operations, replace
from tilewright.dtypes import SMALL_FLOATS
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

CONVERTERS = {"f16": frozenset({"f16c", "avx512fp16", "fp-armv8"}), "bf16": frozenset({"avx512bf16", "bf16"})}
"""The features each of which brings instructions that convert from and to f32."""

EXPAND_BF16 = "builtin.module(func.func(arith-expand{include-bf16=true}))"
"""Conversions from and to bf16 as integer arithmetic."""

_HALF = re.compile(r"(?:\b|(?<=x))b?f16\b")
"""In the text of a type, such as "vector<8xbf16>"."""

_MOVES = frozenset(
    {
        "llvm.br",
        "llvm.cond_br",
        "llvm.extractelement",
        "llvm.extractvalue",
        "llvm.insertelement",
        "llvm.insertvalue",
        "llvm.intr.masked.gather",
        "llvm.intr.masked.load",
        "llvm.intr.masked.store",
        "llvm.intr.vector.deinterleave2",
        "llvm.intr.vector.extract",
        "llvm.intr.vector.insert",
        "llvm.intr.vector.interleave2",
        "llvm.load",
        "llvm.mlir.poison",
        "llvm.mlir.undef",
        "llvm.mlir.zero",
        "llvm.select",
        "llvm.shufflevector",
        "llvm.store",
    }
)
"""Ops of the LLVM dialect to which elements are bits."""


def of(spec: MatmulSpec) -> frozenset[str]:
    """The 16-bit floats among the element types of `spec`, those of pieces, of its epilogue and of its prologues among them."""
    stored = {each.type.name for each in spec.operands}
    if not stored.isdisjoint(SMALL_FLOATS):  # which are widened by way of f16
        stored.add("f16")
    computed = spec.chain.types | spec.chain_a.types | spec.chain_b.types
    return frozenset(CONVERTERS) & {*spec.multiplied, spec.c_type.name, *stored, *computed}


def to_expand(spec: MatmulSpec, target: Target) -> frozenset[str]:
    """Those of them for whose conversion from and to f32 `target` has no instructions."""
    return frozenset(name for name in of(spec) if CONVERTERS[name].isdisjoint(target.features))


def move_as_integers(function: ir.Operation) -> None:
    """Makes all 16-bit floats in `function`, which is in the LLVM dialect, i16; ops that compute with them get bitcasts.

    Before: ``%x = llvm.select %mask, %y, %z : vector<16xi1>, vector<16xbf16>``, ``%w = llvm.fpext %x``. After::

        %x = llvm.select %mask, %y, %z : vector<16xi1>, vector<16xi16>
        %w = llvm.fpext (llvm.bitcast %x : vector<16xi16> to vector<16xbf16>)
    """
    integers = _Integers()
    named = [(op, op.name) for op in operations(function)]
    for at, (op, name) in enumerate(named):
        if name == "llvm.mlir.constant" and integers[op.results[0].type] and _is_zero(op.attributes["value"]):
            with ir.InsertionPoint(op), op.location:
                zero = ir.Operation.create("llvm.mlir.zero", [op.results[0].type])
            replace(op, zero.results[0])
            named[at] = zero, zero.name
    computing = [op for op, name in named if name not in _MOVES]
    for op in computing:
        _wrap_operands(op, integers)
    for op in computing:
        _wrap_results(op, integers)
    moved = [result for op, name in named if name in _MOVES for result in op.results]
    blocks = (block for op in computing for region in op.regions for block in region.blocks)
    for value in (*moved, *(argument for block in blocks for argument in block.arguments)):
        integer = integers[value.type]
        if integer:
            value.set_type(integer)


class _Integers(dict[ir.Type, "ir.Type | None"]):
    """Types with i16 in place of 16-bit floats; None for those that have none."""

    def __missing__(self, kind: ir.Type) -> ir.Type | None:
        text = str(kind)
        self[kind] = ir.Type.parse(_HALF.sub("i16", text), kind.context) if _HALF.search(text) else None
        return self[kind]


def _wrap_operands(op: ir.Operation, integers: _Integers) -> None:
    """Lets 16-bit floats reach `op` as integers, whatever they are elsewhere.

    The first of the two bitcasts, both of whose sides are integers later, folds away then.
    """
    for index, operand in enumerate(op.operands):
        integer = integers[operand.type]
        if integer:
            with ir.InsertionPoint(op), op.location:
                op.operands[index] = _bitcast(operand.type, _bitcast(integer, operand).results[0]).results[0]


def _wrap_results(op: ir.Operation, integers: _Integers) -> None:
    """Lets 16-bit floats leave `op` as integers."""
    for result in op.results:
        integer = integers[result.type]
        if integer:
            with ir.InsertionPoint.after(op), op.location:
                moved = _bitcast(integer, result)
            result.replace_all_uses_except(moved.results[0], moved)


def _bitcast(kind: ir.Type, value: ir.Value) -> ir.Operation:
    """Builds a bitcast, without the Python classes of the LLVM dialect, which products of other types need not import."""
    return ir.Operation.create("llvm.bitcast", [kind], [value])


def _is_zero(value: ir.Attribute) -> bool:
    """Whether a constant is +0.0, everywhere; one that fills an array of vectors has no bitcast."""
    return re.fullmatch(r"(dense<)?0\.0+e\+00\b.*", str(value)) is not None


def convert_by_f32(function: ir.Operation) -> None:
    """Converts integers to 16-bit floats by way of f32, as the payload does: MLIR folds that, and LLVM calls a function for it."""
    halves = [ir.F16Type.get(function.context), ir.BF16Type.get(function.context)]
    for op in operations(function):
        if op.name in ("arith.sitofp", "arith.uitofp") and element_of(op.results[0]) in halves:
            wide, narrow = like(op.results[0].type, "f32"), op.results[0].type
            convert = arith.sitofp if op.name == "arith.sitofp" else arith.uitofp
            with ir.InsertionPoint(op), op.location:
                replace(op, arith.truncf(narrow, convert(wide, op.operands[0])))


def expand_f16(function: ir.Operation) -> None:
    """Writes out the conversions from and to f16 in `function`, as integer arithmetic; they round to nearest even.

    Before: ``%y = arith.extf %x : vector<16xf16> to vector<16xf32>``. After: shifts, additions and selects of
    ``vector<16xi32>``.
    """
    f16 = ir.F16Type.get(function.context)
    for op in operations(function):
        if op.name == "arith.extf" and element_of(op.operands[0]) == f16:
            convert = _from_f16
        elif op.name == "arith.truncf" and element_of(op.results[0]) == f16:
            convert = _to_f16
        else:
            continue
        with ir.InsertionPoint(op), op.location:
            replace(op, convert(op.operands[0]))


def _from_f16(half: ir.Value) -> ir.Value:
    """The f32 of an f16, or of each in a vector."""
    i16, i32, f32 = (like(half.type, element) for element in ("i16", "i32", "f32"))
    bits = arith.extui(i32, arith.bitcast(i16, half))
    sign = arith.shli(arith.andi(bits, constant(i32, 0x8000)), constant(i32, 16))
    size = arith.andi(bits, constant(i32, 0x7FFF))
    # A mantissa of 23 bits for one of 10, and an exponent biased by 127 for one biased by 15; Inf and NaN have the largest.
    normal = arith.addi(arith.shli(size, constant(i32, 13)), constant(i32, (127 - 15) << 23))
    largest = arith.addi(normal, constant(i32, (127 - 15) << 23))
    # A subnormal number counts steps of 2**-24.
    steps = arith.mulf(arith.sitofp(f32, size), constant(f32, 2.0**-24))
    is_largest = arith.cmpi(arith.CmpIPredicate.uge, size, constant(i32, 0x7C00))
    is_subnormal = arith.cmpi(arith.CmpIPredicate.ult, size, constant(i32, 0x0400))
    magnitude = arith.select(is_subnormal, arith.bitcast(i32, steps), arith.select(is_largest, largest, normal))
    return arith.bitcast(f32, arith.ori(magnitude, sign))


def _to_f16(single: ir.Value) -> ir.Value:
    """The f16 nearest to an f32, or to each in a vector."""
    i16, i32, f32, f16 = (like(single.type, element) for element in ("i16", "i32", "f32", "f16"))
    bits = arith.bitcast(i32, single)
    sign = arith.shrui(arith.andi(bits, constant(i32, -0x80000000)), constant(i32, 16))
    size = arith.andi(bits, constant(i32, 0x7FFFFFFF))
    # Half of what is cut off, less one where the last bit that stays is even, carries into that bit.
    odd = arith.andi(arith.shrui(size, constant(i32, 13)), constant(i32, 1))
    rebiased = arith.subi(arith.addi(size, constant(i32, 0x0FFF)), constant(i32, (127 - 15) << 23))
    normal = arith.shrui(arith.addi(rebiased, odd), constant(i32, 13))
    # In a sum with 1/2, whose last bit is worth 2**-24, a number below 2**-14 is rounded to steps of f16's subnormal ones.
    summed = arith.addf(arith.bitcast(f32, size), constant(f32, 0.5))
    steps = arith.subi(arith.bitcast(i32, summed), constant(i32, 0x3F000000))
    special = arith.select(
        arith.cmpi(arith.CmpIPredicate.ugt, size, constant(i32, 0x7F800000)),
        constant(i32, 0x7E00),
        constant(i32, 0x7C00),
    )
    is_large = arith.cmpi(arith.CmpIPredicate.uge, size, constant(i32, (127 + 16) << 23))
    is_small = arith.cmpi(arith.CmpIPredicate.ult, size, constant(i32, (127 - 14) << 23))
    magnitude = arith.select(is_large, special, arith.select(is_small, steps, normal))
    return arith.bitcast(f16, arith.trunci(i16, arith.ori(magnitude, sign)))
