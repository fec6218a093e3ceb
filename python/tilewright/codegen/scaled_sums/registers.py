# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of matrices in registers: read, written and put in order, a vector of fixed length at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.build.constants import constant, integer
from tilewright.build.index import Index, round_down
from tilewright.build.vectors import bits_as, fixed
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector

Order = Sequence[Sequence[int]]
"""Of each register, the number of the element in each lane."""


def as_floats(value: ir.Value, element: DType) -> ir.Value:
    """Elements of type `element`, of at most f32, as f32."""
    kind = ir.VectorType(value.type)
    wide = fixed(kind.shape[0], ir.F32Type.get())
    if element.kind == "float":
        return value if value.type == wide else arith.extf(wide, value)
    middle = fixed(kind.shape[0], ir.IntegerType.get_signless(32))
    widened = (arith.extsi if element.kind == "int" else arith.extui)(middle, value)
    return arith.sitofp(wide, widened)


def placed(value: ir.Value, element: DType, places: Sequence[int]) -> ir.Value:
    """Elements of type `element` as f32, in each lane the one at that place.

    A bf16 is the upper half of its f32: one look-up of halves and zeros widens and spreads it.
    """
    if element.name != "bf16":
        widened = as_floats(value, element)
        return vector.shuffle(widened, widened, places)
    halves = bits_as(value, integer(16))
    zeros = constant(halves.type, 0)
    count = ir.VectorType(value.type).shape[0]
    return bits_as(
        vector.shuffle(halves, zeros, [half for place in places for half in (count, place)]), ir.F32Type.get()
    )


def sorted_(registers: Sequence[ir.Value], order: Order) -> list[ir.Value]:
    """The elements of some registers, a power of two, in the order of their numbers.

    Each step exchanges two bits of an element's place: one of its register's number for one of its lane. It takes a look-up in
    two registers for each of them. Before: lane i of register j has number 8 * i + j. After: number 16 * j + i.
    """
    lanes = len(order[0])
    values, labels = list(registers), [list(each) for each in order]
    if len(values) == 1:
        places = inverse(order)[0]
        return values if places == [*range(lanes)] else [vector.shuffle(values[0], values[0], places)]
    for bit in (1 << shift for shift in range(lanes.bit_length() - 1, (lanes * len(values) - 1).bit_length())):
        if all(len({label & bit for label in each}) == 1 for each in labels):
            continue
        values, labels = _parted(values, labels, bit)
    places = sorted(range(len(values)), key=lambda number: labels[number][0])
    return [values[number] for number in places]


def _parted(values: list[ir.Value], labels: list[list[int]], bit: int) -> tuple[list[ir.Value], list[list[int]]]:
    """Pairs of registers, each parted into one with the numbers that have `bit` and one with those that do not."""
    lanes = len(labels[0])
    parted, numbers_, left = [], [], list(range(len(values)))
    while left:
        first = left.pop(0)
        # A partner differs in one bit of the lowest ones, so that the other bits stay together.
        second = next(each for each in left if _differ_in_one(labels[first], labels[each], lanes))
        left.remove(second)
        both = sorted((label, place) for place, label in enumerate(labels[first] + labels[second]))
        for with_bit in (0, bit):
            chosen = [(label, place) for label, place in both if label & bit == with_bit]
            numbers_.append([label for label, _ in chosen])
            parted.append(vector.shuffle(values[first], values[second], [place for _, place in chosen]))
    return parted, numbers_


def _differ_in_one(x: Sequence[int], y: Sequence[int], lanes: int) -> bool:
    """Whether the numbers in two registers are the same but for one bit below `lanes`."""
    difference = min(x) ^ min(y)
    return 0 < difference < lanes and difference & (difference - 1) == 0


def inverse(order: Order) -> Order:
    """Of elements in order, the places that they have in `order`."""
    lanes = len(order[0])
    places = {label: lanes * register + lane for register, row in enumerate(order) for lane, label in enumerate(row)}
    return [[places[lanes * register + lane] for lane in range(lanes)] for register in range(len(order))]


def pieces(extent: Index, size: int) -> list[tuple[bool, Index, Index]]:
    """Where whole pieces of an extent begin and end, and where the last one does, which is short; those that there are."""
    whole = round_down(extent, size)
    found: list[tuple[bool, Index, Index]] = []
    if not isinstance(whole, int) or whole:
        found.append((True, 0, whole))
    if not isinstance(extent, int) or whole != extent:
        found.append((False, whole, extent))
    return found
