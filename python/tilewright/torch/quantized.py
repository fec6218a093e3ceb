# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear layers of quantized weights, which are dequantized in registers: integers of 4 and 8 bits, 8-bit floats, and the blocks of MX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import SpecError
from tilewright.precision import ROUNDED
from tilewright.quantized import MX_BLOCK, Quantized, mx_quantize, quantize_weights
from tilewright.torch import activations
from tilewright.torch.memory import in_large_pages
from tilewright.torch.ops import define, spread, wants_gradient
from tilewright.torch.products import matmul
from tilewright.torch.types import ELEMENTS

_INTEGERS = ("i4", "u4", "i8", "u8")
_FLOATS = {"f8E4M3FN": 448.0, "f8E5M2": 57344.0}
"""Floats that have a scale for each column, and the largest of each."""
_MX = {f"mx{each}": each for each in ("f8E4M3FN", "f8E5M2", "f4E2M1FN")}
KINDS = (*_INTEGERS, *_FLOATS, *_MX)
"""How weights can be quantized."""
_NO_PRECISION = "-"
_HALVES = {"i4": (-8, 8), "u4": (0, 0)}
_F4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """The weight of a linear layer, N × K, quantized.

    Attributes:
        codes: Of shape (N, K), or, of elements of four bits, of bytes, (N, ceil(K / 2)), the first of two in the low half.
        scales: Of shape (N, ceil(K / group)), or (N,) without groups. `quantize` makes those of groups of integers bfloat16: in groups
            of 32, scales of f32 are a fifth of what is read. Codes are chosen after a scale is rounded.
        zeros: The code of 0, shaped as the scales; None where it is 0.
        element: Of which type the codes are, "i4".
        group: Elements along K that share a scale; 0: all.
        columns: K.
        precision: "i8": what is multiplied by it may be rounded to 8-bit integers, as `MatmulSpec.precision` says.
    """

    codes: Any
    scales: Any
    zeros: Any
    element: str
    group: int
    columns: int
    precision: str | None = None

    def floats(self) -> Any:  # noqa: ANN401 - a tensor
        """The weight as float32, of shape (N, K)."""
        return _floats(self.codes, self.scales, self.zeros, self.element, self.group, self.columns)


def quantize(
    weight: Any,  # noqa: ANN401 - a tensor
    kind: str = "i8",
    group: int = 0,
    *,
    symmetric: bool = True,
    precision: str | None = None,
) -> QuantizedWeight:
    """Quantizes the weight of a linear layer.

    Args:
        weight: A tensor of floats, of shape (N, K).
        kind: "i8", "i4", "u8" or "u4" with a scale for each group; "f8E4M3FN" or "f8E5M2" with one for each row; "mxf8E4M3FN", "mxf8E5M2"
            or "mxf4E2M1FN": the blocks of 32 elements of the MX formats.
        group: Elements along K that share a scale, a multiple of 16; 0: all. Only of integers.
        symmetric: Whether 0 has the code 0; "u8" and "u4" are not symmetric.
        precision: None; or, of integers, "i8", by which what is multiplied by it may be rounded to 8-bit integers in groups along K.

    Raises:
        SpecError: `kind`, `group` or `precision` is none of these.
        OperandError: The weight is no matrix of finite numbers.
    """
    if kind not in KINDS or (group and kind not in _INTEGERS):
        raise SpecError(
            f"weights of {kind!r} in groups of {group}",
            where="tilewright.torch.quantize",
            expected=f"one of {', '.join(KINDS)}, and groups only of integers",
        )
    if precision not in (None, ROUNDED) or (precision and kind not in _INTEGERS):
        expected = f"None, or {ROUNDED!r} for weights of {', '.join(_INTEGERS)}"
        raise SpecError(
            f"precision {precision!r} for weights of {kind!r}", where="tilewright.torch.quantize", expected=expected
        )
    values = weight.detach().float()
    if kind in _FLOATS:
        scales = values.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / _FLOATS[kind]
        type_ = next(each for each, name in ELEMENTS.items() if name == kind)
        codes = (values / scales[:, None]).clamp(-_FLOATS[kind], _FLOATS[kind]).to(type_)
        return QuantizedWeight(codes, scales, None, kind, 0, values.shape[1])
    if kind in _MX:
        return _of(mx_quantize(values.numpy(), _MX[kind]), MX_BLOCK)
    scale_type = "bf16" if group else "f32"
    made = quantize_weights(values.numpy(), kind, group, symmetric=symmetric, scale_type=scale_type)
    return _of(made, group, precision)


def _of(made: Quantized, group: int, precision: str | None = None) -> QuantizedWeight:
    codes, scales, zeros = (
        None if each is None else _tensor(each) for each in (made.codes, made.scales, made.zero_points)
    )
    return QuantizedWeight(codes, scales, zeros, made.type, group, made.shape[1], precision)


def _tensor(array: Any) -> Any:  # noqa: ANN401 - of numpy's, with ml_dtypes' types
    """A tensor of an array; scales that are powers of two stay bytes."""
    import numpy as np

    names = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "bfloat16": torch.bfloat16}
    if array.dtype.name in names:
        return torch.from_numpy(array.view(np.uint8)).view(names[array.dtype.name])
    return torch.from_numpy(array.view(np.uint8) if array.dtype.name == "float8_e8m0fnu" else array)


def laid(groups: Sequence[Sequence[QuantizedWeight]]) -> list[list[QuantizedWeight]]:
    """Copies of weights, in memory of large pages.

    Those of a group, which have one K and are quantized alike, have their rows one after another: one product can then have them all.
    """
    names = ("codes", "scales", "zeros")
    given = [[getattr(each, name) for each in group] for group in groups for name in names]
    copies = iter(in_large_pages([torch.cat(each) for each in given if each[0] is not None]))
    parts = iter(
        tensors if tensors[0] is None else next(copies).split([each.shape[0] for each in tensors]) for tensors in given
    )
    found: list[list[QuantizedWeight]] = []
    for group in groups:
        each = zip(group, *(next(parts) for _ in names), strict=True)
        found.append(
            [replace(weight, codes=codes, scales=scales, zeros=zeros) for weight, codes, scales, zeros in each]
        )
    return found


def linear_quantized(
    x: Any,  # noqa: ANN401 - a tensor
    weight: QuantizedWeight,
    bias: Any = None,  # noqa: ANN401 - a tensor
    *,
    activation: str = "none",
    residual: Any = None,  # noqa: ANN401 - a tensor
) -> Any:  # noqa: ANN401 - a tensor
    """activation(x·weightᵀ + bias) + residual with a quantized weight, in one kernel, as `linear`.

    Raises:
        RuntimeError: Shapes or types do not fit.
    """
    op = _QUANTIZED.whole if wants_gradient(x, bias, residual) else _QUANTIZED.only
    of = (weight.codes, weight.scales, weight.zeros)
    return op(x, *of, bias, residual, weight.element, weight.group, activation, weight.precision or _NO_PRECISION)


def _fake(x: Any, codes: Any, *_: Any) -> Any:  # noqa: ANN401 - tensors
    torch._check(
        x.dim() >= 1 and codes.dim() == 2, lambda: f"expected (..., K) and rows of codes: {x.shape}, {codes.shape}"
    )
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


def _fake_joined(x: Any, codes: Sequence[Any], *_: Any) -> Any:  # noqa: ANN401 - tensors
    return x.new_empty((*x.shape[:-1], sum(each.shape[0] for each in codes)))


def _floats(codes: Any, scales: Any, zeros: Any, element: str, group: int, columns: int) -> Any:  # noqa: ANN401 - tensors
    if "4" in element[:2]:
        halves = torch.stack((codes & 15, codes >> 4), -1).flatten(1)[:, :columns]
        if element == "f4E2M1FN":
            sizes = torch.tensor([*_F4, *(-each for each in _F4)])
            numbers = sizes[halves.long()]
        else:
            flip, bias = _HALVES[element][1], _HALVES[element][1]
            numbers = ((halves ^ flip).float() - bias) if flip else halves.float()
    else:
        numbers = codes.float()

    def spread_over(value: Any) -> Any:  # noqa: ANN401 - a tensor
        return value.repeat_interleave(group, 1)[:, :columns] if group else value[:, None]

    powers = scales.dtype == torch.uint8 or "e8m0" in str(scales.dtype)
    sizes = torch.exp2(scales.view(torch.uint8).float() - 127) if powers else scales.float()
    return (numbers if zeros is None else numbers - spread_over(zeros.float())) * spread_over(sizes)


def _gradients(
    grad: Any,  # noqa: ANN401 - a tensor
    wanted: Sequence[bool],
    x: Any,  # noqa: ANN401 - a tensor
    codes: Any,  # noqa: ANN401 - a tensor
    scales: Any,  # noqa: ANN401 - a tensor
    zeros: Any,  # noqa: ANN401 - a tensor
    bias: Any,  # noqa: ANN401 - a tensor
    residual: Any,  # noqa: ANN401 - a tensor
    element: str,
    group: int,
    activation: str,
    precision: str,
) -> tuple[Any, ...]:
    of_sums = grad
    weight = _weight(x, codes, scales, zeros, element, group, precision)
    if activation != "none":
        of_sums = activations.BACKWARD[activation](grad, linear_quantized(x, weight, bias))
    return (
        matmul(of_sums, weight.floats().to(grad.dtype)) if wanted[0] else None,
        None,
        None,
        None,
        of_sums.reshape(-1, of_sums.shape[-1]).sum(0) if wanted[4] else None,
        grad if wanted[5] else None,
    )


def _weight(
    x: Any,  # noqa: ANN401 - a tensor
    codes: Any,  # noqa: ANN401 - a tensor
    scales: Any,  # noqa: ANN401 - a tensor
    zeros: Any,  # noqa: ANN401 - a tensor
    element: str,
    group: int,
    precision: str,
) -> QuantizedWeight:
    """The weight of an op's arguments."""
    given = None if precision == _NO_PRECISION else precision
    return QuantizedWeight(codes, scales, zeros, element, group, x.shape[-1], given)


def _batched(info: Any, axes: Sequence[int | None], *given: Any) -> tuple[Any, int]:  # noqa: ANN401 - torch's
    x, codes, scales, zeros, bias, residual, element, group, activation, precision = given
    torch._check(all(axis is None for axis in axes[1:5]), lambda: "vmap over quantized weights; expected over x alone")
    weight = _weight(x, codes, scales, zeros, element, group, precision)
    rows, added = spread(x, axes[0], info.batch_size), spread(residual, axes[5], info.batch_size)
    return linear_quantized(rows, weight, bias, activation=activation, residual=added), 0


_QUANTIZED = define("linear_quantized", _fake, _gradients, _batched, (None,) * 10)
torch.library.register_fake("tilewright::linears_quantized", _fake_joined)
