# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds dynamic extents of a function that must be equal, because an op iterates over them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from tilewright.errors import SpecError
from tilewright.mlir import ir
from tilewright.payload.modules.contractions import axes
from tilewright.payload.modules.open_extents import OPEN
from tilewright.payload.text import place

Name = Union[int, str]  # noqa: UP007 - evaluated by Python 3.10 in other modules
"""An extent: its number, or the name of a dynamic one."""
_Place = tuple[ir.Value, int]
"""An axis of a tensor."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """The extents of a function's tensors.

    Attributes:
        arguments: Of each argument.
        results: Of each result.
    """

    arguments: tuple[tuple[Name, ...], ...]
    results: tuple[tuple[Name, ...], ...]


def of(function: ir.Operation, filename: str) -> Boundary:
    """The extents of the arguments and results of `function`, on tensors; equal ones have one name, d0, d1 ….

    Calls check that extents of one name are the same, so that no op reads or writes beyond one of its tensors.

    Raises:
        SpecError: Two extents that an op iterates over together differ, or one does not follow from the arguments.
    """
    return _Finder(function, filename).boundary()


@dataclass(slots=True)
class _Class:
    """Places of one extent.

    Attributes:
        number: The extent, where it is known.
        name: Its name, where an argument has it.
        products: The places, some of them, whose extents multiplied make it.
    """

    number: int | None = None
    name: str | None = None
    products: list[list[_Place]] = field(default_factory=list)


class _Finder:
    """Goes through the ops of one function."""

    def __init__(self, function: ir.Operation, filename: str) -> None:
        self._function = function
        self._filename = filename
        self._parents: dict[_Place, _Place] = {}
        self._classes: dict[_Place, _Class] = {}

    def boundary(self) -> Boundary:
        block = self._function.regions[0].blocks[0]
        names = 0
        for each in block.operations:
            self._op(each.operation)
        for argument in block.arguments:
            for axis in range(ir.ShapedType(argument.type).rank):
                found = self._class((argument, axis))
                if found.number is None and found.name is None:
                    found.name, names = f"d{names}", names + 1
        for place_ in list(self._parents):
            self._check(place_)
        returned = list(block.operations)[-1].operation
        return Boundary(
            tuple(self._named(each, self._function) for each in block.arguments),
            tuple(self._named(each, returned) for each in returned.operands),
        )

    def _named(self, value: ir.Value, at: ir.Operation) -> tuple[Name, ...]:
        found = []
        for axis in range(ir.ShapedType(value.type).rank):
            each = self._class((value, axis))
            name = each.number if each.number is not None else each.name
            if name is None:
                raise self._error(at, f"extent {axis} of a result, a {value.type}, is none of the arguments'")
            found.append(name)
        return tuple(found)

    def _error(self, op: ir.Operation, what: str) -> SpecError:
        remedy = "Compile one module for each size"
        return SpecError(what, where=place(op.location, self._filename), expected="extents of arguments", remedy=remedy)

    def _root(self, at: _Place) -> _Place:
        if at not in self._parents:
            self._parents[at] = at
            extent = ir.ShapedType(at[0].type).shape[at[1]]
            self._classes[at] = _Class(None if extent == OPEN else extent)
        while self._parents[at] != at:
            at = self._parents[at]
        return at

    def _class(self, at: _Place) -> _Class:
        return self._classes[self._root(at)]

    def _join(self, op: ir.Operation, places: Sequence[_Place]) -> None:
        """Merges the classes of axes that have the same extent."""
        for at in places[1:]:
            first, second = self._root(places[0]), self._root(at)
            if first == second:
                continue
            one, other = self._classes[first], self._classes.pop(second)
            self._parents[second] = first
            if None not in (one.number, other.number) and one.number != other.number:
                raise self._error(op, f"{op.name} goes along extents of {one.number} and {other.number}")
            one.number = other.number if one.number is None else one.number
            one.products += other.products

    def _op(self, op: ir.Operation) -> None:
        shaped = [each for each in (*op.operands, *op.results) if isinstance(each.type, ir.RankedTensorType)]
        if op.name == "func.return" or not any(OPEN in ir.ShapedType(each.type).shape for each in shaped):
            return
        if op.name == "linalg.generic":
            self._generic(op)
        elif op.name == "tensor.cast":
            for axis in range(ir.ShapedType(op.results[0].type).rank):
                self._join(op, [(op.operands[0], axis), (op.results[0], axis)])
        elif op.name in ("tensor.empty", "tensor.splat"):
            sizes = [each for each in op.operands if isinstance(each.type, ir.IndexType)]
            self._sized(op, sizes)
        elif op.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            self._reshape(op)
        elif op.name != "tensor.dim":
            kind = next(each.type for each in shaped if OPEN in ir.ShapedType(each.type).shape)
            raise self._error(op, f"{op.name} of a {kind}, with a dynamic extent, is not supported yet")

    def _sized(self, op: ir.Operation, sizes: Sequence[ir.Value]) -> None:
        """The extents of a result, with `sizes` for the dynamic ones, in order."""
        given = iter(sizes)
        for axis, extent in enumerate(ir.ShapedType(op.results[0].type).shape):
            if extent == OPEN:
                self._join(op, [self._asked(op, next(given)), (op.results[0], axis)])

    def _asked(self, op: ir.Operation, size: ir.Value) -> _Place:
        """The place of which `size` is the extent."""
        asks = size.owner.operation if isinstance(size, ir.OpResult) else None
        if asks is None or asks.name != "tensor.dim":
            raise self._error(op, f"{op.name} with a size that is no tensor's extent is not supported yet")
        index = asks.operands[1].owner.operation
        return asks.operands[0], ir.IntegerAttr(index.attributes["value"]).value

    def _generic(self, op: ir.Operation) -> None:
        along: dict[int, list[_Place]] = {}
        first = len(op.operands) - len(op.results)
        for number, (value, attribute) in enumerate(
            zip(op.operands, ir.ArrayAttr(op.attributes["indexing_maps"]), strict=True)
        ):
            found = axes(attribute)
            if found is None:
                what = f"{op.name} that shifts an index along a dynamic extent is not supported yet"
                raise self._error(op, what)
            for axis, dimension in enumerate(found):
                along.setdefault(dimension, []).append((value, axis))
                if number >= first:
                    self._join(op, [(value, axis), (op.results[number - first], axis)])
        for places in along.values():
            self._join(op, places)

    def _reshape(self, op: ir.Operation) -> None:
        whole, parts = op.operands[0], op.results[0]
        if op.name == "tensor.collapse_shape":
            whole, parts = parts, whole
        else:
            self._sized(op, list(op.operands)[1:])
        for axis, group in enumerate(ir.ArrayAttr(op.attributes["reassociation"])):
            factors = [(parts, ir.IntegerAttr(each).value) for each in ir.ArrayAttr(group)]
            several = [each for each in factors if ir.ShapedType(parts.type).shape[each[1]] != 1]
            if len(several) == 1:
                self._join(op, [(whole, axis), *several])
            elif any(ir.ShapedType(parts.type).shape[each[1]] == OPEN for each in several):
                self._class((whole, axis)).products.append(several)

    def _key(self, factors: Sequence[_Place]) -> tuple[str, ...] | None:
        """What the product of several extents is; None when one of them is no argument's."""
        found = [self._class(each) for each in factors]
        if any(each.number is None and each.name is None for each in found):
            return None
        return tuple(sorted(str(each.name if each.number is None else each.number) for each in found))

    def _check(self, at: _Place) -> None:
        """Checks that an extent is one of an argument, or one and the same product of those."""
        found = self._class(at)
        keys = {self._key(each) for each in found.products}
        told = found.number is not None or found.name is not None
        fits = not told and len(keys) == 1 and None not in keys if keys else told
        if not fits:
            op = at[0].owner.operation if isinstance(at[0], ir.OpResult) else self._function
            raise self._error(op, f"what extent {at[1]} of a {at[0].type} is, the arguments do not tell")
