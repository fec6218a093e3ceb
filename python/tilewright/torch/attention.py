# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention without a matrix of scores; its gradient makes one, on products of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.torch.ops import define, spread, wants_gradient
from tilewright.torch.products import matmul


def scaled_dot_product_attention(
    query: Any,  # noqa: ANN401 - a tensor
    key: Any,  # noqa: ANN401 - a tensor
    value: Any,  # noqa: ANN401 - a tensor
    attn_mask: Any = None,  # noqa: ANN401 - a tensor
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:  # noqa: ANN401 - a tensor
    """softmax(scale · Q·Kᵀ + mask) · V, with the arguments of torch.nn.functional.scaled_dot_product_attention.

    A query that sees no key gets zeros.

    Args:
        query: Of shape (..., heads, queries, E); without heads, of two dimensions.
        key: Of shape (..., heads, keys, E); with `enable_gqa` of a divisor of the heads.
        value: Of shape (..., heads, keys, Ev).
        attn_mask: Of bool, which keys are seen; of floats, what is added to scores. It is broadcast to the scores.
        dropout_p: 0.
        is_causal: Whether query i sees only the keys up to number i; then without a mask.
        scale: None: 1 / sqrt(E).
        enable_gqa: Whether several heads of queries may share one of keys.

    Raises:
        RuntimeError: Shapes or types do not fit, or there is dropout.
    """
    torch._check(dropout_p == 0, lambda: f"dropout_p is {dropout_p}; expected 0")
    torch._check(attn_mask is None or not is_causal, lambda: "expected attn_mask or is_causal, not both")
    missing = max(3 - query.dim(), 0)
    query, key, value = (each[(None,) * missing] for each in (query, key, value))
    same = enable_gqa or key.shape[-3] == query.shape[-3]
    torch._check(same, lambda: f"{query.shape[-3]} heads of queries, {key.shape[-3]} of keys; expected enable_gqa=True")
    size = float(query.shape[-1] ** -0.5 if scale is None else scale)
    op = _ATTENTION.whole if wants_gradient(query, key, value, attn_mask) else _ATTENTION.only
    result = op(query, key, value, attn_mask, is_causal, size)
    return result[(0,) * missing] if missing else result


def _fake(q: Any, k: Any, v: Any, mask: Any, causal: bool, scale: float) -> Any:  # noqa: ANN401 - tensors
    torch._check(q.dim() >= 3 and q.dim() == k.dim() == v.dim(), lambda: f"{q.shape}, {k.shape}, {v.shape}")
    torch._check(k.shape[-1] == q.shape[-1] and v.shape[-2] == k.shape[-2], lambda: f"{q.shape}, {k.shape}, {v.shape}")
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _weights(q: Any, k: Any, mask: Any, causal: bool, scale: float) -> Any:  # noqa: ANN401 - tensors
    """Softmax of the scores, in f32 for shorter floats."""
    scores = matmul(q, k.mT).float() if q.dtype in (torch.bfloat16, torch.float16) else matmul(q, k.mT)
    scores = scores * scale
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1).masked_fill(~mask, 0)
    return torch.softmax(scores if mask is None else scores + mask, -1)


def _gradients(
    grad: Any,  # noqa: ANN401 - a tensor
    wanted: Sequence[bool],
    q: Any,  # noqa: ANN401 - a tensor
    k: Any,  # noqa: ANN401 - a tensor
    v: Any,  # noqa: ANN401 - a tensor
    mask: Any,  # noqa: ANN401 - a tensor
    causal: bool,
    scale: float,
) -> tuple[Any, ...]:
    shared = q.shape[-3] // k.shape[-3]
    keys, values = (each.repeat_interleave(shared, -3) if shared > 1 else each for each in (k, v))
    weights = _weights(q, keys, mask, causal, scale)
    of_weights = matmul(grad, values.mT).to(weights.dtype)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    scaled = (of_scores * scale).to(q.dtype)

    def gathered(value: Any) -> Any:  # noqa: ANN401 - a tensor
        return value.unflatten(-3, (-1, shared)).sum(-3) if shared > 1 else value

    return (
        matmul(scaled, keys) if wanted[0] else None,
        gathered(matmul(scaled.mT, q)) if wanted[1] else None,
        gathered(matmul(weights.to(q.dtype).mT, grad)) if wanted[2] else None,
        of_scores.sum_to_size(mask.shape).to(mask.dtype) if wanted[3] else None,
    )


def _batched(info: Any, axes: Sequence[int | None], *given: Any) -> tuple[Any, int]:  # noqa: ANN401 - torch's
    q, k, v, mask, causal, scale = given
    q, k, v = (spread(each, axis, info.batch_size) for each, axis in zip((q, k, v), axes[:3], strict=True))
    if mask is not None:
        mapped = axes[3] is not None
        mask = mask.movedim(axes[3], 0) if mapped else mask[None]
        mask = mask.reshape(mask.shape[0], *(1,) * (q.dim() - mask.dim()), *mask.shape[1:])
        # The mapped axis is one of the batch, and a mask has all of the batch or nothing of it.
        if any(size != 1 for size in mask.shape[: q.dim() - 3]):
            mask = mask.expand(*q.shape[:-3], *mask.shape[-3:])
    attend = _ATTENTION.whole if wants_gradient(q, k, v, mask) else _ATTENTION.only
    return attend(q, k, v, mask, causal, scale), 0


_ATTENTION = define("attention", _fake, _gradients, _batched, (None,) * 6)
