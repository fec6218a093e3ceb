# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A call of a kernel that takes the place of nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.torch import pack
from tilewright.torch.inductor import fx
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.region import Region
from tilewright.torch.ops import NAMESPACE


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant operand that is packed ahead of time.

    Attributes:
        number: Its place among the operands.
        name: Its name in the kernel.
        tensor: The constant.
        axes: The permutation of its axes to those that the kernel packs.
    """

    number: int
    name: str
    tensor: Any
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the kernel for a spec, and what of the graph it replaces.

    Attributes:
        region: What is replaced.
        spec: What is computed.
        operands: Makes the node of each operand in the graph.
        shape: That of the result as the kernel writes it.
        axes: Those of the result in the order in which they lie, the slowest first; None: as they are.
        finish: Makes of the result what the region gave; None: by another shape alone.
        weight: What is packed ahead of time, if anything is.
        is_dense: Whether operands have to be contiguous in all of their axes.
        passes: Fake tensors that torch would write beside the product, and the kernel does not.
        behind: A fake tensor that lies as the result does, if what follows copies it; None: it is read as it lies.
    """

    region: Region
    spec: Any
    operands: tuple[Callable[[Any], Node], ...]
    shape: tuple[Any, ...]
    axes: tuple[int, ...] | None = None
    finish: Callable[[Any, Node], Node] | None = None
    weight: Weight | None = None
    is_dense: bool = False
    behind: Any = None
    passes: tuple[Any, ...] = ()

    def replace(self, graph_module: Any, kernel: Any, name: str) -> Node:  # noqa: ANN401
        """Puts the call into the place of the region's nodes; the node of its result.

        Args:
            graph_module: Where they are.
            kernel: The kernel of the spec.
            name: Under which name the graph calls it.
        """
        graph, exit_ = graph_module.graph, self.region.exit
        shape = fx.value(exit_).shape
        with graph.inserting_before(exit_):
            operands = [
                fx.constant(graph_module, exit_, packed(kernel, self.weight))
                if self.weight is not None and number == self.weight.number
                else _readable(graph, make(graph), is_dense=self.is_dense)
                for number, make in enumerate(self.operands)
            ]
            op = NAMESPACE.call if self.axes is None else NAMESPACE.call_in_order
            order = () if self.axes is None else (list(self.axes),)
            result = fx.emit(graph, op.default, name, operands, *order)
            # Inductor keeps these strides.
            result.meta["eager_input_vals"] = ((name, list(map(fx.value, operands)), *result.args[2:]), {})
            result = fx.reshaped(graph, result, shape) if self.finish is None else self.finish(graph, result)
        exit_.replace_all_uses_with(result)
        for node in (*reversed(self.region.members), self.region.product):
            if not node.users:
                graph.erase_node(node)
        return result

    def copied(self, graph: Any) -> list[Any]:  # noqa: ANN401
        """Fake values of what is copied for each call: operands that the kernel cannot read where they lie, and the result."""
        exit_, found = self.region.exit, []
        before = exit_.prev
        with graph.inserting_before(exit_):
            for number, make in enumerate(self.operands):
                if self.weight is None or number != self.weight.number:
                    node = make(graph)
                    if _readable(graph, node, is_dense=self.is_dense) is not node:
                        found.append(fx.value(node))
        while exit_.prev is not before:
            graph.erase_node(exit_.prev)
        return found if self.behind is None else [*found, self.behind]


def packed(kernel: Any, weight: Weight) -> Any:  # noqa: ANN401 - a tensor
    """A constant operand as its kernel takes it."""
    with torch.utils._python_dispatch._disable_current_modes():
        return pack(kernel, weight.tensor.detach().permute(weight.axes).contiguous(), weight.name)


def contiguous(shape: Sequence[Any]) -> list[Any]:
    """The strides of a contiguous tensor."""
    return [fx.product(shape[axis + 1 :]) for axis in range(len(shape))]


def _readable(graph: Any, node: Node, *, is_dense: bool) -> Node:  # noqa: ANN401
    """An operand as a kernel reads it: as it lies if elements of a row are adjacent and rows are apart, else copied."""
    found = fx.value(node)
    lies = found.dim() == 0 or fx.known(found.stride(-1) == 1) or fx.known(found.shape[-1] == 1)
    if lies and found.dim() > 1:
        lies = fx.known(found.stride(-2) >= found.shape[-1]) or fx.known(found.shape[-2] == 1)
    if lies and is_dense:
        each = zip(found.shape, found.stride(), contiguous(found.shape), strict=True)
        lies = all(fx.known(size == 1) or fx.known(own == dense) for size, own, dense in each)
    return node if lies else fx.emit(graph, aten.clone.default, node, memory_format=torch.contiguous_format)
