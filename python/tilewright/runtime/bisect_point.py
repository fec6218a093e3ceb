# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One of the compilations that a bisection tries: a schedule, and the passes behind it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tilewright import knobs
from tilewright.errors import SlowScheduleWarning, UnverifiedWarning
from tilewright.lowering.pass_list import REQUIRED
from tilewright.runtime.compile import compile as compile_
from tilewright.runtime.kernel import Kernel
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

SCHEDULE = "schedule.mlir"
"""The file of the schedule that is tried."""
DUMPED = "dumped"
"""The folder with the stages and passes of compilations."""


@dataclass(frozen=True, slots=True)
class Point:
    """One of the compilations between a good and a bad one.

    Attributes:
        schedule: The text of the schedule.
        passes: The list of passes behind it; `REQUIRED` for those that are needed alone, empty for our pipelines.
    """

    schedule: str
    passes: str = ""

    @contextmanager
    def compiled(
        self,
        folder: Path,
        spec: MatmulSpec,
        target: Target | GpuTarget,
        threads: int,
        *,
        dumped: bool,
        verified: bool = False,
    ) -> Iterator[Kernel]:
        """Gives the kernel, checked on random operands. What is compiled inside is compiled by the same passes.

        Args:
            folder: An empty folder for its files.
            spec: What is computed.
            target: For which processor or GPU.
            threads: Most threads that a call uses.
            dumped: Whether stages and passes are written to `DUMPED` in the folder.
            verified: Whether it is an error that nothing here can check the kernel.

        Raises:
            TilewrightError: What `tilewright.compile` raises.
            UnverifiedWarning: It cannot be checked.
        """
        file, passes = folder / SCHEDULE, folder / "passes.txt"
        file.write_text(self.schedule, encoding="utf-8")
        passes.write_text(self.passes, encoding="utf-8")
        variables = {}
        if self.passes:
            variables["TILEWRIGHT_PASSES"] = REQUIRED if self.passes == REQUIRED else str(passes)
        if dumped:
            variables["TILEWRIGHT_DUMP"] = str(folder / DUMPED)
        with warnings.catch_warnings(), knobs.overridden(**variables):
            # Half a schedule is often slow, and another machine's kernel is not verified.
            warnings.simplefilter("ignore", SlowScheduleWarning)
            warnings.simplefilter("error" if verified else "ignore", UnverifiedWarning)
            yield compile_(spec, target, threads, str(file), cache=False, verify=True)
