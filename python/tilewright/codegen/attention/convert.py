# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts stored elements to the words that are multiplied: f32, or pairs of bf16 in i32."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import constant
from tilewright.codegen.attention.problem import load
from tilewright.dtypes import dtype
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector


def floats(
    buffer: ir.Value, indices: Sequence[ir.Value], element: str, count: int, whole: int | None = None
) -> ir.Value:
    """`count` elements of type `element` as f32; those from `whole` on are zero, and not read."""
    loaded = load(buffer, indices, dtype(element).mlir, count, whole)
    return loaded if element == "f32" else arith.extf(ir.VectorType.get([count], ir.F32Type.get()), loaded)


def halves(
    buffer: ir.Value, indices: Sequence[ir.Value], element: str, count: int, whole: int | None = None
) -> ir.Value:
    """The same as bf16, of types that bf16 holds without loss."""
    loaded = load(buffer, indices, dtype(element).mlir, count, whole)
    return loaded if element == "bf16" else arith.extf(ir.VectorType.get([count], ir.BF16Type.get()), loaded)


def words(
    buffer: ir.Value, indices: Sequence[ir.Value], element: str, lanes: int, *, pairs: bool, whole: int | None = None
) -> ir.Value:
    """`lanes` words of contiguous elements: numbers of f32, or pairs of bf16; zeros from element `whole` on."""
    if not pairs:
        return floats(buffer, indices, element, lanes, whole)
    return vector.bitcast(
        ir.VectorType.get([lanes], ir.IntegerType.get_signless(32)), halves(buffer, indices, element, 2 * lanes, whole)
    )


def interleaved(first: ir.Value, second: ir.Value) -> ir.Value:
    """Two vectors of bf16 as pairs: the first in the lower half of each i32."""
    count = ir.VectorType(first.type).shape[0]
    i16, i32 = (ir.VectorType.get([count], ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    low, high = (arith.extui(i32, arith.bitcast(i16, each)) for each in (first, second))
    sixteen = constant(i32, 16)
    return arith.ori(low, arith.shli(high, sixteen))


def narrowed(value: ir.Value, element: str) -> ir.Value:
    """A vector of f32 as another type."""
    if element == "f32":
        return value
    return arith.truncf(ir.VectorType.get(ir.VectorType(value.type).shape, ir.Type.parse(element)), value)
