# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives kernels line tables, where they are wanted: debuggers and profilers then show the lines of the schedule, and its loops."""

from __future__ import annotations

from tilewright import knobs
from tilewright.lowering.run import run_passes
from tilewright.mlir import ir
from tilewright.targets.base import Target

_TABLES = "builtin.module(tilewright-debug-scopes)"


def wanted(target: Target) -> bool:
    """Whether kernels for `target` get line tables.

    Not those that use SME's streaming mode: LLVM would have them keep the vector length for debuggers, by calls of the C runtime.
    """
    return bool(knobs.load().debug_info) and not target.streaming_bits


def add(module: ir.Module, target: Target) -> None:
    """Makes line tables of the locations in the LLVM dialect."""
    if wanted(target):
        run_passes(module, _TABLES, "llvmir")
