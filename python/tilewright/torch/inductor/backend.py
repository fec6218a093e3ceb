# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend of torch.compile: rewrites each graph of ATen ops, and gives it to Inductor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._functorch import config as functorch_config  # pyright: ignore[reportMissingImports]
from torch._inductor.compile_fx import compile_fx, compile_fx_inner  # pyright: ignore[reportMissingImports]
from torch._inductor.decomposition import select_decomp_table  # pyright: ignore[reportMissingImports]

from tilewright.errors import TilewrightError
from tilewright.torch.inductor import fx, kernels, products
from tilewright.torch.inductor.fx import aten

LOG = logging.getLogger("tilewright")

_KEPT = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)
"""Products that Inductor would make sums of where they are small."""


def tilewright(model: Any, inputs: Sequence[Any], **settings: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Compiles a graph of torch.compile's; ``options`` are those of Inductor."""
    decompositions = {op: what for op, what in select_decomp_table().items() if op not in _KEPT}
    # A graph that comes from AOTAutograd's cache would not be rewritten, and its kernels would not be there.
    with functorch_config.patch(enable_autograd_cache=False):
        return compile_fx(
            model,
            inputs,
            inner_compile=compiled,
            config_patches=dict(settings.get("options") or {}),
            decompositions=decompositions,
        )


def compiled(graph_module: Any, inputs: Sequence[Any], **options: Any) -> Any:  # noqa: ANN401
    """Compiles one graph of ATen ops: a forward, a backward, or both at once for inference."""
    rewrite(graph_module)
    return compile_fx_inner(graph_module, inputs, **options)


def rewrite(graph_module: Any) -> None:  # noqa: ANN401
    """Puts calls of kernels into the places of products and what can be fused with them."""
    graph, threads = graph_module.graph, torch.get_num_threads()
    for node in list(graph.nodes):
        if node._erased or node.op != "call_function":
            continue
        product = products.recognized(node)
        if product is None or not all(map(fx.element, (product.node, product.a, product.b))):
            continue
        for region, call in products.candidates(product):
            try:
                kernel = kernels.compiled(call.spec, threads)
            except TilewrightError as error:
                LOG.warning("%s: %s stays Inductor's: %s", region.exit, call.spec, error)
                continue
            call.replace(graph, region, kernels.named(kernel, call.spec, threads))
            LOG.info("%s: %s", region.exit, call.spec)
            break
    graph.eliminate_dead_code()
    graph.lint()
    graph_module.recompile()
