# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Groups of nodes that one kernel computes, and the chain of nodes after a product that its epilogue takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType
from typing import Any

from tilewright.entries import Epilogue
from tilewright.onnx.graph import Graph, Node, Size, Value
from tilewright.onnx.views import View
from tilewright.payload import epilogues
from tilewright.payload.spec_tables import Spec
from tilewright.spec import MatmulSpec


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes that one kernel computes.

    Attributes:
        nodes: They.
        spec: What the kernel computes.
        operands: What it takes.
        result: What it makes.
        shape: The result's extents in the model: numbers, or the operand and its axis that has it.
    """

    nodes: tuple[Node, ...]
    spec: Spec
    operands: tuple[View, ...]
    result: View
    shape: tuple[int | tuple[int, int], ...]

    @property
    def is_plain(self) -> bool:
        """Whether the kernel's entry is that of a product of two matrices."""
        return isinstance(self.spec, MatmulSpec) and not self.spec.takes_tensors

    @property
    def specs(self) -> tuple[Spec, ...]:
        """What its kernels compute."""
        return (self.spec,)

    def json(self, names_of_kernels: Mapping[Any, str]) -> dict[str, Any]:
        """As the provider reads it, with the names of kernels by their specs."""
        name = names_of_kernels[self.spec]
        operands = [each if each.pack is None else replace(each, pack=(name, *each.pack[1:])) for each in self.operands]
        views = (*operands, self.result)
        names = dict.fromkeys(each for view in views for each in view.extents if isinstance(each, str))
        numbers = {each: number for number, each in enumerate(names)}
        spec = self.spec
        turned = [spec.a_transposed, spec.b_transposed] if isinstance(spec, MatmulSpec) else [False, False]
        return {
            "nodes": [each.words for each in self.nodes],
            "entry": name,
            "plain": self.is_plain,
            "transposed": turned,
            "operands": [each.json(numbers) for each in operands],
            "result": self.result.json(numbers),
            "shape": [[each] if isinstance(each, int) else list(each) for each in self.shape],
        }


@dataclass
class Grouping:
    """The groups of a graph, as they are found.

    Attributes:
        graph: The graph.
        found: The groups, each with `nodes`, `specs` and `json`.
    """

    graph: Graph
    found: list[Any] = field(default_factory=list)

    def is_free(self, node: Node) -> bool:
        """Whether no group has a node."""
        return all(node is not each for group in self.found for each in group.nodes)


def shape_of(result: Value, operands: Sequence[View]) -> tuple[int | tuple[int, int], ...] | None:
    """The extents of a result by those of its operands; None where one is in none of them."""
    found: list[int | tuple[int, int]] = []
    for size in result.shape:
        if isinstance(size, int):
            found.append(size)
            continue
        places = [
            (number, axis)
            for number, view in enumerate(operands)
            for axis, own in enumerate(view.value.shape)
            if size is not None and own == size
        ]
        if not places:
            return None
        found.append(places[0])
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Further:
    """An operand of an epilogue: a value, and the axes that it has of "m", "n" and "mn"."""

    value: Value
    axes: str


@dataclass(frozen=True, eq=False)
class Tail:
    """What is done to each element of a product, by nodes after it.

    Attributes:
        nodes: They.
        entries: The same as entries of an epilogue.
        further: Their operands.
        value: The result.
    """

    nodes: tuple[Node, ...]
    entries: tuple[Epilogue, ...]
    further: tuple[Further, ...]
    value: Value


_UNARY: Mapping[str, Callable[[Mapping[str, Any]], Epilogue]] = MappingProxyType(
    {
        "Relu": lambda attributes: epilogues.relu(),
        "Sigmoid": lambda attributes: epilogues.sigmoid(),
        "Tanh": lambda attributes: epilogues.tanh(),
        "Exp": lambda attributes: epilogues.exp(),
        "HardSwish": lambda attributes: epilogues.hardswish(),
        "LeakyRelu": lambda attributes: epilogues.leaky_relu(attributes.get("alpha", 0.01)),
        "Gelu": lambda attributes: epilogues.gelu({"none": "erf"}.get(attributes.get("approximate", "none"), "tanh")),
        "com.microsoft.Gelu": lambda attributes: epilogues.gelu(),
    }
)
"""What nodes of one operand do, as an entry."""
_BINARY = {"Add": epilogues.residual, "Mul": epilogues.multiply}


def tail(grouping: Grouping, value: Value, columns: int) -> Tail:
    """The nodes after a product that its epilogue takes.

    Args:
        grouping: The groups so far, whose nodes are left.
        value: The product.
        columns: The axis of it along which operands have one element each: -1, or 1 for images.
    """
    nodes: list[Node] = []
    entries: list[Epilogue] = []
    further: list[Further] = []
    while (step := _step(grouping, value, columns)) is not None:
        more, entry, operand, value = step
        nodes += more
        entries += [] if entry is None else [entry]
        further += [] if operand is None else [operand]
    return Tail(tuple(nodes), tuple(entries), tuple(further), value)


_Step = tuple[tuple[Node, ...], Epilogue | None, Further | None, Value]


def _step(grouping: Grouping, value: Value, columns: int) -> _Step | None:
    """The next nodes, what they do, with which operand, and their result; None where no entry does what is next."""
    users = grouping.graph.users(value)
    if not users or not all(grouping.is_free(each) for each in users):
        return None
    if len(users) == 2:
        return _gated(grouping, value, users)
    node = users[0]
    result = node.output
    if len(users) > 1 or result is None or result.type != value.type:
        return None
    if node.op == "Reshape":
        is_view = value.is_static and result.is_static and result.shape[-1:] == value.shape[-1:] and columns == -1
        return ((node,), None, None, result) if is_view and node.input(0) is value_of(node, value) else None
    if result.shape != value.shape:
        return None
    if node.op in _UNARY:
        return (node,), _UNARY[node.op](node.attributes), None, result
    if node.op == "Clip":
        bounds = [each and each.number for each in (node.input(1), node.input(2))]
        if any(each is not None and bound is None for each, bound in zip(node.inputs[1:], bounds, strict=False)):
            return None
        limits = node.attributes.get("min", -inf), node.attributes.get("max", inf)  # Before version 11 of the operator.
        low, high = (default if bound is None else bound for bound, default in zip(bounds, limits, strict=True))
        return (node,), epilogues.clamp(low, high), None, result
    if node.op == "Div":
        divisor = node.input(1)
        number = divisor.number if divisor and node.input(0) is value_of(node, value) else None
        return ((node,), epilogues.scale(1 / number), None, result) if number else None
    if node.op in _BINARY and len(node.inputs) == 2:
        return _with_operand(node, value, columns, result)
    return None


def value_of(node: Node, value: Value) -> Value | None:
    """The input of a node that is a value."""
    return next((each for each in node.inputs if each and each.name == value.name), None)


def _gated(grouping: Grouping, value: Value, users: Sequence[Node]) -> _Step | None:
    """The product of x and sigmoid(x), of two nodes."""
    ops = {each.op: each for each in users}
    gate, product = ops.get("Sigmoid"), ops.get("Mul")
    made = gate.output if gate else None
    if gate is None or product is None or made is None or product.output is None:
        return None
    names = {each.name for each in product.inputs if each}
    alone = grouping.graph.users(made) == [product] and names == {value.name, made.name}
    return ((gate, product), epilogues.silu(), None, product.output) if alone else None


def _with_operand(node: Node, value: Value, columns: int, result: Value) -> _Step | None:
    """A sum or product with another value."""
    others = [each for each in node.inputs if each and each.name != value.name]
    if len(others) != 1 or others[0].type != value.type or not (others[0].shape or others[0].is_constant):
        return None
    other = others[0]
    if node.op == "Mul" and other.number is not None:
        return (node,), epilogues.scale(other.number), None, result
    axes = axes_of(other.shape, value.shape, columns)
    if axes is None:
        return None
    return (node,), _BINARY[node.op](axes, value.type), Further(other, axes), result


def axes_of(shape: tuple[Size, ...], whole: tuple[Size, ...], columns: int) -> str | None:
    """Along which axes a value has elements that is broadcast to a product: "", "n", "mn"; None where no entry has such."""
    if None in shape or len(shape) > len(whole):
        return None
    padded = (1,) * (len(whole) - len(shape)) + shape
    if all(each == 1 for each in padded):
        return ""
    place = columns % len(whole)
    if padded == whole:
        return "mn"
    own = all(each == 1 for axis, each in enumerate(padded) if axis != place)
    return "n" if own and padded[place] == whole[place] else None
