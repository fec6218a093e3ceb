# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elements of four bits, two of which share a byte, read from operands in memory of bytes.

Upstream's emulation of narrow types knows memrefs of known layout only, and loads of whole rows.

Before: ``load %a[i, j] : memref<?x?xi4, strided<[?, 1]>>``. After, with the strides in elements, which are even but for the last::

    place = i * stride + j
    (load %bytes[place / 2] >> (4 * (place % 2))) & 15

Loads of vectors that say how they are aligned are of whole bytes. Registers of those are words, of which elements are taken where
they are used::

    words = load %bytes[place / 2] : vector<4xi8>, as vector<1xi32>
    ...
    (words >> (4 * j)) & 15
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import integer
from tilewright.build.index import Index, add, value
from tilewright.build.usedef import defined_by, operations, replace
from tilewright.build.views import DYNAMIC, metadata, reinterpreted
from tilewright.codegen.gpu import words
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, memref, vector

_BITS = 4


def take_apart(function: ir.Operation) -> bool:
    """Makes loads of such elements loads of bytes, and computes with them one by one; returns whether there are any."""
    found = False
    for op in operations(function):
        taken = None
        with ir.InsertionPoint(op), op.location:
            if op.name in ("memref.load", "vector.load") and _is_nibble(
                ir.MemRefType(op.operands[0].type).element_type
            ):
                taken = _load(op)
            elif op.name == "vector.bitcast" and _is_nibble(ir.VectorType(op.results[0].type).element_type):
                taken = _of_words(op)
        if taken is not None:
            found = True
            replace(op, taken)
    if found:
        words.expand(function, below=_BITS + 1)
    return found


def _is_nibble(element: ir.Type) -> bool:
    return isinstance(element, ir.IntegerType | ir.FloatType) and element.width == _BITS


def _load(op: ir.Operation) -> ir.Value:
    view, result = op.operands[0], op.results[0].type
    kind = ir.MemRefType(view.type)
    at = list(op.operands)[1:]
    buffer, start, strides = _bytes(view)
    *outer, last = at
    place = start
    for index, stride in zip(outer, strides, strict=False):
        place = add(place, arith.muli(index, stride))
    if op.name == "memref.load":
        return _element(buffer, add(place, arith.muli(last, strides[-1])), kind.element_type)
    count = ir.VectorType(result).shape[0]
    if "alignment" in op.attributes:
        return _whole_bytes(buffer, add(place, last), ir.VectorType(result))
    elements = [_element(buffer, add(place, add(last, each)), kind.element_type) for each in range(count)]
    return vector.from_elements(result, elements)


def _whole_bytes(buffer: ir.Value, place: Index, kind: ir.VectorType) -> ir.Value:
    """A vector that starts with a byte and ends with one."""
    count = kind.shape[0] * _BITS // 8
    loaded = vector.load(
        ir.VectorType.get([count], ir.IntegerType.get_signless(8)),
        buffer,
        [arith.shrui(value(place), value(1))],
        alignment=count,
    )
    return vector.bitcast(kind, loaded)


def _of_words(op: ir.Operation) -> ir.Value | None:
    """The elements of words, taken out one by one; None where they are not cast from words, but only to some."""
    source, kind = op.operands[0], ir.VectorType(op.results[0].type)
    held = ir.VectorType(source.type)
    if defined_by(source, "vector.load") is not None:
        return None
    size = ir.IntegerType(held.element_type).width
    word = ir.IntegerType.get_signless(words.WORD)
    elements = []
    for each in range(kind.shape[0]):
        number, shift = divmod(each * _BITS, size)
        bits = vector.extract(source, [], [number])
        bits = bits if size == words.WORD else arith.extui(word, bits)
        bits = arith.andi(arith.shrui(bits, arith.constant(word, shift)), arith.constant(word, 15))
        elements.append(words.as_element(kind.element_type, bits))
    return vector.from_elements(kind, elements)


def _bytes(view: ir.Value) -> tuple[ir.Value, Index, Sequence[ir.Value]]:
    """The bytes that a view is of, the element with which it starts, and its strides."""
    base, start, _, strides = metadata(view)
    # To both types LLVM's dialect gives the same one, so that nothing is left of this.
    same = ir.Operation.create("builtin.unrealized_conversion_cast", [ir.MemRefType.get([], integer(8))], [base])
    whole = reinterpreted(ir.MemRefType.get([DYNAMIC], integer(8)), same.results[0], sizes=[value(2**62)])
    return whole, start, strides


def _element(buffer: ir.Value, place: Index, element: ir.Type) -> ir.Value:
    """Element number `place` of a buffer of bytes."""
    place = value(place)
    byte = memref.load(buffer, [arith.shrui(place, value(1))])
    word = ir.IntegerType.get_signless(words.WORD)
    shift = arith.index_cast(word, arith.shli(arith.andi(place, value(1)), value(2)))
    bits = arith.andi(arith.shrui(arith.extui(word, byte), shift), arith.constant(word, 15))
    return words.as_element(element, bits)
