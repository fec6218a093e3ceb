# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins products of one left matrix, such as those for queries, keys and values: by constant right matrices, and by quantized ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.products import Product, recognized
from tilewright.torch.inductor.region import found
from tilewright.torch.ops import NAMESPACE

_QUANTIZED = (NAMESPACE.linear_quantized.default, NAMESPACE._linear_quantized.default)


def join(graph_module: Any) -> set[Node]:  # noqa: ANN401
    """Joins what can be joined; the nodes that now give the results, which lie in the rows of the joined one.

    A product that has an epilogue stays alone. Each element is computed as before.
    """
    views: set[Node] = set()
    for group in _groups(graph_module):
        views.update(_joined(graph_module, group))
    for nodes in _quantized(graph_module.graph):
        views.update(_joined_quantized(graph_module.graph, nodes))
    return views


def _groups(graph_module: Any) -> Iterator[list[tuple[Product, Any, Any]]]:  # noqa: ANN401
    """Products with their constant matrices and addends, if they have any, of one left matrix and one type."""
    groups: dict[Any, list[tuple[Product, Any, Any]]] = {}
    for node in graph_module.graph.nodes:
        if node.target not in (aten.mm.default, aten.addmm.default) or fx.element(node) is None:
            continue
        product = recognized(node)
        right = fx.frozen(graph_module, product.b) if product else None
        if product is None or right is None or product.sums.factor != 1:
            continue
        addend, scale = product.sums.start[0] if product.sums.start else (None, 1)
        added = fx.frozen(graph_module, addend)
        if (addend is not None and (added is None or tuple(added.shape) != right.shape[1:])) or scale != 1:
            continue
        if next(found((product.sums,), product.form)).exit is node:
            key = (product.a, right.dtype, added is not None and added.dtype)
            groups.setdefault(key, []).append((product, right, added))
    return (each for each in groups.values() if len(each) > 1)


def _joined(graph_module: Any, group: list[tuple[Product, Any, Any]]) -> Iterator[Node]:  # noqa: ANN401
    graph = graph_module.graph
    first = group[0][0].sums.node
    with torch.utils._python_dispatch._disable_current_modes():
        right = torch.cat([each for _, each, _ in group], 1)
        added = None if group[0][2] is None else torch.cat([each for _, _, each in group])
    operands = [group[0][0].a, fx.constant(graph_module, first, right)]
    if added is not None:
        operands.insert(0, fx.constant(graph_module, first, added))
    with graph.inserting_before(first):
        whole = fx.emit(graph, first.target, *operands)
    yield from _parts(graph, whole, [product.sums.node for product, _, _ in group])


def _parts(graph: Any, whole: Node, nodes: Sequence[Node]) -> Iterator[Node]:  # noqa: ANN401
    """Puts columns of the whole, behind it, into the places of nodes that are side by side in it."""
    start, axis = 0, len(fx.value(whole).shape) - 1
    with graph.inserting_before(whole.next):
        for node in nodes:
            columns = fx.value(node).shape[-1]
            part = fx.emit(graph, aten.slice.Tensor, whole, axis, start, start + columns)
            start += columns
            node.replace_all_uses_with(part)
            yield part
    for node in nodes:
        graph.erase_node(node)


@dataclass(frozen=True, slots=True)
class _Linear:
    """The arguments of a linear layer by a quantized weight, in the order of the op."""

    x: Any
    codes: Any
    scales: Any
    zeros: Any
    bias: Any
    residual: Any
    element: str
    group: int
    activation: str
    precision: str = "-"


def _quantized(graph: Any) -> Iterator[list[Node]]:  # noqa: ANN401
    """Linear layers of one tensor by weights that are quantized alike, if nothing is fused with them but a bias."""
    groups: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.target not in _QUANTIZED:
            continue
        given = _Linear(*node.args)
        inputs = (given.codes, given.scales, given.zeros, given.bias)
        # Those are there before any product, so that the first one can be replaced by all.
        are_given = all(each is None or each.op in ("placeholder", "get_attr") for each in inputs)
        if given.residual is None and given.activation == "none" and are_given:
            types = tuple(each is not None and fx.value(each).dtype for each in inputs)
            key = (given.x, given.element, given.group, given.precision, types)
            groups.setdefault(key, []).append(node)
    return (each for each in groups.values() if len(each) > 1)


def _joined_quantized(graph: Any, nodes: Sequence[Node]) -> Iterator[Node]:  # noqa: ANN401
    """Replaces them by one op, which has one product where their weights lie one after another, as `optimize` lays them."""
    every = [_Linear(*node.args) for node in nodes]
    first = every[0]
    lists = ([getattr(each, name) for each in every] for name in ("codes", "scales", "zeros", "bias"))
    operands = ([] if each[0] is None else each for each in lists)
    with graph.inserting_before(nodes[0]):
        how = (first.element, first.group, first.precision)
        whole = fx.emit(graph, NAMESPACE.linears_quantized.default, first.x, *operands, *how)
    yield from _parts(graph, whole, nodes)
