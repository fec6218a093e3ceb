# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops return for tensors without memory: shapes and types, by which torch.compile and torch.export trace them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.torch import native, registry

_INTEGERS = (torch.int8, torch.uint8)


def define() -> None:
    """Adds them to the ops, which are loaded first.

    Raises:
        TilewrightError: The ops cannot be loaded.
    """
    native.library()
    for name, fake in _FAKES.items():
        torch.library.register_fake(f"tilewright::{name}", fake)


def _results(kernel: str, operands: Sequence[Any]) -> list[Any]:
    known = registry.registered(kernel)
    torch._check(len(operands) == len(known.arguments), lambda: f"{kernel} takes {len(known.arguments)} operands")
    shapes = known.shapes(operands)
    pairs = zip(shapes, known.results, strict=True)
    return [operands[0].new_empty(shape, dtype=result.type) for shape, result in pairs]


def _call(kernel: str, operands: Sequence[Any]) -> Any:  # noqa: ANN401 - a tensor
    (result,) = _results(kernel, operands)
    return result


def _call_out(kernel: str, operands: Sequence[Any], out: Sequence[Any]) -> None:
    registry.registered(kernel)


def _summed(a: Any, b: Any) -> Any:  # noqa: ANN401 - of tensors, a type
    torch._check(a.dtype == b.dtype, lambda: f"operands are of {a.dtype} and {b.dtype}; expected the same type")
    return torch.int32 if a.dtype in _INTEGERS else a.dtype


def _matmul(a: Any, b: Any) -> Any:  # noqa: ANN401 - tensors
    torch._check(a.dim() >= 2 and b.dim() >= 2, lambda: f"expected matrices, not {a.shape} and {b.shape}")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"K differs: {a.shape} and {b.shape}")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=_summed(a, b))


def _linear(x: Any, weight: Any, bias: Any = None, residual: Any = None, activation: str = "none") -> Any:  # noqa: ANN401
    torch._check(
        x.dim() >= 1 and weight.dim() == 2, lambda: f"expected (..., K) and (N, K), not {x.shape}, {weight.shape}"
    )
    torch._check(x.shape[-1] == weight.shape[1], lambda: f"K differs: {x.shape} and {weight.shape}")
    return x.new_empty((*x.shape[:-1], weight.shape[0]), dtype=_summed(x, weight))


def _linear_glu(x: Any, gate: Any, up: Any, activation: str = "silu") -> Any:  # noqa: ANN401 - tensors
    return _linear(x, gate)


_FAKES = {
    "call": _call,
    "call_many": _results,
    "call_out": _call_out,
    "matmul": _matmul,
    "linear": _linear,
    "linear_glu": _linear_glu,
}
