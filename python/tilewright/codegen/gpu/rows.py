# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pieces of rows, moved by one thread: whole ones as vectors, those over an edge element by element."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.index import Index, add, less, less_equal, values
from tilewright.build.loops import if_else, when
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector


def load(view: ir.Value, at: Sequence[Index], extents: Sequence[Index], width: int, fill: ir.Value) -> ir.Value:
    """The `width` elements of the last axis from `at` on; `fill` stands for those beyond the extents.

    The extents are those of `view` that may be read, each at least 1.
    """
    kind = ir.VectorType.get([width], ir.MemRefType(view.type).element_type)
    whole = _inside(at[:-1], extents[:-1])
    whole = _both(whole, less_equal(add(at[-1], width), extents[-1]))

    def at_once() -> list[ir.Value]:
        return [vector.load(kind, view, values(at))]

    def one_by_one() -> list[ir.Value]:
        # What is beyond the extents is not touched: nor is another element in its place, which a copy may be writing.
        inside = _inside(at[:-1], extents[:-1])
        elements = []
        for each in range(width - 1):
            place = values((*at[:-1], add(at[-1], each)))
            is_inside = _both(inside, less(place[-1], extents[-1]))
            elements += if_else(is_inside, lambda place=place: [memref.load(view, place)], lambda: [fill], [fill.type])
        return [vector.from_elements(kind, [*elements, fill])]  # With the last one inside, all were.

    return if_else(whole, at_once, one_by_one, [kind])[0]


def store(row: ir.Value, view: ir.Value, at: Sequence[Index], extents: Sequence[Index]) -> None:
    """Writes a vector to the elements of the last axis from `at` on, as far as they are within the extents."""
    width = ir.VectorType(row.type).shape[0]
    inside = _inside(at[:-1], extents[:-1])

    def at_once() -> None:
        vector.store(row, view, values(at))

    def one_by_one() -> None:
        for each in range(width - 1):  # With the last one inside, all were.
            column = add(at[-1], each)
            with when(_both(inside, less(column, extents[-1]))):
                element = vector.extract(row, [], [each])
                memref.store(element, view, values((*at[:-1], column)))

    whole = _both(inside, less_equal(add(at[-1], width), extents[-1]))
    if_else(whole, at_once, one_by_one)


def _inside(at: Sequence[Index], extents: Sequence[Index]) -> ir.Value | None:
    """Whether all of `at` are; None where there are none."""
    inside = None
    for index, extent in zip(at, extents, strict=True):
        inside = _both(inside, less(index, extent))
    return inside


def _both(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else arith.andi(a, b)
