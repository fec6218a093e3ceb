# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stores of bytes under a mask, kept apart from the truncation before them.

LLVM 22 merges both for AVX-512, and when one byte is left under the mask it stores the four of the element before truncation: beyond
the end of a row. An empty piece of assembly, which costs nothing, hides the one from the other.
"""

from __future__ import annotations

from tilewright.build.usedef import named
from tilewright.mlir import ir

_LEAST = 16
"""Bytes of the smallest register that a piece of assembly takes."""


def protect(module: ir.Operation) -> None:
    """Hides from each ``llvm.intr.masked.store`` of 8-bit integers in `module` what it stores."""
    for op in named(module, "llvm.intr.masked.store"):
        value = op.operands[0]
        if not str(value.type).endswith("xi8>"):
            continue
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
    mask = ir.DenseI32ArrayAttr.get([i % given.shape[0] for i in range(length)])
    return ir.Operation.create("llvm.shufflevector", [kind], [value, value], {"mask": mask}).results[0]
