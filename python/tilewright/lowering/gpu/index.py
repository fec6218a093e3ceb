# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arithmetic with indices, in which numbers that are known stay numbers."""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.mlir.dialects import arith

Index = int | ir.Value


def value(index: Index) -> ir.Value:
    """`index` as a value of type index."""
    return arith.constant(ir.IndexType.get(), index) if isinstance(index, int) else index


def add(a: Index, b: Index) -> Index:
    """The sum."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if 0 in (known(a), known(b)):
        return b if known(a) == 0 else a
    return arith.addi(value(a), value(b))


def subtract(a: Index, b: Index) -> Index:
    """The difference."""
    return a - b if isinstance(a, int) and isinstance(b, int) else arith.subi(value(a), value(b))


def multiply(a: Index, factor: int) -> Index:
    """The product with a number."""
    if isinstance(a, int):
        return a * factor
    return a if factor == 1 else arith.muli(a, value(factor))


def divide(a: Index, by: Index) -> tuple[Index, Index]:
    """The quotient, rounded down, and the rest."""
    if isinstance(a, int) and isinstance(by, int):
        return divmod(a, by)
    if known(by) == 1:
        return a, 0
    return arith.divui(value(a), value(by)), arith.remui(value(a), value(by))


def least(a: Index, b: Index) -> Index:
    """The smaller one."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else arith.minui(value(a), value(b))


def exclusive_or(a: Index, b: Index) -> Index:
    """The bits that one of them has."""
    return a ^ b if isinstance(a, int) and isinstance(b, int) else arith.xori(value(a), value(b))


def below(a: Index, b: Index) -> ir.Value:
    """Whether a < b."""
    return arith.cmpi(arith.CmpIPredicate.ult, value(a), value(b))


def at_most(a: Index, b: Index) -> ir.Value:
    """Whether a <= b."""
    return arith.cmpi(arith.CmpIPredicate.ule, value(a), value(b))


def known(index: Index) -> int | None:
    """The number, where it is one."""
    return index if isinstance(index, int) else None
