# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles for a CPU: runs the stages, of which the last ones, LLVM IR, assembly and the object, are written once for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tilewright import knobs
from tilewright.build import contexts
from tilewright.emit import attribution, code, coverage, llvmir, pipeline
from tilewright.emit.pipeline import Record, Wanted
from tilewright.lowering import line_tables
from tilewright.mlir import ir
from tilewright.targets import registry
from tilewright.targets.base import Target

Text = Callable[[], str]
"""Prints the text of a stage, where somebody wants it."""


def texts(modules: Iterable[ir.Module | None]) -> Text:
    """Prints modules as one text, with what ``tilewright-opt --split-input-file`` takes between them."""
    return lambda: "// -----\n".join(f"{module}\n" for module in modules if module is not None)


class MachineCode:
    """A compilation for a CPU on its way. A subclass has a method for each stage up to "llvm".

    Attributes:
        module: The module in the LLVM dialect, which the stage "llvm" leaves here.
    """

    module: ir.Module

    def __init__(self, target: Target, record: Record, wanted: Wanted, title: str) -> None:
        """Takes the target, the record of all stages, what is wanted, and what is compiled, in a phrase."""
        self._target, self._record, self._wanted, self._title = target, record, wanted, title
        self._symbol = wanted.symbol
        self._context = contexts.new()

    def run(self) -> None:
        """Runs all stages up to the one that is wanted.

        Raises:
            ScheduleError: The schedule does not fit.
            LoweringError: A later stage failed, or the one that is wanted is unknown.
        """
        wanted, title = self._wanted, f"{self._title} {self._target.name}"
        with self._context, ir.Location.unknown():
            pipeline.run(
                self,
                "cpu",
                until=wanted.until,
                record=self._record,
                title=title,
                started=wanted.started,
                texts=wanted.texts,
            )

    def llvmir(self) -> str:
        """LLVM IR, optimized for the target."""
        line_tables.add(self.module)
        text = llvmir.translated(self.module.operation)
        return code.optimize(llvmir.with_libc_memory(text) if self._wanted.for_linking else text, self._target)

    def asm(self) -> str:
        """Assembly of the target."""
        llvm_ir = self._record.texts["llvmir"]
        text = code.assembly(llvm_ir, self._target)
        if line_tables.wanted():
            syntax = registry.knowledge("tilewright.emit.{}_text", registry.family_of(self._target.architecture).name)
            return attribution.annotated(text, llvm_ir, syntax.SYNTAX.comment)
        return text

    def obj(self) -> bytes:
        """An object file; one to be loaded records what of it runs, where that is wanted."""
        llvm_ir = self._record.texts["llvmir"]
        if knobs.load().coverage is not None and not self._wanted.for_linking:
            llvm_ir = coverage.instrumented(llvm_ir)
        return code.object_file(llvm_ir, self._target)
