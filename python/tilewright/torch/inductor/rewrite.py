# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rewrites a graph of ATen ops: calls of kernels take the places of products and of what can be fused with them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._functorch.compile_utils import fx_graph_cse  # pyright: ignore[reportMissingImports]

from tilewright.errors import TilewrightError
from tilewright.torch.inductor import attention, convolutions, fx, kernels, products, sharing, timing
from tilewright.torch.inductor.call import Call
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.region import Region
from tilewright.torch.ops import NAMESPACE

LOG = logging.getLogger("tilewright")

_OPERATORS = (products.calls, convolutions.calls, attention.calls)
"""What finds calls that can take the place of a node."""
_CALLS = (NAMESPACE.call.default, NAMESPACE.call_in_order.default)


def rewrite(graph_module: Any, *, timed: bool = False) -> int:  # noqa: ANN401
    """Puts calls of kernels into the places of products and what can be fused with them; how many. Outputs keep their strides.

    Args:
        graph_module: The graph; each node has its fake value.
        timed: Whether a kernel that is slower than the op that it replaces is left out.
    """
    graph_module.graph = fx_graph_cse(graph_module.graph)
    graph, threads = graph_module.graph, torch.get_num_threads()
    outputs = graph.output_node().args[0]
    lay = [each.stride() if isinstance(each, torch.Tensor) else None for each in map(fx.value, outputs)]
    moved: set[Any] = sharing.join(graph_module)
    for node in list(graph.nodes):
        if node._erased or node.op != "call_function":
            continue
        if not moved.isdisjoint(node.all_input_nodes):
            node = fx.updated(graph, node)
            moved.add(node)
        result = _replace(node, graph_module, threads, timed=timed)
        if result is not None:
            moved.add(result)
    _restore(graph, lay)
    graph.eliminate_dead_code()
    graph.lint()
    graph_module.recompile()
    return sum(node.target in _CALLS for node in graph.nodes)


def _calls(node: Any, graph_module: Any) -> Iterator[Call]:  # noqa: ANN401
    return (call for find in _OPERATORS for call in find(node, graph_module))


def _replace(node: Any, graph_module: Any, threads: int, *, timed: bool) -> Any:  # noqa: ANN401
    """Puts the first call that works into the place of a node, if there is one; the new node, if its result lies otherwise."""
    rejected: Region | None = None
    for region, calls in groupby(_calls(node, graph_module), attrgetter("region")):
        # After one that was slower, those that differ most: of one product in place of two, or without what follows it.
        is_alone = region.exit is region.product
        if rejected is not None and not is_alone and bool(region.partner) == bool(rejected.partner):
            continue
        found = _fastest(calls, threads, timed=timed)
        if found is None:
            continue
        ratio, call, name, kernel = found
        if ratio > timing.MOST:
            LOG.info("%s: %s stays torch's, which is %.2f times as fast", region.exit, call.spec, ratio)
            rejected = region
            continue
        LOG.info("%s: %s", region.exit, call.spec)
        lay = fx.value(region.exit).stride()
        result = call.replace(graph_module, kernel, name)
        return None if fx.lies(fx.value(result), lay) else result
    return None


def _fastest(calls: Iterator[Call], threads: int, *, timed: bool) -> tuple[float, Call, str, Any] | None:
    """Of calls that do the same the fastest: its time over that of torch's op, and its kernel. The first one, where they are not timed."""
    best = None
    for call in calls:
        try:
            name, kernel = kernels.compiled(call.spec, threads)
        except TilewrightError as error:
            LOG.warning("%s: %s stays torch's: %s", call.region.exit, call.spec, error)
            continue
        ratio = timing.ratio(call, threads) if timed else None
        if ratio is None:
            return 0.0, call, name, kernel
        if best is None or ratio < best[0]:
            best = ratio, call, name, kernel
    return best


def _restore(graph: Any, strides: list[Any]) -> None:  # noqa: ANN401
    """Copies outputs that lie otherwise than before: what runs after the graph counts on how they lie."""
    output = graph.output_node()
    results = list(output.args[0])
    with graph.inserting_before(output):
        for number, (node, wanted) in enumerate(zip(results, strides, strict=True)):
            now = fx.value(node)
            if wanted is None or fx.lies(now, wanted):
                continue
            empty = fx.emit(graph, aten.new_empty_strided.default, node, list(now.shape), list(wanted))
            results[number] = fx.emit(graph, aten.copy.default, empty, node)
    output.args = (type(output.args[0])(results),)
