# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The activations that ops fuse: torch's own functions, and their gradients, by the names that ours have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

_F: Any = torch.nn.functional
_aten: Any = torch.ops.aten

FORWARD: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "none": lambda z: z,
        "relu": torch.relu,
        "gelu": _F.gelu,
        "gelu_tanh": lambda z: _F.gelu(z, approximate="tanh"),
        "silu": _F.silu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "hardswish": _F.hardswish,
    }
)

BACKWARD: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "none": lambda grad, z: grad,
        "relu": lambda grad, z: grad * (z > 0),
        "gelu": lambda grad, z: _aten.gelu_backward(grad, z),
        "gelu_tanh": lambda grad, z: _aten.gelu_backward(grad, z, approximate="tanh"),
        "silu": lambda grad, z: _aten.silu_backward(grad, z),
        "sigmoid": lambda grad, z: _aten.sigmoid_backward(grad, torch.sigmoid(z)),
        "tanh": lambda grad, z: _aten.tanh_backward(grad, torch.tanh(z)),
        "hardswish": lambda grad, z: _aten.hardswish_backward(grad, z),
    }
)
