# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Watches the passes of pipelines: writes the IR after each pass to files, and prints how long each took, as mlir-opt does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from tilewright.mlir import ir
from tilewright.mlir.passmanager import PassManager


@dataclass(slots=True)
class Watch:
    """What is watched.

    Attributes:
        folder: Where the IR goes: a folder for each pipeline that runs, in it upstream's tree of files; None for nowhere.
        timed: Whether each pipeline prints a table of its passes' times to standard error.
        pipelines: How many pipelines have run.
    """

    folder: Path | None
    timed: bool
    pipelines: int = 0


_WATCH: ContextVar[Watch | None] = ContextVar("watched passes", default=None)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Has the pipelines inside watched; None: not."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def prepare(passes: PassManager, context: ir.Context, stage: str) -> None:
    """Lets a pipeline of a stage be watched, if pipelines are."""
    watch = _WATCH.get()
    if watch is None:
        return
    if watch.timed:
        passes.enable_timing()
    if watch.folder is not None:
        watch.pipelines += 1
        context.enable_multithreading(False)  # upstream prints from one thread only
        folder = watch.folder / f"{watch.pipelines:02d}-{stage}"
        folder.mkdir(parents=True)
        passes.enable_ir_printing(tree_printing_dir_path=str(folder), print_after_change=True)
