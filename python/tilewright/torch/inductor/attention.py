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
_RESULT = (0, 2, 1, 3)
"""How torch's result lies: the heads of a query side by side."""
_REPEATED = 2
"""The axis along which heads of keys and values are repeated, after that of heads."""


def _mask_axes(mask: Node, sizes: Sequence[Any]) -> str | None:
    """The axes that a mask of up to four dimensions really has; None where they are not known."""
    found = fx.value(mask)
    dims, axes = found.dim(), ""
    for axis, own, stride, size in zip(_AXES[-dims:], found.shape, found.stride(), sizes[-dims:], strict=True):
        if not (fx.known(own == 1) or fx.known(stride == 0)) or axis == "n":
            if not fx.known(own == size):
                return None
            axes += axis
    return axes


def _mask(mask: Node, axes: str, graph: Any) -> Node:  # noqa: ANN401
    """The mask without the axes that it is broadcast along."""
    node = mask
    own = _AXES[-fx.value(mask).dim() :]
    for axis in reversed(range(len(own))):
        if own[axis] not in axes:
            node = fx.emit(graph, aten.select.int, node, axis, 0)
    return node


def _shared(node: Node) -> Node:
    """Heads of keys or values before each was repeated for the heads of queries that share it; else the node."""
    at = node
    chain = ((aten.view.default, aten.reshape.default, aten._unsafe_view.default), (aten.clone.default,))
    for targets in chain:
        at = at.args[0] if at.target in targets else at
    if at.target is not aten.expand.default or at.args[0].target is not aten.unsqueeze.default:
        return node
    source, axis = at.args[0].args
    few, wide, full = fx.value(source).shape, fx.value(at).shape, fx.value(node).shape
    is_repeated = (
        axis == _REPEATED
        and len(few) == len(_AXES)
        and fx.same((*few[:2], *few[2:]), (*wide[:2], *wide[3:]))
        and fx.same(full, (few[0], few[1] * wide[2], *few[2:]))
    )
    return source if is_repeated else node


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
    if fx.same(fx.value(_shared(k)).shape[:3], fx.value(_shared(v)).shape[:3]):
        k, v = _shared(k), _shared(v)
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
    yield Call(Region(node, (), (), None), spec, tuple(operands), tuple(fx.value(node).shape), _RESULT)
