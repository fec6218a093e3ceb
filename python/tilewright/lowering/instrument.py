# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Watches the passes of MLIR's and LLVM's pipelines: writes the IR after each pass to files, and prints how long each took."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
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

    def new_folder(self, stage: str) -> Path:
        """Makes the folder of the next pipeline, which belongs to a stage."""
        assert self.folder is not None, "the IR goes somewhere"
        self.pipelines += 1
        made = self.folder / f"{self.pipelines:02d}-{stage}"
        made.mkdir(parents=True)
        return made


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
        context.enable_multithreading(False)  # upstream prints from one thread only
        folder = watch.new_folder(stage)
        passes.enable_ir_printing(tree_printing_dir_path=str(folder), print_after_change=True)


def current() -> Watch | None:
    """What is watched here; None where nothing is."""
    return _WATCH.get()


def record(watch: Watch, stage: str, runs: Iterable[tuple[str, float, str]]) -> None:
    """Keeps the runs of LLVM's passes in a stage: of each its name, its seconds, and the module where it changed that."""
    seconds: dict[str, float] = defaultdict(float)
    folder = watch.new_folder(stage) if watch.folder is not None else None
    for number, (name, took, after) in enumerate(runs):
        seconds[name] += took
        if folder is not None and after:
            (folder / f"{number:03d}_{name}.ll").write_text(after, encoding="utf-8")
    if watch.timed:
        total = sum(seconds.values())
        rows = sorted(seconds.items(), key=lambda each: -each[1])
        lines = [f"  {took:8.4f} ({took / total:6.1%})  {name}" for name, took in rows]
        sys.stderr.write("\n".join([f"LLVM's passes, stage {stage}: {total:.4f} s", *lines, ""]))
