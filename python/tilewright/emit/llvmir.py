# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Translates the LLVM dialect to LLVM IR."""

from __future__ import annotations

from tilewright.errors import LoweringError
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright


def translated(module: ir.Operation) -> str:
    """The LLVM IR of a module, not yet optimized.

    Raises:
        LoweringError: LLVM cannot translate it.
    """
    try:
        return _tilewright.translate_to_llvmir(module)
    except (RuntimeError, ValueError) as e:
        raise LoweringError(str(e), stage="llvmir") from None
