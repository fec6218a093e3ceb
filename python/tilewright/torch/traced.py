# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What torch.compile makes of functions of `tilewright` that take arrays: an op of `tw.matmul`, and calls of the others as they are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment
from torch._C._dynamo.eval_frame import set_code_exec_strategy  # pyright: ignore[reportMissingImports]
from torch._dynamo import trace_rules  # pyright: ignore[reportMissingImports]
from torch._dynamo.types import FrameAction, FrameExecStrategy  # pyright: ignore[reportMissingImports]

from tilewright.runtime.attention import attention
from tilewright.runtime.compile import compile
from tilewright.runtime.conv2d import conv2d
from tilewright.runtime.matmul import matmul, matmul_each
from tilewright.torch.ops import NAMESPACE

_MODULES = ("tilewright.runtime", "tilewright.standalone", "tilewright.tuning")
"""Modules whose functions are called as they are: what they do with memory is nothing for a graph."""
_FUNCTIONS = (matmul, matmul_each, conv2d, attention, compile)
"""Those that people call. Nothing that they call is followed either, such as what compiles a kernel."""
_ADDED = torch.library.Library("tilewright", "FRAGMENT")
"""What is registered here, while it lives."""
_RESULTS: Mapping[Any, Any] = MappingProxyType(
    {
        **{each: each for each in (torch.float32, torch.float64, torch.complex64, torch.complex128)},
        **{each: each for each in (torch.int32, torch.int64)},
        torch.float16: torch.float32,
        torch.bfloat16: torch.float32,
        torch.int8: torch.int32,
        torch.uint8: torch.int32,
    }
)
"""By the type of both operands, that of their product as `tw.matmul` has it."""


def _product(a: Any, b: Any, threads: int) -> Any:  # noqa: ANN401 - tensors
    return matmul(a, b, threads=threads)


def _fake_product(a: Any, b: Any, threads: int) -> Any:  # noqa: ANN401 - tensors
    shape = torch.matmul(a.to(torch.float32), b.to(torch.float32)).shape
    return a.new_empty(shape, dtype=_RESULTS[a.dtype])


def _is_taken(a: Any, b: Any, out: Any) -> bool:  # noqa: ANN401 - tensors, or anything
    if out is not None or not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return False
    wants_gradient = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    return not wants_gradient and a.device.type == b.device.type == "cpu" and a.dtype == b.dtype and a.dtype in _RESULTS


def _traced_matmul(a: Any, b: Any, *, threads: int = 1, out: Any = None) -> Any:  # noqa: ANN401 - as of `tw.matmul`
    if _is_taken(a, b, out):
        return NAMESPACE.array_matmul.default(a, b, threads)
    torch._dynamo.graph_break()
    return matmul(a, b, threads=threads, out=out)


def start() -> None:
    """Tells torch.compile, once for a process."""
    _ADDED.define("array_matmul(Tensor a, Tensor b, int threads) -> Tensor")
    _ADDED.impl("array_matmul", _product, "CPU")
    torch.library.register_fake("tilewright::array_matmul", _fake_product)
    for name in _MODULES:
        trace_rules.add(name)
    for function in _FUNCTIONS:
        set_code_exec_strategy(function.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))
    torch.compiler.substitute_in_graph(matmul)(_traced_matmul)
