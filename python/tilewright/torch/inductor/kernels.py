# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels that compiled graphs call, by the ops of `tilewright.torch`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.torch import register, registry

_NAME = "call_strided"


@lru_cache(maxsize=4096)
def compiled(spec: Any, threads: int) -> tuple[str, Kernel]:  # noqa: ANN401 - any spec
    """The kernel for a spec, and the name by which ops call it.

    Raises:
        TilewrightError: It cannot be compiled.
    """
    kernel = compile(spec, threads=threads)
    return register(kernel), kernel


@cache
def op(*, strided: bool) -> Any:  # noqa: ANN401 - an OpOverload
    """The op that calls a kernel: its name, the operands, and where the result is `strided` its shape, strides and type."""
    return _library() if strided else torch.ops.tilewright.call.default


@cache
def _library() -> Any:  # noqa: ANN401
    library = torch.library.Library("tilewright", "FRAGMENT")
    library.define(
        f"{_NAME}(str kernel, Tensor[] operands, SymInt[] size, SymInt[] stride, ScalarType dtype) -> Tensor",
        tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag),
    )
    library.impl(_NAME, _call_strided, "CPU")
    torch.library.register_fake(f"tilewright::{_NAME}", _fake, lib=library)
    found = torch.ops.tilewright.call_strided.default
    found.library = library  # The op lives as long as its library.
    return found


def _call_strided(kernel: str, operands: Sequence[Any], size: list[int], stride: list[int], dtype: Any) -> Any:  # noqa: ANN401
    out = torch.empty_strided(size, stride, dtype=dtype)
    # The op of C++ takes no result whose axes lie in another order.
    registry.registered(kernel).kernel(*(each.detach() for each in operands), out=out)
    return out


def _fake(kernel: str, operands: Sequence[Any], size: list[int], stride: list[int], dtype: Any) -> Any:  # noqa: ANN401
    return operands[0].new_empty_strided(size, stride, dtype=dtype)
