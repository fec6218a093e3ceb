# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Calls of kernels by their names in the registry, and what they return for tensors without memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.errors import TilewrightError
from tilewright.torch import registry
from tilewright.torch.ops import NAMESPACE, wants_gradient

QUOTE = "`"
"""What is around texts in that of a chain, which is JSON otherwise: Inductor writes it into C++ as it is."""
_CALL, _CALL_MANY = NAMESPACE.call.default, NAMESPACE.call_many.default


def call(kernel: str, *operands: Any) -> Any:  # noqa: ANN401 - tensors
    """The result of a kernel that `register` was given: a new tensor.

    Args:
        kernel: Its name.
        *operands: Tensors, in the order of the kernel's call.

    Raises:
        RuntimeError: No kernel has that name, an operand does not fit, or the kernel has several results (`call_many`).
        TilewrightError: A gradient is wanted for an operand.
    """
    _refuse_gradient(operands)
    return _CALL(kernel, operands)


def call_many(kernel: str, *operands: Any) -> list[Any]:  # noqa: ANN401 - tensors
    """The results of a kernel, new tensors, as `call` says."""
    _refuse_gradient(operands)
    return _CALL_MANY(kernel, operands)


def _refuse_gradient(operands: tuple[Any, ...]) -> None:
    if wants_gradient(*operands):
        raise TilewrightError(
            "an operand requires a gradient, and kernels have none",
            where="tilewright.torch.call",
            expected="tensors without",
            remedy="Pass x.detach(), call it under torch.no_grad(), or use matmul and linear, which have gradients",
        )


def _results(kernel: str, operands: Sequence[Any]) -> list[Any]:
    known = registry.registered(kernel)
    torch._check(len(operands) == len(known.arguments), lambda: f"{kernel} takes {len(known.arguments)} operands")
    pairs = zip(known.shapes(operands), known.results, strict=True)
    return [operands[0].new_empty(shape, dtype=result.type) for shape, result in pairs]


def _result(kernel: str, operands: Sequence[Any]) -> Any:  # noqa: ANN401 - a tensor
    (result,) = _results(kernel, operands)
    return result


def _in_order(kernel: str, operands: Sequence[Any], axes: Sequence[int]) -> Any:  # noqa: ANN401 - a tensor
    result = _result(kernel, operands)
    return torch.empty_permuted(result.shape, axes, dtype=result.dtype, device=result.device)


def _nothing(kernel: str, operands: Sequence[Any], out: Sequence[Any]) -> None:
    registry.registered(kernel)


def read_chain(chain: str) -> dict[str, Any]:
    """What the text of a chain of kernels says (`inductor.chains`)."""
    return json.loads(chain.replace(QUOTE, '"'))


def _left(chain: str, operands: Sequence[Any]) -> list[Any]:
    said = read_chain(chain)
    steps = [said["steps"][number] for number in said["left"]]
    return [
        torch.empty_strided(
            each["sizes"], each["strides"], dtype=getattr(torch, each["type"]), device=operands[0].device
        )
        for each in steps
    ]


def _only_left(chain: str, operands: Sequence[Any]) -> Any:  # noqa: ANN401 - a tensor
    (result,) = _left(chain, operands)
    return result


for _name, _fake in (
    ("call_chain", _only_left),
    ("call_chain_many", _left),
    ("call", _result),
    ("call_in_order", _in_order),
    ("call_many", _results),
    ("call_out", _nothing),
):
    torch.library.register_fake(f"tilewright::{_name}", _fake)
