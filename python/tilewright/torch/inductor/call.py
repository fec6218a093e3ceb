# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A call of a kernel that takes the place of nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx, kernels
from tilewright.torch.inductor.region import Further, Region


@dataclass(frozen=True, slots=True)
class Stored:
    """How a call reads a matrix of the graph.

    Attributes:
        layout: "n", or "t" where the transpose lies in memory.
        is_copied: Whether it lies so that no kernel reads it, and is copied.
    """

    layout: str
    is_copied: bool = False

    def of(self, node: Node) -> Matrix:
        """A matrix that is read so."""
        return Matrix(node, self)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix and how it is read."""

    node: Node
    stored: Stored

    def placed(self, graph: Any) -> Node:  # noqa: ANN401
        """The node that a kernel reads."""
        axes = list(range(fx.value(self.node).dim()))
        if self.stored.layout == "t":
            return fx.permuted(graph, self.node, [*axes[:-2], axes[-1], axes[-2]])
        return self.node


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the kernel for a spec.

    Attributes:
        spec: What is computed.
        matrices: A and B, or what the operator takes first.
        further: The operands of the epilogue.
        shape: That of the result, as the kernel gives it.
        operand: Makes a further operand what the kernel takes.
    """

    spec: Any
    matrices: tuple[Matrix, ...]
    further: tuple[Further, ...]
    shape: tuple[Any, ...]
    operand: Callable[[Any, Further, Sequence[Any]], Node]

    def replace(self, graph: Any, region: Region, kernel: str) -> None:  # noqa: ANN401
        """Puts the call into the place of the region's nodes."""
        exit_ = region.exit
        seen = fx.value(exit_)
        with graph.inserting_before(exit_):
            operands = [each.placed(graph) for each in self.matrices]
            operands += [self.operand(graph, each, self.shape) for each in self.further]
            result = emitted(graph, operands, kernel, self.shape, seen.dtype)
            result = fx.reshaped(graph, result, seen.shape)
        exit_.replace_all_uses_with(result)
        for node in (*reversed(region.members), region.product):
            if not node.users:
                graph.erase_node(node)


def strides_of(shape: Sequence[Any]) -> list[Any]:
    """The strides of a contiguous tensor."""
    return [fx.product(shape[axis + 1 :]) for axis in range(len(shape))]


def read(node: Node, *, inner: int = 0) -> Any:  # noqa: ANN401
    """The fake tensor of an operand as a kernel reads it: as it lies if the last axis is contiguous, else contiguous."""
    found = fx.value(node)
    lies = found.dim() == 0 or fx.known(found.stride(-1) == 1) or fx.known(found.shape[-1] == 1)
    if lies and found.dim() > 1:
        lies = fx.known(found.stride(-2) >= found.shape[-1]) or fx.known(found.shape[-2] == 1)
    if lies and inner:
        lies = fx.same(found.stride()[-inner:], strides_of(found.shape)[-inner:])
    return found if lies else found.new_empty(found.shape)


def emitted(graph: Any, operands: list[Node], kernel: str, shape: Sequence[Any], dtype: Any, strides: Any = None) -> Node:  # noqa: ANN401
    """A call of a kernel as a node; Inductor copies operands that would lie otherwise than a kernel reads them."""
    strides = strides_of(shape) if strides is None else list(strides)
    node = fx.emit(graph, kernels.op(), operands, kernel, list(shape), strides, dtype)
    with fx.value(node).fake_mode:
        node.meta["eager_input_vals"] = (([read(each) for each in operands], *node.args[1:]), {})
    return node
