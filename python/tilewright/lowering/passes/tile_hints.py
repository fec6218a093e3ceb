# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hints to a core in loops over AMX's tiles: which operand's tiles L1 need not keep, and that it will store tiles soon.

Upstream's `amx` dialect has neither, so both work on intrinsics of LLVM.
"""

from __future__ import annotations

from tilewright.build.usedef import definition, named
from tilewright.mlir import ir

B, A = 1, 2
"""The bits of a schedule's `past_l1`."""
_PLAIN, _PASSING = "llvm.x86.tileloadd64.internal", "llvm.x86.tileloaddt164.internal"
_OPERANDS = {A: 4, B: 5}
"""Where a product of tiles has them, after three extents and the sums."""
_MULTIPLY, _CLOBBERED = "vpmuludq %xmm15, %xmm15, %xmm15", "~{xmm15}"
"""Raises no exceptions of floating point, and waits for nothing but itself."""


def pass_l1(module: ir.Operation, operands: int) -> None:
    """Changes the loads of the tiles of `operands`, of which each is a bit, in a module of the LLVM dialect.

    Before: ``tileloadd``, whose lines L1 keeps like any others. After: ``tileloaddt1``, whose lines are the first to leave it.
    """
    for product in named(module, "llvm.call_intrinsic"):
        if not _multiplies(product):
            continue
        for bit, place in _OPERANDS.items():
            load = definition(product.operands[place]) if operands & bit else None
            if load is not None and load.name == "llvm.call_intrinsic" and _name(load) == _PLAIN:
                load.attributes["intrin"] = ir.StringAttr.get(_PASSING, module.context)


def keep_awake(module: ir.Operation) -> None:
    """Puts a multiplication of vectors, whose result nobody uses, into each block of a module that multiplies tiles.

    Before::

        for k: tileloadd; tdpbf16ps; ...
        tilestored

    After::

        for k: tileloadd; vpmuludq; tdpbf16ps; ...
        tilestored

    A core that multiplies no vectors turns off what does, and a store of tiles needs it. Measured on one core of Granite Rapids at 3.2
    GHz (2026-11-29), one store behind a loop over 2 x 2 tiles in L1: it takes 30 ns where the loop takes up to 600 ns, and 330 ns where
    the loop takes longer. With an addition or a multiplication of floating point in the loop, of any width, or a multiplication of
    integers, it takes 30 ns; additions of integers, shuffles, and loads and stores of vectors change nothing.
    """
    first: dict[ir.Block, ir.Operation] = {}
    for op in named(module, "llvm.call_intrinsic"):
        if _multiplies(op):
            first.setdefault(op.block, op)
    for product in first.values():
        with ir.InsertionPoint(product), product.location:
            attributes = {
                "asm_string": ir.StringAttr.get(_MULTIPLY),
                "constraints": ir.StringAttr.get(_CLOBBERED),
                "has_side_effects": ir.UnitAttr.get(),
            }
            ir.Operation.create("llvm.inline_asm", [], [], attributes)


def _multiplies(intrinsic: ir.Operation) -> bool:
    return _name(intrinsic).startswith("llvm.x86.tdp")


def _name(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["intrin"]).value
