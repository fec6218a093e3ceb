# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds functions that are given as text to a module in the LLVM dialect.

Neither is the module printed, which takes longer than the rest, nor are the Python classes of the LLVM dialect imported, which takes
as long as half of a kernel to compile.
"""

from __future__ import annotations

import re

from tilewright.errors import LoweringError
from tilewright.mlir import ir

_MENTIONED = re.compile(r"@([\w.$-]+)")


def add(module: ir.Module, text: str) -> None:
    """Adds the ops of `text` to a module, after its own, which they may call.

    Raises:
        LoweringError: The text defines a name that the module has already.
    """
    present = {name_of(op): op for op in ops(module)}
    mentioned = set(_MENTIONED.findall(text))
    called = {name: op for name, op in present.items() if name in mentioned}
    defined = set(re.findall(r"llvm\.func (?:\w+ )?@([\w.$-]+)", text))
    if twice := defined & present.keys():
        raise LoweringError(f"{', '.join(sorted(twice))} would be defined twice", stage="llvm")
    declared = (
        f'"llvm.func"() <{{sym_name = "{name}", function_type = {op.attributes["function_type"]}}}> ({{}}) : () -> ()'
        for name, op in called.items()
    )
    added = ir.Module.parse("\n".join((*declared, text)), module.context)
    for op in ops(added):
        if name_of(op) not in called:
            module.body.append(op)


def name_of(op: ir.Operation) -> str:
    """The symbol that an op defines; empty when it defines none."""
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def ops(module: ir.Module) -> list[ir.Operation]:
    """The ops of a module, not those in them. A block's list of ops would import the Python classes of their dialect."""
    found: list[ir.Operation] = []

    def note(op: ir.Operation) -> ir.WalkResult:
        if op == module.operation:
            return ir.WalkResult.ADVANCE
        found.append(op)
        return ir.WalkResult.SKIP

    module.operation.walk(note, ir.WalkOrder.PRE_ORDER)
    return found
