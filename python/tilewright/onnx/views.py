# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a kernel sees a tensor of a model without a copy: with axes split, in another order, and neighbors joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

from tilewright.onnx.graph import Graph, Node, Size, Value
from tilewright.payload.abi import dlpack_code


@dataclass(frozen=True, slots=True)
class View:
    """A view of a tensor.

    Attributes:
        value: The tensor.
        split: Extents that its own are split to; ("own", i) stands for its axis i.
        axes: By axis of the view, those after splitting that are joined to it.
        extents: What the kernel takes: numbers, and names of extents that are dynamic; empty until `taken` says it.
        repeated: Whether the kernel is called for each index of the first axis.
        pack: The kernel's name, K, N and leading dimension, where it takes a matrix packed.
        halved: Whether it is a constant matrix with two elements in a byte, which the kernel takes as bytes.
    """

    value: Value
    split: tuple[Any, ...]
    axes: tuple[tuple[int, ...], ...]
    extents: tuple[int | str, ...] = ()
    repeated: bool = False
    pack: tuple[str, int, int, int] | None = None
    halved: bool = False

    @classmethod
    def of(cls, value: Value) -> View:
        """The tensor as it is."""
        rank = len(value.shape)
        return cls(value, tuple(("own", axis) for axis in range(rank)), tuple((axis,) for axis in range(rank)))

    @property
    def _sizes(self) -> tuple[Size, ...]:
        return tuple(self.value.shape[each[1]] if isinstance(each, tuple) else each for each in self.split)

    @property
    def shape(self) -> tuple[Size, ...]:
        """The extents of its axes: a name where one axis has it, None where several are joined and one is dynamic."""
        sizes, found = self._sizes, list[Size]()
        for joined in self.axes:
            own = [sizes[axis] for axis in joined if sizes[axis] != 1]
            numbers = [each for each in own if isinstance(each, int)]
            found.append(prod(numbers) if len(numbers) == len(own) else own[0] if len(own) == 1 else None)
        return tuple(found)

    @property
    def is_row_major(self) -> bool:
        """Whether elements of the last axis are neighbors."""
        return self._is_last(self.axes[-1]) if self.axes else True

    @property
    def is_column_major(self) -> bool:
        """Whether elements of the last but one axis are neighbors."""
        return len(self.axes) > 1 and self._is_last(self.axes[-2])

    def _is_last(self, joined: tuple[int, ...]) -> bool:
        sizes = self._sizes
        after = range(joined[-1] + 1, len(sizes)) if joined else ()
        return all(sizes[axis] == 1 for axis in after)

    def transposed(self, order: Sequence[int]) -> View:
        """The same with its axes in another order."""
        return replace(self, axes=tuple(self.axes[each] for each in order))

    def reshaped(self, shape: tuple[Size, ...]) -> View | None:
        """The same with another shape; None where that is no view of single axes."""
        if shape == self.shape:
            return self
        in_order = [axis for joined in self.axes for axis in joined] == list(range(len(self.split)))
        if not in_order or not all(isinstance(each, int) for each in (*shape, *self.shape)):
            return None
        return replace(self, split=shape, axes=tuple((axis,) for axis in range(len(shape))))

    def joined(self, groups: Sequence[Sequence[int]]) -> View | None:
        """The same with neighboring axes as one, and without axes of one element; None where some are no neighbors."""
        sizes, axes = self._sizes, list[tuple[int, ...]]()
        for group in groups:
            own = [axis for each in group for axis in self.axes[each] if sizes[axis] != 1]
            if any(other <= one or any(size != 1 for size in sizes[one + 1 : other]) for one, other in pairwise(own)):
                return None
            axes.append(tuple(own))
        return replace(self, axes=tuple(axes))

    def taken(self, extents: Sequence[int | str], repeated: bool = False) -> View:
        """The same with what the kernel takes."""
        return replace(self, extents=tuple(extents), repeated=repeated)

    def json(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """As the provider reads it, with the numbers of dynamic extents."""
        kind, bits = dlpack_code({"bool": "u8"}.get(self.value.type, self.value.type))
        made: dict[str, Any] = {
            "value": self.value.name,
            "split": [-1 - each[1] if isinstance(each, tuple) else each for each in self.split],
            "axes": self.axes,
            "extents": [-1 - numbers[each] if isinstance(each, str) else each for each in self.extents],
            "repeated": self.repeated,
            "kind": kind,
            "bits": bits,
        }
        if self.halved:
            made["halved"] = True
        return made if self.pack is None else {**made, "pack": self.pack}


@dataclass(frozen=True, slots=True)
class Traced:
    """Where a value comes from, through nodes that move nothing.

    Attributes:
        view: The value as a view of where it comes from.
        nodes: The nodes between, which nothing else uses.
        factor: What they multiply it with.
    """

    view: View
    nodes: tuple[Node, ...]
    factor: float


def trace(graph: Graph, value: Value, is_free: Callable[[Node], bool], scaled: bool = False) -> Traced:
    """The value as a view of the earliest tensor of which it is one.

    Args:
        graph: The graph.
        value: The value.
        is_free: Says of a node whether no group has it.
        scaled: Whether products with a number may lie between too.
    """
    back: list[Node] = []
    at = value
    while (node := graph.producers.get(at.name)) is not None and is_free(node) and graph.users(at) is not None:
        users, source = graph.users(at) or (), _moved(node, scaled)
        if len(users) != 1 or source is None:
            break
        back.append(node)
        at = source
    while True:
        view, factor = View.of(at), 1.0
        for index in reversed(range(len(back))):
            after = _after(view, back[index])
            if after is None:  # Start behind the node.
                at, back = _output(back[index]), back[:index]
                break
            view, factor = after[0], factor * after[1]
        else:
            return Traced(view, tuple(back), factor)


def _output(node: Node) -> Value:
    found = node.output
    assert found is not None
    return found


def _moved(node: Node, scaled: bool) -> Value | None:
    """The operand of a node that moves nothing; None for other nodes."""
    if node.op in ("Transpose", "Reshape"):
        return node.input(0)
    if scaled and node.op in ("Mul", "Div"):
        first, second = node.inputs
        if second and second.number is not None and first and first.shape == _output(node).shape:
            return first
        if node.op == "Mul" and first and first.number is not None and second and second.shape == _output(node).shape:
            return second
    return None


def _after(view: View, node: Node) -> tuple[View, float] | None:
    """The result of a node that moves nothing, for a view of its operand, and what it multiplies with."""
    if node.op == "Transpose":
        rank = len(view.axes)
        return view.transposed(node.attributes.get("perm") or range(rank)[::-1]), 1.0
    if node.op == "Reshape":
        made = view.reshaped(_output(node).shape)
        return None if made is None else (made, 1.0)
    number = next(each.number for each in node.inputs if each and each.number is not None)
    if node.op == "Div":
        return None if number == 0 else (view, 1 / number)
    return view, number
