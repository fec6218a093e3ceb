# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types and constants, of single numbers and of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith


def integer(bits: int) -> ir.IntegerType:
    """The integer type of so many bits."""
    return ir.IntegerType.get_signless(bits)


def bits_of(element: ir.Type) -> int:
    """Bits of an element."""
    kind = ir.IntegerType if isinstance(element, ir.IntegerType) else ir.FloatType
    return kind(element).width


def element_type(kind: ir.Type) -> ir.Type:
    """The type of a number, or of those in a vector or a memref."""
    return kind.element_type if isinstance(kind, (ir.VectorType, ir.MemRefType)) else kind


def element_of(number: ir.Value) -> ir.Type:
    """The type of a number, or of those in a vector or a memref."""
    return element_type(number.type)


def like(kind: ir.Type, element: ir.Type | str) -> ir.Type:
    """`element`, or a vector of it as long as the vector `kind`."""
    one = ir.Type.parse(element) if isinstance(element, str) else element
    return ir.VectorType.get(kind.shape, one, scalable=kind.scalable_dims) if isinstance(kind, ir.VectorType) else one


def attribute(element: ir.Type, number: float) -> ir.Attribute:
    """A number as an attribute."""
    if isinstance(element, (ir.IntegerType, ir.IndexType)):
        return ir.IntegerAttr.get(element, int(number))
    return ir.FloatAttr.get(element, float(number))


def constant(kind: ir.Type, number: float) -> ir.Value:
    """A number, in each element where `kind` is a vector."""
    return splat(kind, attribute(element_type(kind), number))


def splat(kind: ir.Type, number: ir.Attribute) -> ir.Value:
    """An attribute as a constant, in each element where `kind` is a vector."""
    vectors = isinstance(kind, ir.VectorType)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, number) if vectors else number)


def zero(kind: ir.Type) -> ir.Value:
    """Zero, in each element where `kind` is a vector."""
    return constant(kind, 0)


def numbers(element: ir.Type, given: Sequence[float]) -> ir.Value:
    """A vector of numbers."""
    kind = ir.VectorType.get([len(given)], element)
    if len(set(given)) == 1:
        return constant(kind, given[0])
    return arith.constant(kind, ir.DenseElementsAttr.get([attribute(element, each) for each in given], kind))
