# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers for FX graphs of ATen ops: values, extents that may be symbolic, and new nodes with their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._inductor.freezing_utils import maybe_set_is_frozen_param  # pyright: ignore[reportMissingImports]
from torch.fx import Node  # pyright: ignore[reportMissingImports]
from torch.fx.experimental.symbolic_shapes import statically_known_true  # pyright: ignore[reportMissingImports]

aten = torch.ops.aten

ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64"}
"""Element types of ours by torch's."""


def value(node: Any) -> Any:  # noqa: ANN401 - a fake tensor, a number or a symbol
    """The fake value of a node; None where it has none."""
    return node.meta.get("val") if isinstance(node, Node) else None


def element(node: Any) -> str | None:  # noqa: ANN401
    """The element type of a node's tensor as ours; None for another type, another device, or no tensor."""
    found = value(node)
    if not isinstance(found, torch.Tensor) or found.device.type != "cpu" or found.layout is not torch.strided:
        return None
    return ELEMENTS.get(found.dtype)


def known(condition: Any) -> bool:  # noqa: ANN401 - a bool or a symbolic one
    """Whether a condition holds for all values of the symbols in it; no guard is added."""
    return bool(statically_known_true(condition))


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two shapes are known to be equal."""
    return len(left) == len(right) and all(known(a == b) for a, b in zip(left, right, strict=True))


def lies(tensor: Any, strides: Sequence[Any]) -> bool:  # noqa: ANN401
    """Whether a tensor has these strides along all axes that have more than one element."""
    each = zip(tensor.shape, tensor.stride(), strides, strict=True)
    return all(known(size == 1) or known(own == wanted) for size, own, wanted in each)


def extent(size: Any) -> Any:  # noqa: ANN401 - an int or a SymInt, to an int or None
    """An extent as specs take it: a number, or None for a dynamic one."""
    if isinstance(size, int):
        return size
    constant = size.node.maybe_as_int()
    return None if constant is None else int(constant)


def product(sizes: Sequence[Any]) -> Any:  # noqa: ANN401
    """The product of extents."""
    result: Any = 1
    for each in sizes:
        result = result * each
    return result


def emit(graph: Any, target: Any, *args: Any, **kwargs: Any) -> Node:  # noqa: ANN401
    """A new call at the graph's insertion point, with its fake value. Sizes that are symbolic become nodes."""
    args = tuple(
        graph.materialize_symints(each)
        if isinstance(each, list | tuple) and any(isinstance(size, torch.SymInt) for size in each)
        else each
        for each in args
    )
    node = graph.call_function(target, args, kwargs)
    values = torch.fx.node.map_arg(args, value)
    tensors = [each for each in torch.utils._pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    with tensors[0].fake_mode:
        node.meta["val"] = target(*values, **kwargs)
    return node


def copied(graph: Any) -> Any:  # noqa: ANN401 - a graph
    """A copy of a graph, of which nothing follows changes of the other."""
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(graph, {}))
    return copy


def updated(graph: Any, node: Node) -> Node:  # noqa: ANN401
    """The node after the strides of an operand changed: its fake value is that of the new operands, and a view may become a copy."""
    if node.target in (aten.view.default, aten._unsafe_view.default):
        with graph.inserting_before(node):
            new = emit(graph, aten.reshape.default, *node.args)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        return new
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    tensors = [each for each in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
    with tensors[0].fake_mode:
        node.meta["val"] = node.target(*args, **kwargs)
    return node


def reshaped(graph: Any, node: Node, shape: Sequence[Any]) -> Node:  # noqa: ANN401
    """The node as a tensor of another shape: itself where it has that already."""
    return node if same(value(node).shape, shape) else emit(graph, aten.reshape.default, node, list(shape))


def permuted(graph: Any, node: Node, axes: Sequence[int]) -> Node:  # noqa: ANN401
    """The node with its axes permuted; a permutation that undoes the node's own is that of which it is a permutation."""
    if node.target is aten.permute.default and [node.args[1][each] for each in axes] == list(range(len(axes))):
        return node.args[0]
    return emit(graph, aten.permute.default, node, list(axes))


def frozen(graph_module: Any, node: Any) -> Any:  # noqa: ANN401 - a tensor
    """The tensor of a node that is a constant of the graph; None for any other node."""
    if not isinstance(node, Node) or node.op != "get_attr":
        return None
    found = getattr(graph_module, str(node.target), None)
    return found if isinstance(found, torch.Tensor) else None


def constant(graph_module: Any, before: Node, tensor: Any) -> Node:  # noqa: ANN401
    """A new constant of the graph."""
    number = 0
    while hasattr(graph_module, f"_packed{number}"):
        number += 1
    maybe_set_is_frozen_param(tensor)
    graph_module.register_buffer(f"_packed{number}", tensor)
    with graph_module.graph.inserting_before(before):
        node = graph_module.graph.get_attr(f"_packed{number}")
    mode = next(each for each in map(value, graph_module.graph.nodes) if isinstance(each, torch.Tensor)).fake_mode
    node.meta["val"] = mode.from_tensor(tensor, static_shapes=True)
    return node
