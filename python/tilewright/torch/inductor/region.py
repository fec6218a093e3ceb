# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds the elementwise ops after a product that can be its epilogue, and makes an epilogue of them.

A region has a product, or two with the same left matrix as in a gated linear unit, any ops of one element that depend on it, and one
exit: the only node whose value anything outside reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.entries import Epilogue, Operand
from tilewright.errors import SpecError
from tilewright.expressions import Traced, trace
from tilewright.torch.inductor import elementwise, fx

_MOST_NODES = 64
"""Nodes of a region, at most: more is no activation but a program of its own."""
MOST_OPERANDS = 8
"""Further operands, at most: each takes registers in the loop that stores a tile."""

Classify = Callable[[Sequence[Any], Sequence[Any]], "str | None"]
"""From the shape of a tensor and of what it meets to its axes ("n", "mn"); None where the product takes no such operand."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a kind of product allows around it.

    Attributes:
        classify: The axes of an operand.
        keeps: Whether elements in a tensor of this shape still lie as in the product's result.
    """

    classify: Classify
    keeps: Callable[[Sequence[Any]], bool]


@dataclass(frozen=True, slots=True)
class Further:
    """An operand of a region.

    Attributes:
        node: Its tensor.
        axes: What it has an element for.
        shape: That of the node that it meets.
        role: "b" for the right matrix of another product with the same left one, of whose sums the region is a function too.
    """

    node: Node
    axes: str
    shape: tuple[Any, ...]
    role: str = ""


@dataclass(frozen=True, slots=True)
class Sums:
    """A product whose sums a region takes.

    Attributes:
        node: The node, whose value is `factor` times the product, plus those of `start`.
        start: Tensors that are added to it, each with its factor.
        factor: What multiplies the sums.
        b: The right matrix.
    """

    node: Node
    start: tuple[tuple[Node, float], ...] = ()
    factor: float = 1
    b: Node | None = None


@dataclass(frozen=True, slots=True)
class Region:
    """A product and what is done to its sums.

    Attributes:
        product: The product.
        members: All nodes but the product, in order; the last one is the exit.
        operands: The further operands, in the order of the call.
        epilogue: What the members compute; None where they compute nothing.
        partner: The other product, if there are two; it is one of the members too.
    """

    product: Node
    members: tuple[Node, ...]
    operands: tuple[Further, ...]
    epilogue: Epilogue | None
    partner: Node | None = None

    @property
    def exit(self) -> Node:
        """The node whose value the region gives."""
        return self.members[-1] if self.members else self.product


def _inputs(node: Node, members: Mapping[Node, Any]) -> Iterator[Node]:
    return (each for each in node.all_input_nodes if each not in members)


def is_element(node: Node, form: Form) -> bool:
    """Whether the node computes tensors, element by element, that lie as the product does."""
    found = fx.value(node)
    if node.op != "call_function" or not isinstance(found, torch.Tensor) or not form.keeps(found.shape):
        return False
    if node.target in elementwise.VIEWS:
        return fx.known(found.numel() == fx.value(node.args[0]).numel())
    return node.target in elementwise.FUNCTIONS and (fx.element(node) is not None or found.dtype == torch.bool)


def _is_member(node: Node, members: Mapping[Node, Any], form: Form) -> bool:
    """Whether the node can be part of the region that has `members`."""
    if not is_element(node, form):
        return False
    if node.target in elementwise.VIEWS:
        return node.args[0] in members
    shape = fx.value(node).shape
    if any(not fx.same(fx.value(each).shape, shape) for each in node.all_input_nodes if each in members):
        return False
    return all(
        fx.element(each) is not None and form.classify(fx.value(each).shape, shape) is not None
        for each in _inputs(node, members)
    )


def _grown(sums: Sequence[Sums], form: Form) -> dict[Node, None]:
    """All nodes that the region could have, in the graph's order but for the products."""
    members: dict[Node, None] = {each.node: None for each in sums}
    node = min(members)
    while node.op != "output" and len(members) < _MOST_NODES:
        reads = any(each in members for each in node.all_input_nodes)
        if reads and node not in members and _is_member(node, members, form):
            members[node] = None
        node = node.next
    return members


def _closed(exit_: Node, members: Mapping[Node, None]) -> tuple[Node, ...] | None:
    """The members that `exit_` needs, in order; None if anything else reads one of them."""
    needed, open_ = {exit_}, [exit_]
    while open_:
        for each in open_.pop().all_input_nodes:
            if each in members and each not in needed:
                needed.add(each)
                open_.append(each)
    if any(user not in needed for each in needed if each is not exit_ for user in each.users):
        return None
    return tuple(each for each in members if each in needed)


def widens(node: Node) -> bool:
    """Whether the node only converts to a wider type: the narrower one is better kept in memory."""
    return (
        node.target in elementwise.CONVERSIONS and fx.value(node).element_size() > fx.value(node.args[0]).element_size()
    )


def found(sums: Sequence[Sums], form: Form, *, channels: bool = False) -> Iterator[Region]:
    """The regions of a product, the largest first; the last one is the product alone.

    Args:
        sums: The product, and possibly another one of the same left matrix, which then all regions take too.
        form: What the product allows.
        channels: Whether what is added to the sums has an element for each channel, which are not the last axis.
    """
    members = _grown(sums, form)
    for exit_ in reversed(members):
        if exit_.target in elementwise.VIEWS or widens(exit_) or fx.element(exit_) is None:
            continue
        inside = _closed(exit_, members)
        if inside is None or any(each.node not in inside for each in sums):
            continue
        if (region := _region(sums, inside, form, channels)) is not None:
            yield region


def evaluated(
    nodes: Sequence[Node], env: dict[Node, Any], read: Callable[[Node, Sequence[Any]], Any]
) -> dict[Node, Any]:
    """What nodes compute of one element each, added to `env`.

    Args:
        nodes: In the order of the graph.
        env: What is known already.
        read: What any other node is, beside one of this shape.

    Raises:
        NoRegionError: A node cannot be computed so.
    """

    def argument(node: Node, shape: Sequence[Any]) -> Any:  # noqa: ANN401
        return env[node] if node in env else read(node, shape)

    for node in nodes:
        if node in env:
            continue
        shape = fx.value(node).shape
        if node.target in elementwise.VIEWS:
            env[node] = argument(node.args[0], shape)
            continue
        arguments = torch.fx.node.map_arg(node.args, partial(argument, shape=shape))
        env[node] = elementwise.FUNCTIONS[node.target](*arguments, **node.kwargs)
        if env[node] is None:
            raise NoRegionError
    return env


def _region(sums: Sequence[Sums], inside: tuple[Node, ...], form: Form, channels: bool) -> Region | None:
    """The region of these nodes; None if it cannot be an epilogue."""
    operands: dict[tuple[Node, str], Further] = {}

    def read(node: Node, shape: Sequence[Any], axes: str | None) -> Traced:
        if axes is None:
            raise NoRegionError
        return taken(Further(node, axes, tuple(shape)))

    def taken(operand: Further) -> Traced:
        key = (operand.node, operand.role or operand.axes)
        operands.setdefault(key, operand)
        return Traced("operand", detail=str(list(operands).index(key)))

    def computed(element: Traced) -> Any:  # noqa: ANN401
        env: dict[Node, Any] = {}
        for each in sums:
            shape = fx.value(each.node).shape
            is_second = each is not sums[0] and each.b is not None
            result: Any = taken(Further(each.b, "mn", tuple(shape), "b")) if is_second else element
            result = result if each.factor == 1 else result * each.factor
            for node, scale in each.start:
                addend = read(node, shape, "n" if channels else form.classify(fx.value(node).shape, shape))
                result = result + (addend if scale == 1 else addend * scale)
            env[each.node] = result
        evaluated(inside, env, lambda node, shape: read(node, shape, form.classify(fx.value(node).shape, shape)))
        return env[inside[-1]]

    try:
        program = trace(lambda element, *_: computed(element), 0)
    except (NoRegionError, SpecError, TypeError):
        return None
    if len(operands) > MOST_OPERANDS:
        return None
    entries = tuple(
        Operand(f"x{number}", each.axes, None if each.role else fx.element(each.node), each.role)
        for number, each in enumerate(operands.values())
    )
    is_plain = len(program.steps) == 1
    epilogue = None if is_plain else Epilogue("fused", entries, program)
    product = sums[0].node
    members = tuple(each for each in inside if each is not product)
    return Region(product, members, tuple(operands.values()), epilogue, *(each.node for each in sums[1:]))


class NoRegionError(Exception):
    """A node cannot be computed on one element."""
