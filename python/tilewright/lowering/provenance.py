# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes into the locations of payload ops which line of the schedule made them, for a kernel's line tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tilewright.lowering.stepping import Told
from tilewright.mlir import ir
from tilewright.mlir._mlir_libs import _tilewright


@contextmanager
def marking(payload: ir.Module) -> Iterator[Told]:
    """Gives what marks, of each step of a schedule that runs inside, the ops that it made or decided on.

    Before: ``linalg.matmul ... loc("matmul")``. After, of a step at line 12 of ``own.py``::

        linalg.matmul {tilewright.product = ...} ... loc(fused["step"("own.py":12:0), "matmul"])
    """

    def mark(name: str, seconds: float, source: str, handles: Sequence[Sequence[str]]) -> None:
        file, _, line = source.rpartition(":")
        if file:
            _tilewright.mark_step(payload.operation, ir.Location.file(file, int(line), 0, payload.context))

    _tilewright.mark_step(payload.operation, None)
    try:
        yield mark
    finally:
        _tilewright.forget_seen(payload.operation)
