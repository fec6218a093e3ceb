# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives kernels line tables, where they are wanted: debuggers and profilers then show the lines of the schedule, and its loops."""

from __future__ import annotations

from tilewright import knobs
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir

_LOOPS = "builtin.module(tilewright-mark-loops)"
_TABLES = "builtin.module(tilewright-debug-scopes{{directives={directives}}})"


def wanted() -> bool:
    """Whether kernels get line tables."""
    return bool(knobs.load().debug_info)


def mark_loops(module: ir.Module, stage: str) -> None:
    """Writes into the locations of a kernel for a GPU which loops are around them, before these become branches."""
    if wanted():
        run_passes(module, _LOOPS, stage)


def add(module: ir.Module, *, directives: bool = False) -> None:
    """Makes line tables of the locations in the LLVM dialect; for PTX only `directives`, since ptxas takes tables for unoptimized code."""
    if wanted():
        run_passes(module, _TABLES.format(directives=str(directives).lower()), "llvmir")
