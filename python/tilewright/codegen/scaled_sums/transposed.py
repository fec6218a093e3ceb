# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Words of several columns, side by side along K in memory, transposed in registers: lane i of a word's register is column i."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.mlir import ir
from tilewright.mlir.dialects import vector

QUAD = 4
"""Words of 32 bits in 128 bits, in which shuffles are cheapest."""


def transposed(columns: Sequence[ir.Value]) -> list[ir.Value]:
    """The same words with columns in the lanes: as many registers as each column has words, which are one or more quads.

    Before: register c is ``c0 c1 c2 c3 ...``. After: register w is ``0w 1w 2w 3w ...``. Every four columns are transposed within 128 bits,
    by two shuffles a register, and then the parts of 128 bits. Vectors have as many columns as words, or one quad of words.
    """
    lanes = ir.VectorType(columns[0].type).shape[0]
    if lanes == QUAD:
        each = [joined(columns[r::QUAD]) for r in range(QUAD)]
        return _in_quads(each)
    parts = [_in_quads(columns[at : at + QUAD]) for at in range(0, len(columns), QUAD)]
    by_word = [_across([each[word] for each in parts]) for word in range(QUAD)]
    return [by_word[word][part] for part in range(lanes // QUAD) for word in range(QUAD)]


def _in_quads(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """A 4 x 4 transpose within each 128 bits of four registers."""
    low, high = [0, 4, 1, 5], [2, 6, 3, 7]
    pairs = [_shuffled(rows[r], rows[r + 2], each) for each in (low, high) for r in (0, 1)]
    return [_shuffled(pairs[at], pairs[at + 1], each) for at in (0, 2) for each in (low, high)]


def _shuffled(first: ir.Value, second: ir.Value, order: Sequence[int]) -> ir.Value:
    """A shuffle that does the same to each 128 bits of two registers: numbers from 4 on are of the second one."""
    lanes = ir.VectorType(first.type).shape[0]
    places = [
        start + (each if each < QUAD else each - QUAD + lanes) for start in range(0, lanes, QUAD) for each in order
    ]
    return vector.shuffle(first, second, places)


def _across(registers: Sequence[ir.Value]) -> list[ir.Value]:
    """A transpose of parts of 128 bits: part q of register p becomes part p of register q."""
    if len(registers) == 1:
        return [*registers]
    lanes = ir.VectorType(registers[0].type).shape[0]
    halves = []
    for odd in (0, 1):
        one = [QUAD * part + word for part in range(odd, lanes // QUAD, 2) for word in range(QUAD)]
        both = [*one, *(lanes + each for each in one)]
        halves.append(
            _across([vector.shuffle(registers[at], registers[at + 1], both) for at in range(0, len(registers), 2)])
        )
    return [each for pair in zip(*halves, strict=True) for each in pair]


def joined(parts: Sequence[ir.Value]) -> ir.Value:
    """Registers of 128 bits, a power of two, as one."""
    while len(parts) > 1:
        lanes = ir.VectorType(parts[0].type).shape[0]
        both = list(range(2 * lanes))
        parts = [vector.shuffle(parts[at], parts[at + 1], both) for at in range(0, len(parts), 2)]
    return parts[0]
