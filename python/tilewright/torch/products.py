# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products of tensors, and what is fused behind them. The products of their gradients are ours too, and can be differentiated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.torch import activations
from tilewright.torch.ops import define, spread, wants_gradient

_INTEGERS = (torch.int8, torch.uint8)


def matmul(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors
    """A·B, as torch.matmul has it, on a kernel of ours.

    The result is of the operands' type, which is the same; of 8-bit integers it is int32.

    Raises:
        RuntimeError: Shapes or types do not fit.
    """
    if a.dim() == 1:
        return matmul(a[None], b).squeeze(-2)
    if b.dim() == 1:
        return matmul(a, b[:, None]).squeeze(-1)
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _MATMUL.whole(a, b)
    return _MATMUL.only(a, b)


def linear(
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any = None,  # noqa: ANN401 - a tensor
    *,
    activation: str = "none",
    residual: Any = None,  # noqa: ANN401 - a tensor
) -> Any:  # noqa: ANN401 - a tensor
    """activation(x·weightᵀ + bias) + residual, in one kernel.

    Args:
        x: Of shape (..., K).
        weight: Of shape (N, K), as torch.nn.Linear has it.
        bias: Of shape (N,), or None.
        activation: "none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh" or "hardswish".
        residual: Of shape (..., N), or None.

    Raises:
        RuntimeError: Shapes or types do not fit.
    """
    if not torch.is_grad_enabled() or not wants_gradient(x, weight, bias, residual):
        return _LINEAR.only(x, weight, bias, residual, activation)
    if activation not in activations.FORWARD:
        return _LINEAR.whole(x, weight, bias, residual, activation)  # which refuses it
    # Torch keeps the sums for its own activations, where the op would compute them again.
    done = activations.FORWARD[activation](_LINEAR.whole(x, weight, bias, None, "none"))
    return done if residual is None else done + residual


def linear_glu(x: Any, gate: Any, up: Any, activation: str = "silu") -> Any:  # noqa: ANN401 - tensors
    """activation(x·gateᵀ) * (x·upᵀ), in one kernel.

    Args:
        x: Of shape (..., K).
        gate: Of shape (N, K).
        up: Of shape (N, K).
        activation: "silu", "gelu", "sigmoid", "relu" or "tanh".

    Raises:
        RuntimeError: Shapes or types do not fit.
    """
    return (_GLU.whole if wants_gradient(x, gate, up) else _GLU.only)(x, gate, up, activation)


def _summed(a: Any, b: Any) -> Any:  # noqa: ANN401 - of tensors, a type
    torch._check(a.dtype == b.dtype, lambda: f"operands are of {a.dtype} and {b.dtype}; expected the same type")
    return torch.int32 if a.dtype in _INTEGERS else a.dtype


def _fake_matmul(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: f"expected matrices, not {a.shape} and {b.shape}")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"K differs: {a.shape} and {b.shape}")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=_summed(a, b))


def fake_linear(x: Any, weight: Any, *_: Any, **__: Any) -> Any:  # noqa: ANN401 - tensors
    """What `linear` returns for tensors without memory."""
    torch._check(
        x.dim() >= 1 and weight.dim() == 2, lambda: f"expected (..., K), (N, K), not {x.shape}, {weight.shape}"
    )
    torch._check(x.shape[-1] == weight.shape[1], lambda: f"K differs: {x.shape} and {weight.shape}")
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=_summed(x, weight))


def _matmul_gradients(grad: Any, wanted: Sequence[bool], a: Any, b: Any) -> tuple[Any, ...]:  # noqa: ANN401 - tensors
    return (
        matmul(grad, b.mH).sum_to_size(a.shape) if wanted[0] else None,
        matmul(a.mH, grad).sum_to_size(b.shape) if wanted[1] else None,
    )


def _linear_gradients(
    grad: Any,  # noqa: ANN401 - a tensor
    wanted: Sequence[bool],
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any,  # noqa: ANN401 - a tensor
    residual: Any,  # noqa: ANN401 - a tensor
    activation: str,
) -> tuple[Any, ...]:
    # The sums are computed again: the forward pass kept no memory for them.
    of_sums = grad if activation == "none" else activations.BACKWARD[activation](grad, linear(x, weight, bias))
    return (
        matmul(of_sums, weight.conj()) if wanted[0] else None,
        _of_weight(of_sums, x) if wanted[1] else None,
        of_sums.reshape(-1, of_sums.shape[-1]).sum(0) if wanted[2] else None,
        grad if wanted[3] else None,
    )


def _glu_gradients(
    grad: Any,  # noqa: ANN401 - a tensor
    wanted: Sequence[bool],
    x: Any,  # noqa: ANN401 - a tensor
    gate: Any,  # noqa: ANN401 - a tensor
    up: Any,  # noqa: ANN401 - a tensor
    activation: str,
) -> tuple[Any, ...]:
    gated, plain = linear(x, gate), linear(x, up)
    of_gated = activations.BACKWARD[activation](grad * plain, gated)
    of_plain = grad * activations.FORWARD[activation](gated)
    return (
        matmul(of_gated, gate) + matmul(of_plain, up) if wanted[0] else None,
        _of_weight(of_gated, x) if wanted[1] else None,
        _of_weight(of_plain, x) if wanted[2] else None,
    )


def _of_weight(of_sums: Any, x: Any) -> Any:  # noqa: ANN401 - tensors
    rows = of_sums.reshape(-1, of_sums.shape[-1])
    return matmul(rows.T, x.reshape(-1, x.shape[-1]).conj())


def _first(value: Any, axis: int | None, rank: int) -> Any:  # noqa: ANN401 - a tensor
    """A tensor with the mapped axis before `rank` others; without that axis as it is."""
    if axis is None:
        return value
    moved = value.movedim(axis, 0)
    return moved.reshape(moved.shape[0], *(1,) * (rank - moved.dim() + 1), *moved.shape[1:])


def _batched_matmul(info: Any, axes: Sequence[Any], a: Any, b: Any) -> tuple[Any, int]:  # noqa: ANN401 - torch's
    rank = max(each.dim() - (axis is not None) for each, axis in zip((a, b), axes, strict=True))
    return matmul(_first(a, axes[0], rank), _first(b, axes[1], rank)), 0


def _batched_linear(
    info: Any,  # noqa: ANN401 - torch's
    axes: Sequence[int | None],
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any = None,  # noqa: ANN401 - a tensor
    residual: Any = None,  # noqa: ANN401 - a tensor
    activation: str = "none",
) -> tuple[Any, int]:
    of_x, of_weight, of_bias, of_residual, *_ = (*axes, None, None)
    if of_weight is None and of_bias is None:
        rows, residual = spread(x, of_x, info.batch_size), spread(residual, of_residual, info.batch_size)
        return linear(rows, weight, bias, activation=activation, residual=residual), 0
    rank = x.dim() - (of_x is not None)
    sums = _product(info, x, of_x, weight, of_weight)
    if bias is not None:
        sums = sums + _first(bias, of_bias, rank)
    done = activations.FORWARD[activation](sums)
    return (done if residual is None else done + _first(residual, of_residual, rank)), 0


def _batched_glu(
    info: Any,  # noqa: ANN401 - torch's
    axes: Sequence[int | None],
    x: Any,  # noqa: ANN401 - a tensor
    gate: Any,  # noqa: ANN401 - a tensor
    up: Any,  # noqa: ANN401 - a tensor
    activation: str = "silu",
) -> tuple[Any, int]:
    of_x, of_gate, of_up, *_ = axes
    if of_gate is None and of_up is None:
        return linear_glu(x.movedim(of_x or 0, 0), gate, up, activation), 0
    gated = activations.FORWARD[activation](_product(info, x, of_x, gate, of_gate))
    return gated * _product(info, x, of_x, up, of_up), 0


def _product(info: Any, x: Any, of_x: int | None, weight: Any, of_weight: int | None) -> Any:  # noqa: ANN401 - tensors
    """x·weightᵀ for each entry of the mapped axis, which comes first."""
    rows = spread(x, of_x, info.batch_size)
    if of_weight is None:
        return linear(rows, weight)
    turned = weight.movedim(of_weight, 0).mT
    product = matmul(rows.reshape(rows.shape[0], -1, rows.shape[-1]), turned)
    return product.reshape(*rows.shape[:-1], product.shape[-1])


_MATMUL = define("matmul", _fake_matmul, _matmul_gradients, _batched_matmul, (None, None))
_LINEAR = define("linear", fake_linear, _linear_gradients, _batched_linear, (None, None, None, None, "none"))
_GLU = define("linear_glu", fake_linear, _glu_gradients, _batched_glu, (None, None, None, "silu"))
