# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hands what a schedule says to LLVM about a loop on to LLVM."""

from __future__ import annotations

from tilewright.mlir import ir

_ON_LOOP = "llvm.loop_annotation"
_ON_BRANCH = "loop_annotation"


def hand_on(module: ir.Module) -> None:
    """Lets the branches of the LLVM dialect have the annotations of the loops that they were made from, in place.

    LLVM 22's ``convert-scf-to-cf`` and ``convert-to-llvm`` carry a loop's annotation to its branch back, but as a
    discardable attribute, which the translation to LLVM IR does not read.
    """

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "llvm.br" and _ON_LOOP in op.attributes:
            op.attributes[_ON_BRANCH] = op.attributes[_ON_LOOP]
            del op.attributes[_ON_LOOP]
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
