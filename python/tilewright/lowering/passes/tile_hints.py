# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets AMX load the tiles of an operand so that they do not stay in L1: where a schedule says that they pass by others that should.

Upstream's `amx.tile_load` has no such form, so the loads are changed once they are intrinsics of LLVM.
"""

from __future__ import annotations

from tilewright.build.usedef import definition, named
from tilewright.mlir import ir

B, A = 1, 2
"""The bits of a schedule's `past_l1`."""
_PLAIN, _PASSING = "llvm.x86.tileloadd64.internal", "llvm.x86.tileloaddt164.internal"
_OPERANDS = {A: 4, B: 5}
"""Where a product of tiles has them, after three extents and the sums."""


def pass_l1(module: ir.Operation, operands: int) -> None:
    """Changes the loads of the tiles of `operands`, of which each is a bit, in a module of the LLVM dialect.

    Before: ``tileloadd``, whose lines L1 keeps like any others. After: ``tileloaddt1``, whose lines are the first to leave it.
    """
    for product in named(module, "llvm.call_intrinsic"):
        if not _name(product).startswith("llvm.x86.tdp"):
            continue
        for bit, place in _OPERANDS.items():
            load = definition(product.operands[place]) if operands & bit else None
            if load is not None and load.name == "llvm.call_intrinsic" and _name(load) == _PLAIN:
                load.attributes["intrin"] = ir.StringAttr.get(_PASSING, module.context)


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["intrin"]).value
