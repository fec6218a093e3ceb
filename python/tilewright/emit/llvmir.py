# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translates the LLVM dialect to LLVM IR."""

from __future__ import annotations

import re
from types import MappingProxyType

from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright

_LIBC = MappingProxyType(
    {
        "_mlir_memref_to_llvm_alloc": "malloc",
        "_mlir_memref_to_llvm_aligned_alloc": "aligned_alloc",
        "_mlir_memref_to_llvm_free": "free",
    }
)
"""The functions of MLIR's lowering for scratch memory, which the runtime defines, and those of the C library that do the same."""
_MEMORY = re.compile(rf"@({'|'.join(_LIBC)})\b")


def translated(module: ir.Operation) -> str:
    """The LLVM IR of a module, not yet optimized.

    Raises:
        LoweringError: LLVM cannot translate it.
    """
    try:
        return _tilewright.translate_to_llvmir(module)
    except (RuntimeError, ValueError) as e:
        raise LoweringError(str(e), stage="llvmir") from None


def with_libc_memory(text: str) -> str:
    """LLVM IR that takes scratch memory from the C library, for objects that are linked elsewhere."""
    return _MEMORY.sub(lambda found: f"@{_LIBC[found[1]]}", text)
