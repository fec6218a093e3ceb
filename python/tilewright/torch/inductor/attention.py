# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of an ATen graph as specs: what torch's own fused op computes, where nothing needs its second result."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch.fx import Node  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.torch.inductor import fx
from tilewright.torch.inductor.call import Call
from tilewright.torch.inductor.fx import aten
from tilewright.torch.inductor.region import Region

_FUSED = aten._scaled_dot_product_flash_attention_for_cpu.default
_AXES = "bhmn"


def _mask_axes(mask: Node, sizes: Sequence[Any]) -> str | None:
    """The axes that a mask of four dimensions really has; None where they are not known."""
    found = fx.value(mask)
    if found.dim() != len(_AXES):
        return None
    axes = ""
    for axis, own, stride, size in zip(_AXES, found.shape, found.stride(), sizes, strict=True):
        if not (fx.known(own == 1) or fx.known(stride == 0)) or axis == "n":
            if not fx.known(own == size):
                return None
            axes += axis
    return axes


def _mask(mask: Node, axes: str, graph: Any) -> Node:  # noqa: ANN401
    """The mask without the axes that it is broadcast along."""
    node = mask
    for axis in reversed(range(len(_AXES))):
        if _AXES[axis] not in axes:
            node = fx.emit(graph, aten.select.int, node, axis, 0)
    return node


def _rows(node: Node, graph: Any) -> Node:  # noqa: ANN401
    return node


def calls(node: Node, graph_module: Any) -> Iterator[Call]:  # noqa: ANN401
    """The calls that can take the place of attention: one, or none."""
    if node.target is not operator.getitem or node.args[1] != 0 or node.args[0].target is not _FUSED:
        return
    fused = node.args[0]
    if any(user is not node and user.users for user in fused.users):
        return
    q, k, v, *options = fused.args
    dropout, is_causal = (*options, *(0.0, False)[len(options) :])
    mask, scale = fused.kwargs.get("attn_mask"), fused.kwargs.get("scale")
    tensors = (q, k, v) if mask is None else (q, k, v, mask)
    if dropout or not all(map(fx.element, (node, *tensors))) or not isinstance(scale, float | None):
        return
    batch, heads, queries, head = fx.value(q).shape
    _, kv_heads, keys, _ = fx.value(k).shape
    axes = "" if mask is None else _mask_axes(mask, (batch, heads, queries, keys))
    if axes is None:
        return
    try:
        spec = AttentionSpec(
            fx.extent(queries), fx.extent(keys), head, heads, kv_heads, fx.value(v).shape[-1],
            batch=(fx.extent(batch),), q=fx.element(q) or "", scale=scale, causal=bool(is_causal),
            mask=None if mask is None else fx.element(mask), mask_axes=axes or "mn",
        )  # fmt: skip
    except SpecError:
        return
    operands = [partial(_rows, each) for each in (q, k, v)]
    if mask is not None:
        operands.append(partial(_mask, mask, axes))
    seen = fx.value(node)
    yield Call(Region(node, (), (), None), spec, tuple(operands), tuple(seen.shape), tuple(seen.stride()))
