# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stores of bytes under a mask, kept apart from the truncation before them.

LLVM 22 merges both for AVX-512, and when one byte is left under the mask it stores the four of the element before truncation: beyond
the end of a row. An empty piece of assembly, which costs nothing, hides the one from the other.
"""

from __future__ import annotations

from tilewright.mlir import ir
from tilewright.mlir.dialects import llvm

_LEAST = 16
"""Bytes of the smallest register that a piece of assembly takes."""


def protect(module: ir.Operation) -> None:
    """Hides from each ``llvm.intr.masked.store`` of 8-bit integers in `module` what it stores."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "llvm.intr.masked.store" and str(op.operands[0].type).endswith("xi8>"):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        value = op.operands[0]
        bytes_ = ir.VectorType(value.type).shape[0]
        with ir.InsertionPoint(op), op.location:
            whole = _resized(value, max(bytes_, _LEAST))
            attributes = {"asm_string": ir.StringAttr.get(""), "constraints": ir.StringAttr.get("=v,0")}
            hidden = ir.Operation.create("llvm.inline_asm", [whole.type], [whole], attributes)
            op.operands[0] = _resized(hidden.results[0], bytes_)


def _resized(value: ir.Value, length: int) -> ir.Value:
    """The first elements of a vector, or the vector with any others after it."""
    given = ir.VectorType(value.type)
    if given.shape[0] == length:
        return value
    kind = ir.VectorType.get([length], given.element_type)
    return llvm.shufflevector(kind, value, value, [i % given.shape[0] for i in range(length)])
