# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions of images, with what is fused behind them. Their gradients are torch's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.torch import activations
from tilewright.torch.ops import define, spread, wants_gradient

_INTEGERS = (torch.int8, torch.uint8)


def conv2d(
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any = None,  # noqa: ANN401 - a tensor
    stride: Any = 1,  # noqa: ANN401 - a number, or two
    padding: Any = 0,  # noqa: ANN401 - a number, or two, or a name
    dilation: Any = 1,  # noqa: ANN401 - a number, or two
    groups: int = 1,
    *,
    activation: str = "none",
    residual: Any = None,  # noqa: ANN401 - a tensor
) -> Any:  # noqa: ANN401 - a tensor
    """activation(conv2d(x, weight) + bias) + residual, in one kernel.

    Images in the memory format channels_last give a result in it, and are faster; weights are then best in it too.

    Args:
        x: Images of shape (N, C, H, W), or (C, H, W) for one.
        weight: Filters of shape (O, C / groups, rows, columns).
        bias: Of shape (O,), or None.
        stride: As in torch.nn.functional.conv2d, like the next three.
        padding: Zeros around an image: a number, two, "valid", or "same" where as many are on each side.
        dilation: Between elements of a filter.
        groups: Into which channels fall.
        activation: As in `linear`.
        residual: Of the shape of the result, or None.

    Raises:
        RuntimeError: Shapes or types do not fit.
    """
    if x.dim() == 3:
        residual = None if residual is None else residual[None]
        whole = conv2d(
            x[None], weight, bias, stride, padding, dilation, groups, activation=activation, residual=residual
        )
        return whole[0]
    steps, gaps = _pair(stride), _pair(dilation)
    where = (steps, _sides(padding, weight, gaps), gaps, groups)
    if not wants_gradient(x, weight, bias, residual):
        return _CONV2D.only(x, weight, bias, residual, *where, activation)
    if activation not in activations.FORWARD:
        return _CONV2D.whole(x, weight, bias, residual, *where, activation)  # which refuses it
    done = activations.FORWARD[activation](_CONV2D.whole(x, weight, bias, None, *where, "none"))
    return done if residual is None else done + residual


def _pair(value: Any) -> list[int]:  # noqa: ANN401 - a number, or two
    return [value, value] if isinstance(value, int) else [*value] * (3 - len(value))


def _sides(padding: Any, weight: Any, dilation: Sequence[int]) -> list[int]:  # noqa: ANN401 - as of conv2d
    if padding == "valid":
        return [0, 0]
    if padding != "same":
        return _pair(padding)
    around = [gap * (size - 1) for gap, size in zip(dilation, weight.shape[2:], strict=True)]
    torch._check(not any(each % 2 for each in around), lambda: 'padding="same" needs filters of odd sizes')
    return [each // 2 for each in around]


def _fake(
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any,  # noqa: ANN401 - a tensor
    residual: Any,  # noqa: ANN401 - a tensor
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: str,
) -> Any:  # noqa: ANN401 - a tensor
    torch._check(x.dim() == 4 and weight.dim() == 4, lambda: f"expected four dimensions: {x.shape}, {weight.shape}")
    sizes = [
        (x.shape[2 + i] + 2 * padding[i] - dilation[i] * (weight.shape[2 + i] - 1) - 1) // stride[i] + 1
        for i in range(2)
    ]
    order = torch.channels_last if _is_last(x) else torch.contiguous_format
    type_ = torch.int32 if x.dtype in _INTEGERS else x.dtype
    return torch.empty((x.shape[0], weight.shape[0], *sizes), dtype=type_, device=x.device, memory_format=order)


def _is_last(x: Any) -> bool:  # noqa: ANN401 - a tensor
    return x.is_contiguous(memory_format=torch.channels_last) or not x.is_contiguous()


def _gradients(
    grad: Any,  # noqa: ANN401 - a tensor
    wanted: Sequence[bool],
    x: Any,  # noqa: ANN401 - a tensor
    weight: Any,  # noqa: ANN401 - a tensor
    bias: Any,  # noqa: ANN401 - a tensor
    residual: Any,  # noqa: ANN401 - a tensor
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    activation: str,
) -> tuple[Any, ...]:
    of_sums = grad
    if activation != "none":
        sums = conv2d(x, weight, bias, stride, padding, dilation, groups)
        of_sums = activations.BACKWARD[activation](grad, sums)
    shape = None if bias is None else [bias.shape[0]]
    where = (stride, padding, dilation, False, [0, 0], groups)
    needed = [wanted[0], wanted[1], bool(wanted[2])]
    of_x, of_weight, of_bias = torch.ops.aten.convolution_backward(of_sums, x, weight, shape, *where, needed)
    return of_x, of_weight, of_bias, grad if wanted[3] else None


def _batched(info: Any, axes: Sequence[int | None], *given: Any) -> tuple[Any, int]:  # noqa: ANN401 - torch's
    x, weight, bias, residual, stride, padding, dilation, groups, activation = given
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "activation": activation}
    images, added = spread(x, axes[0], info.batch_size), spread(residual, axes[3], info.batch_size)
    if axes[1] is None and axes[2] is None:
        flat = None if added is None else added.flatten(0, 1)
        result = conv2d(images.flatten(0, 1), weight, bias, residual=flat, **options)
        return result.unflatten(0, images.shape[:2]), 0
    filters, biases = spread(weight, axes[1], info.batch_size), spread(bias, axes[2], info.batch_size)
    each = [
        conv2d(
            images[i],
            filters[i],
            None if biases is None else biases[i],
            residual=None if added is None else added[i],
            **options,
        )
        for i in range(info.batch_size)
    ]
    return torch.stack(each), 0


_CONV2D = define("conv2d", _fake, _gradients, _batched, (None,) * 9)
