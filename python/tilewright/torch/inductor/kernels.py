# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The op by which compiled graphs call kernels, and the kernels that they call.

A graph names a kernel by a digest of its spec and threads. The kernels themselves are in the disk cache that every caller shares.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple
from functools import cache, lru_cache
from typing import Any

import torch  # pyright: ignore[reportMissingImports] - not in the project's own environment

from tilewright.runtime.compile import compile
from tilewright.runtime.kernel import Kernel
from tilewright.standalone.packed_b import PackedB
from tilewright.standalone.packing import HEADER_BYTES, PackedFormat

NAME = "tilewright::compiled"


@lru_cache(maxsize=4096)
def compiled(spec: Any, threads: int) -> Kernel:  # noqa: ANN401 - any spec
    """The kernel for a spec, compiled once in a process.

    Raises:
        TilewrightError: It cannot be compiled.
    """
    return compile(spec, threads=threads)


@cache
def _table() -> dict[str, Kernel]:
    """Kernels by the names that graphs call them."""
    return {}


def named(kernel: Kernel, spec: Any, threads: int) -> str:  # noqa: ANN401
    """The name by which graphs call a kernel from now on; the same in every process."""
    digest = hashlib.sha256(repr((type(spec).__name__, astuple(spec), threads)).encode()).hexdigest()[:16]
    _table()[digest] = kernel
    return digest


def _run(operands: list[Any], kernel: str, size: list[int], stride: list[int], dtype: Any) -> Any:  # noqa: ANN401
    out = torch.empty_strided(size, stride, dtype=dtype)
    _table()[kernel](*map(_operand, operands), out=out)
    return out


def _operand(tensor: Any) -> Any:  # noqa: ANN401
    """What a kernel takes for a tensor: bytes are a packed matrix."""
    if tensor.dtype == torch.uint8:
        array = tensor.numpy()
        return PackedB._adopt(PackedFormat.from_header(array[:HEADER_BYTES].tobytes()), array)
    return tensor.detach() if tensor.requires_grad else tensor


def _fake(operands: list[Any], kernel: str, size: list[int], stride: list[int], dtype: Any) -> Any:  # noqa: ANN401
    return operands[0].new_empty_strided(size, stride, dtype=dtype)


@cache
def op() -> Any:  # noqa: ANN401 - an OpOverload
    """The op, defined at the first call: operands, the kernel's name, and the size, strides and type of the result."""
    library = torch.library.Library("tilewright", "FRAGMENT")
    library.define(
        "compiled(Tensor[] operands, str kernel, SymInt[] size, SymInt[] stride, ScalarType dtype) -> Tensor",
        tags=(torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag),
    )
    library.impl("compiled", _run, "CPU")
    torch.library.register_fake(NAME, _fake, lib=library)
    _keep(library)
    return torch.ops.tilewright.compiled.default


@cache
def _kept() -> list[Any]:
    return []


def _keep(library: Any) -> None:  # noqa: ANN401
    """An op lives as long as its library."""
    _kept().append(library)
