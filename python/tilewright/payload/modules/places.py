# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The memory layout of a product's operands as kernels take them: matrices, perhaps transposed, in loops over the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tilewright.build.index import Index
from tilewright.build.tensors import carried, collapse, expand, extract, insert
from tilewright.dims import Extent, most
from tilewright.entries import A_AXES, B_AXES, EPILOGUE_AXES
from tilewright.mlir import ir
from tilewright.mlir.dialects import tensor
from tilewright.payload.generics import generic
from tilewright.payload.modules import open_extents
from tilewright.payload.modules.contractions import Contraction

Axes = tuple[int, ...]
"""The dimensions of a product that the axes of an operand go along."""
Merged = tuple[Axes, ...]
"""The same, where neighboring axes are taken for one."""

STAND_IN = "product"
"""The attribute of an op that stands for a product: the number of its spec."""
ORDERS = "orders"
"""Another one, of a batch: of each operand, which of its axes each dimension that the product takes is; -1 for none."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a product's operands lie.

    Attributes:
        extents: M, N and K of each product.
        layout: How A and B are stored.
        swapped: Whether the second operand is A: the result is then stored transposed.
        further: The axes of further operands, as an epilogue names them.
        batch: The dimensions of the batch.
        orders: With a batch, which axis of each operand the kernel takes for each dimension; -1 for none.
        loops: The dimensions over which one product after the other is computed.
        sizes: The extent of each dimension.
        operands: Of A, B, further operands and the result, in this order, the axes.
    """

    extents: tuple[Extent, Extent, Extent]
    layout: str
    swapped: bool
    further: tuple[str, ...]
    batch: Axes
    orders: tuple[tuple[int, ...], ...]
    loops: Axes
    sizes: tuple[Extent, ...]
    operands: tuple[Merged, ...]

    def build(self, operands: Sequence[ir.Value], number: int, kind: ir.Type) -> ir.Value:
        """The op that stands for the product number `number`, in its loops; returns a tensor of type `kind`.

        Before: A of B×M×K, B of K×N elements. After::

            for b in 0..B: C[b] = product(A[b], B)

        Where a kernel takes the loops for a batch, there is one product and no loop.
        """
        a, b, *rest = operands
        ordered = [b, a, *rest] if self.swapped else operands
        given = [_collapsed(value, axes) for value, axes in zip(ordered, self.operands, strict=False)]
        result = ir.RankedTensorType(kind)
        into = tensor.empty([self._size(axis, given) for axis in self.operands[-1]], result.element_type)
        steps = {each: self._size((each,), given) for each in self.loops}
        whole = self._nest(steps, {}, into, lambda at, out: self._step(given, number, at, out))
        sizes = [self._size((each,), ordered, whole=False) for axis in self.operands[-1] for each in axis]
        return _expanded(whole, self.operands[-1], result, sizes)

    def batch_of(self, operand: int) -> tuple[Extent, ...]:
        """The extents of the batch that A, number 0, or B, number 1, has, with ones in place of those that it lacks."""
        has = {each for axis in self.operands[operand] for each in axis}
        own = tuple(self.sizes[each] if each in has else 1 for each in self.batch)
        return own if any(size != 1 for size in own) else ()

    def _size(self, axis: Axes, operands: Sequence[ir.Value], *, whole: bool = True) -> int | ir.Value:
        """The extent of an axis: a number, or that of an operand that has it; `whole` where merged axes of those are one."""
        extent = open_extents.product(self.sizes[each] for each in axis)
        if isinstance(extent, int):
            return extent
        for value, axes in zip(operands, self.operands, strict=False):
            places: list[Axes] = list(axes) if whole else [(each,) for merged in axes for each in merged]
            if axis in places:
                return open_extents.size(value, places.index(axis))
        raise AssertionError("each dimension of a product is one of an operand")

    def _nest(
        self,
        loops: dict[int, int | ir.Value],
        at: dict[int, ir.Value],
        out: ir.Value,
        body: Callable[[dict[int, ir.Value], ir.Value], ir.Value],
    ) -> ir.Value:
        """The loops, from the outermost one, around `body`."""
        if not loops:
            return body(at, out)
        (first, end), *others = loops.items()
        rest = dict(others)
        if end == 1:
            return self._nest(rest, at, out, body)
        return carried(end, 1, out, lambda index, into: self._nest(rest, {**at, first: index}, into, body))

    def _step(self, given: Sequence[ir.Value], number: int, at: dict[int, ir.Value], out: ir.Value) -> ir.Value:
        """One product."""
        values = [*given, out]
        slices = [self._slice(value, axes, at) for value, axes in zip(values, self.operands, strict=True)]
        kept = [[axis for axis in axes if axis[0] not in self.loops] for axes in self.operands]
        result = stand_in(slices, kept, number)
        if self.orders:
            integer = ir.IntegerType.get_signless(64)
            orders = [ir.ArrayAttr.get([ir.IntegerAttr.get(integer, at) for at in order]) for order in self.orders]
            result.owner.attributes[ORDERS] = ir.ArrayAttr.get(orders)
        if slices[-1] == out:
            return result
        return insert(result, out, *self._bounds(out, self.operands[-1], at))

    def _slice(self, value: ir.Value, axes: Merged, at: dict[int, ir.Value]) -> ir.Value:
        """The part of an operand that one product takes."""
        if not any(axis[0] in self.loops for axis in axes):
            return value
        whole = ir.RankedTensorType(value.type)
        shape = [extent for extent, axis in zip(whole.shape, axes, strict=True) if axis[0] not in self.loops]
        kind = ir.RankedTensorType.get(shape, whole.element_type)
        return extract(value, *self._bounds(value, axes, at), kind)

    def _bounds(self, whole: ir.Value, axes: Merged, at: dict[int, ir.Value]) -> tuple[list[Index], list[Index]]:
        """Where the slice of a tensor at the place `at` in the loops starts, and its sizes."""
        starts: list[Index] = [at.get(axis[0], 0) for axis in axes]
        sizes: list[Index] = [
            1 if axis[0] in self.loops else open_extents.size(whole, number) for number, axis in enumerate(axes)
        ]
        return starts, sizes


def place(contraction: Contraction, result: Axes, further: Sequence[Axes], sides: Sequence[str]) -> Place | None:
    """How kernels take a product whose result's axes go along `result`, and those of further operands along `further`.

    `sides` tells of each of those whether it belongs to what is done to the first operand, "a", the second, "b", or the sums,
    "c". None where the elements that have to be neighbors are not.
    """
    maps = [*contraction.maps[:2], *further, result]
    operands = _merged(maps, contraction)
    chosen: dict[str, Axes] = {}
    for axes in operands:
        for axis in axes:
            kind, extent = contraction.kind(axis[0]), _most(contraction, axis)
            best = chosen.get(kind)
            if kind != "batch" and (best is None or extent > _most(contraction, best)):
                chosen[kind] = axis
    loops = []
    for axes in operands:
        for axis in axes:
            if axis not in chosen.values() and axis[0] not in loops:
                if axis[1:] or contraction.kind(axis[0]) == "k":
                    return None
                loops.append(axis[0])
    for axes in operands:
        inside = [axis[0] not in loops for axis in axes]
        if any(inside) and not inside[-1] and any(most(contraction.extents[each]) > 1 for each in axes[-1]):
            return None
    names = {axis[0]: kind for kind, axis in chosen.items()}
    a, b, *others, c = ["".join(names[axis[0]] for axis in axes if axis[0] not in loops) for axes in operands]
    swapped = c == "nm"
    if swapped:
        a, b = exchanged(b, swapped=True), exchanged(a, swapped=True)
        others = [exchanged(each, swapped=True) for each in others]
    known = {"a": B_AXES, "b": A_AXES} if swapped else {"a": A_AXES, "b": B_AXES}
    if any(each not in known.get(side, EPILOGUE_AXES) for each, side in zip(others, sides, strict=True)):
        return None
    layout = ("t" if a == "km" else "n") + ("t" if b == "nk" else "n")
    sizes = {kind: open_extents.product(contraction.extents[each] for each in axis) for kind, axis in chosen.items()}
    m, n, k = (sizes.get(each, 1) for each in "mnk")
    extents = (n, m, k) if swapped else (m, n, k)
    ordered = (operands[1], operands[0], *operands[2:]) if swapped else operands
    several = tuple(each for each in loops if most(contraction.extents[each]) > 1)
    letters = {axis[0]: exchanged(names[axis[0]], swapped=swapped) for axis in chosen.values()}
    further_axes, orders = tuple(others), ()
    if several:
        single = [each for each in loops if each not in several]
        found = _orders(ordered, several, single, letters, (layout, *others))
        if found is not None:
            further_axes, orders, loops = *found, single
    batch = several if orders else ()
    return Place(extents, layout, swapped, further_axes, batch, orders, tuple(loops), contraction.extents, ordered)


def _most(contraction: Contraction, axis: Axes) -> int:
    """The most elements that an axis can have."""
    return most(open_extents.product(contraction.extents[each] for each in axis))


def exchanged(axes: str, *, swapped: bool) -> str:
    """The axes of an operand where the second operand is A."""
    return axes.translate(str.maketrans("mn", "nm")) if swapped else axes


def _orders(
    operands: Sequence[Merged], batch: Axes, single: Sequence[int], letters: dict[int, str], stored: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]] | None:
    """The axes of further operands, and which axis of each operand is which dimension of a product with that batch.

    A further operand that has elements for each entry of a batch has one for each of a matrix; those of a row are read for
    all rows. None where one lies otherwise.
    """
    layout, *others = stored
    wanted = ["km" if layout[0] == "t" else "mk", "nk" if layout[1] == "t" else "kn"]
    orders = []
    for number, axes in enumerate(operands):
        kept = [axis[0] for axis in axes if axis[0] not in single]
        own = wanted[number] if number < len(wanted) else "mn" if number + 1 == len(operands) else others[number - 2]
        if len(wanted) <= number and any(each in batch for each in kept):
            if own not in ("mn", "n"):
                return None
            own = "mn"
        whole = number < len(wanted) or own == "mn"
        places = {letters.get(each, each): position for position, each in enumerate(kept)}
        named = [each for each in batch if number >= len(wanted) or each in places] if whole else []
        orders.append(tuple(places.get(each, -1) for each in (*named, *own)))
        if len(wanted) <= number < len(operands) - 1:
            others[number - len(wanted)] = own
    return tuple(others), tuple(orders)


def _merged(maps: Sequence[Axes], contraction: Contraction) -> tuple[Merged, ...]:
    """The axes of all operands, with dimensions of one kind taken for one where they are neighbors in every operand."""
    operands: list[list[Axes]] = [[(each,) for each in axes] for axes in maps]

    def neighbors(first: Axes, second: Axes) -> bool:
        for axes in operands:
            if (first in axes) != (second in axes):
                return False
            if first in axes and axes.index(second) != axes.index(first) + 1:
                return False
        return True

    pairs = [(first, second) for axes in operands for first, second in pairwise(axes)]
    for first, second in pairs:
        kinds = {contraction.kind(first[0]), contraction.kind(second[0])}
        if len(kinds) == 1 and kinds != {"batch"} and neighbors(first, second):
            operands = [
                [first + second if axis == first else axis for axis in axes if axis != second] for axes in operands
            ]
            return _merged_again(operands, contraction)
    return tuple(tuple(axes) for axes in operands)


def _merged_again(operands: list[list[Axes]], contraction: Contraction) -> tuple[Merged, ...]:
    """`_merged` of axes some of which are merged already."""
    names = {axis: axis[0] for axes in operands for axis in axes}
    again = _merged([tuple(names[axis] for axis in axes) for axes in operands], contraction)
    whole = {axis[0]: axis for axis in names}
    return tuple(tuple(sum((whole[each] for each in axis), ()) for axis in axes) for axes in again)


def _groups(axes: Merged) -> list[list[int]]:
    """The axes of a tensor that become one, as reshapes have them."""
    starts = accumulate(map(len, axes), initial=0)
    return [list(range(start, start + len(axis))) for start, axis in zip(starts, axes, strict=False)]


def _collapsed(value: ir.Value, axes: Merged) -> ir.Value:
    """An operand with its merged axes as one each."""
    if all(len(axis) == 1 for axis in axes):
        return value
    extents = [open_extents.known(each) for each in ir.RankedTensorType(value.type).shape]
    shape = [open_extents.shaped(open_extents.product(extents[each] for each in group)) for group in _groups(axes)]
    return collapse(value, shape, _groups(axes))


def _expanded(value: ir.Value, axes: Merged, kind: ir.RankedTensorType, sizes: Sequence[int | ir.Value]) -> ir.Value:
    """A result with an axis, of one of `sizes`, for each dimension that was merged."""
    return value if all(len(axis) == 1 for axis in axes) else expand(value, kind.shape, _groups(axes), sizes)


def stand_in(values: Sequence[ir.Value], axes: Sequence[Sequence[Axes]], number: int) -> ir.Value:
    """An op with the operands of a product, that reads them all; `axes` says which dimension each axis goes along."""
    *inputs, out = values
    dimensions = list(dict.fromkeys(each for operand in (axes[-1], *axes) for each in operand))
    maps = [
        ir.AffineMap.get(len(dimensions), 0, [ir.AffineDimExpr.get(dimensions.index(each)) for each in operand])
        for operand in axes
    ]

    def body(*read: ir.Value) -> ir.Value:
        return stand_in_element(read[-1].type, read[:-1])

    made = generic(inputs, out, maps, body, range(len(set(axes[-1])), len(dimensions)))
    ir.OpResult(made).owner.attributes[STAND_IN] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    return made


def stand_in_element(kind: ir.Type, read: Sequence[ir.Value]) -> ir.Value:
    """What an op that stands for something makes of the elements that it reads: it says nothing but that it reads them."""
    return ir.Operation.create("builtin.unrealized_conversion_cast", results=[kind], operands=list(read)).results[0]
