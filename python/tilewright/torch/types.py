# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types of torch, and ours for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.dtypes import DType

_ROWS = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E8M0FNU": "float8_e8m0fnu",
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "i64": "int64",
    "c64": "complex64",
    "c128": "complex128",
}

ELEMENTS: Mapping[Any, str] = MappingProxyType(
    {getattr(torch, name): ours for ours, name in _ROWS.items() if hasattr(torch, name)}
)
"""Our names of torch's element types."""


def torch_type(element: DType) -> Any:  # noqa: ANN401 - torch.dtype
    """Torch's type for elements of ours: bytes where two share one, or where torch has no such type."""
    return torch.uint8 if element.packed > 1 else getattr(torch, _ROWS.get(element.name, "uint8"), torch.uint8)
