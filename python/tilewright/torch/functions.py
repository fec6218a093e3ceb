# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of tensors on the ops: what they take is checked by the ops, and kernels are compiled when a shape first comes."""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

_OPS = torch.ops.tilewright


def call(kernel: str, *operands: Any) -> Any:  # noqa: ANN401 - tensors
    """The result of a kernel that `register` was given: a new tensor.

    Args:
        kernel: Its name.
        *operands: Tensors, in the order of the kernel's call.

    Raises:
        RuntimeError: No kernel has that name, an operand does not fit, or the kernel has several results (`call_many`).
    """
    return _OPS.call.default(kernel, operands)


def call_many(kernel: str, *operands: Any) -> list[Any]:  # noqa: ANN401 - tensors
    """The results of a kernel, new tensors, as `call` says."""
    return _OPS.call_many.default(kernel, operands)


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
    return _OPS.matmul.default(a, b)


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
    return _OPS.linear.default(x, weight, bias, residual, activation)


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
    return _OPS.linear_glu.default(x, gate, up, activation)
