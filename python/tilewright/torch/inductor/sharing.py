# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Joins products of one left matrix with constant right ones, such as those for queries, keys and values, into one product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch.fx import Node  # pyright: ignore[reportMissingImports]

from tilewright.torch.inductor import fx
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.products import Product, recognized
from tilewright.torch.inductor.region import found


def join(graph_module: Any) -> set[Node]:  # noqa: ANN401
    """Joins what can be joined; the nodes that now give the results, which lie in the rows of the joined one.

    A product that has an epilogue stays alone. Each element is computed as before.
    """
    views: set[Node] = set()
    for group in _groups(graph_module):
        views.update(_joined(graph_module, group))
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
    start = 0
    with graph.inserting_before(first):
        whole = fx.emit(graph, first.target, *operands)
        for product, own, _ in group:
            part = fx.emit(graph, aten.slice.Tensor, whole, 1, start, start + own.shape[1])
            start += own.shape[1]
            product.sums.node.replace_all_uses_with(part)
            yield part
    for product, _, _ in group:
        graph.erase_node(product.sums.node)
