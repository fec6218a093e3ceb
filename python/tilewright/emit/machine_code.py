# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The last stages of every compilation for a CPU: LLVM IR, assembly and the object."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.emit import code, llvmir
from tilewright.emit.pipeline import Record
from tilewright.mlir import ir
from tilewright.targets.base import Target


def texts(modules: Iterable[ir.Module | None]) -> str:
    """Modules as one text, with what ``tilewright-opt --split-input-file`` takes between them."""
    return "// -----\n".join(f"{module}\n" for module in modules if module is not None)


class MachineCode:
    """Stages from the LLVM dialect on.

    Attributes:
        module: The module in the LLVM dialect, which the stage "llvm" leaves here.
    """

    module: ir.Module

    def __init__(self, target: Target, record: Record) -> None:
        """Takes the target, and the record in which earlier stages' texts are."""
        self._machine, self._record = target, record

    def llvmir(self) -> str:
        """LLVM IR, optimized for the target."""
        return code.optimize(llvmir.translated(self.module.operation), self._machine)

    def asm(self) -> str:
        """Assembly of the target."""
        return code.assembly(self._record.texts["llvmir"], self._machine)

    def obj(self) -> bytes:
        """An object file."""
        return code.object_file(self._record.texts["llvmir"], self._machine)
