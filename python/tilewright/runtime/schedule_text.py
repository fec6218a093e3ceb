# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text of the schedule of a product, as MLIR prints it, whoever wrote it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tilewright import knobs
from tilewright.errors import TilewrightError
from tilewright.runtime import product_files
from tilewright.runtime.compile import compile as compile_
from tilewright.schedules import make
from tilewright.schedules.plan import Schedule
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

_DUMPED = "*/*-schedule.mlir"
"""The schedule in the folder of a compilation that ``TILEWRIGHT_DUMP`` has written."""


def of(spec: MatmulSpec, target: Target | GpuTarget, schedule: Schedule, threads: int) -> str:
    """The text; a user's schedule is read in a child process. What comes behind it may fail.

    Raises:
        TilewrightError: There is no text: the schedule does not fit, or cannot be read.
    """
    if isinstance(target, Target):
        plan = make.make(spec, target, schedule, None, threads)
        return product_files.build(spec, target, plan, until="schedule").texts["schedule"]
    with tempfile.TemporaryDirectory() as name, knobs.overridden(TILEWRIGHT_DUMP=name):
        try:
            compile_(spec, target, threads, schedule, cache=False)
        except TilewrightError:
            if not any(Path(name).glob(_DUMPED)):
                raise
        return min(Path(name).glob(_DUMPED), key=lambda path: path.stat().st_ctime_ns).read_text(encoding="utf-8")
