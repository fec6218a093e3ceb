# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small integers times a number of 16 bits, rounded to 16 bits, two at a time and without conversions: the same numbers.

An integer of no more bits than the float has, times such a float, is exact in f32. So it is rounded once, as the float's own
multiplication rounds it. The integers themselves are made of bits: of 128 + u in bf16, the last seven bits are those of u.

Before: ``truncf(sitofp(codes : 2xi4 - zeros) * extf(scale))``, in f32. After, of a byte with two codes::

    pair = (byte * 0x1001 & 0x000f000f) ^ 0x43084308       # 128 + 8 + code, twice
    (bitcast pair : 2xbf16 - 136 - zeros) * scale, in bf16

LLVM knows neither that a product is exact nor numbers by their bits. Source of the method: Y. J. Kim et al., "Who Says Elephants Can't
Run: Bringing Large Scale MoE Models into Cloud Scale Production", 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tilewright.build.constants import bits_of, element_of, like
from tilewright.build.usedef import defined_by, operations, replace
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

_WORD, _PAIR, _NIBBLE = 32, 2, 4


@dataclass(frozen=True, slots=True)
class _Float:
    """A float of 16 bits.

    Attributes:
        base: The bits of the power of two whose last bit of mantissa is one.
        mantissa: Bits of mantissa that are stored.
    """

    base: int
    mantissa: int


_FLOATS: Mapping[str, _Float] = MappingProxyType({"bf16": _Float(0x4300, 7), "f16": _Float(0x6400, 10)})
_Range = tuple[int, int]


def rewrite(function: ir.Operation) -> None:
    """Multiplies so wherever a function rounds such a product of pairs."""
    for op in operations(function):
        if op.name == "arith.truncf" and str(element_of(op.results[0])) in _FLOATS:
            with ir.InsertionPoint(op), op.location:
                made = _product(op)
            if made is not None:
                replace(op, made)


def _product(op: ir.Operation) -> ir.Value | None:
    """The product, in the type of the result of `op`; None where it is none of these."""
    kind = op.results[0].type
    product = defined_by(op.operands[0], "arith.mulf")
    if product is None or not isinstance(kind, ir.VectorType) or kind.shape != [_PAIR]:
        return None
    for a, b in (tuple(product.operands), tuple(product.operands)[::-1]):
        scale = defined_by(b, "arith.extf")
        number = defined_by(a, "arith.sitofp")
        if scale is None or number is None or scale.operands[0].type != kind:
            continue
        most = 2 << _FLOATS[str(kind.element_type)].mantissa
        found = _integer(number.operands[0], kind)
        if found is not None and all(abs(each) <= most for each in found[0]):
            return arith.mulf(found[1](), scale.operands[0])
    return None


def _integer(whole: ir.Value, kind: ir.VectorType) -> tuple[_Range, Callable[[], ir.Value]] | None:
    """The range of integers, and what makes floats of them, which hold all of them and of what they are made of; None where they do not."""
    difference = defined_by(whole, "arith.subi")
    if difference is not None:
        sides = [_integer(each, kind) for each in difference.operands]
        if sides[0] is None or sides[1] is None:
            return None
        ((low, high), first), ((low_b, high_b), second) = sides[0], sides[1]
        return (low - high_b, high - low_b), lambda: arith.subf(first(), second())
    constant = defined_by(whole, "arith.constant")
    if constant is not None:
        splat = ir.IntegerAttr(ir.DenseElementsAttr(constant.attributes["value"]).get_splat_value()).value
        return (splat, splat), lambda: _floats(kind, splat)
    for name, signed in (("arith.extsi", True), ("arith.extui", False)):
        widened = defined_by(whole, name)
        if widened is not None:
            return _narrow(widened.operands[0], kind, signed=signed)
    return None


def _narrow(codes: ir.Value, kind: ir.VectorType, *, signed: bool) -> tuple[_Range, Callable[[], ir.Value]] | None:
    """The same of integers of few bits: of pairs that share a word, by their bits."""
    bits, float_ = bits_of(element_of(codes)), _FLOATS[str(kind.element_type)]
    bias = 1 << (bits - 1) if signed else 0
    limits = -bias, (1 << bits) - 1 - bias
    word = defined_by(codes, "vector.bitcast")
    if word is None:
        return limits, lambda: arith.truncf(kind, (arith.sitofp if signed else arith.uitofp)(like(kind, "f32"), codes))
    if bits > float_.mantissa:
        return None

    def make() -> ir.Value:
        wide = arith.extui(ir.IntegerType.get_signless(_WORD), vector.extract(word.operands[0], [], [0]))
        both = _spread(wide, bits)
        low = (1 << bits) - 1
        taken = arith.andi(both, _number(low | low << 16))
        named = float_.base ^ bias
        pair = arith.xori(taken, _number(named | named << 16))
        one = vector.from_elements(ir.VectorType.get([1], pair.type), [pair])
        return arith.subf(vector.bitcast(kind, one), _floats(kind, (1 << float_.mantissa) + bias))

    return limits, make


def _spread(word: ir.Value, bits: int) -> ir.Value:
    """A word with the second of two numbers of few bits in the upper half too."""
    if bits == _NIBBLE:  # Copies of the byte do not meet: one instruction, where a shift and an or are two.
        return arith.muli(word, _number(1 | 1 << 16 - bits))
    return arith.ori(word, arith.shli(word, _number(16 - bits)))


def _number(number: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(_WORD), number)


def _floats(kind: ir.VectorType, number: int) -> ir.Value:
    splat = ir.FloatAttr.get(kind.element_type, float(number))
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, splat))
