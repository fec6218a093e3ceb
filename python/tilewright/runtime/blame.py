# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a bisection found, and the folder that shows it."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tilewright.emit import product_options
from tilewright.errors import TargetError, TilewrightError
from tilewright.lowering.pass_list import REQUIRED
from tilewright.runtime import files, reduction
from tilewright.runtime.bisect_point import DUMPED, Point
from tilewright.spec import MatmulSpec
from tilewright.targets import GpuTarget, Target

_SHOWN = 160
"""Characters of an op that are shown."""


@dataclass(frozen=True, slots=True)
class Blame:
    """What `bisect` returns.

    Attributes:
        op: The text of the op or the pass, or of the ones that differ, to blame.
        kind: What it is: "op" or "pass".
        number: Which of the ops and passes that were searched it is, from 1; of two schedules or lists, which of their differences.
        count: How many there are.
        runs: How many compilations were tried.
        reason: What the kernel has that it should not.
        spec: The product on which it shows: of extents as small as were found.
        target: For which processor or GPU.
        threads: Most threads that a call uses.
        stage: The stage that fails: "scheduled" where a transform op does; empty where the kernel is made, and is bad.
        before: The last compilation that is good.
        after: The first one that is not, which has one op, pass or difference more.
    """

    op: str
    kind: str
    number: int
    count: int
    runs: int
    reason: str
    spec: MatmulSpec
    target: Target | GpuTarget
    threads: int
    stage: str
    before: Point
    after: Point

    @property
    def good(self) -> str:
        """The text of the schedule of the last compilation that is good."""
        return self.before.schedule

    @property
    def bad(self) -> str:
        """That of the first one that is not."""
        return self.after.schedule

    def __repr__(self) -> str:
        """What is to blame."""
        shown = f"{self.op[:_SHOWN]}{'…' * (len(self.op) > _SHOWN)}"
        return f"<tilewright.Blame {self.kind} {self.number} of {self.count}: {shown}>"

    def write(self, folder: str | PathLike[str]) -> None:
        """Writes a folder: both compilations as files, a README, and scripts that run them, `good.sh` and `bad.sh`.

        Where a transform op or a pass of MLIR's fails, also the IR on which it does, as it is and reduced by mlir-reduce, and the script
        that says whether IR has the fault.

        Raises:
            TilewrightError: They cannot be written.
        """
        into = Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        named: dict[str, str] = {}
        commands: list[str] = []
        for name, point in (("good", self.before), ("bad", self.after)):
            named[f"{name}.mlir"] = point.schedule
            options = ["--schedule", f"{name}.mlir"]
            if point.passes:
                listed = point.passes != REQUIRED
                options += ["--passes", f"{name}.passes" if listed else REQUIRED]
                named |= {f"{name}.passes": point.passes} if listed else {}
            commands.append(
                f"tilewright run {shlex.join([*product_options.of(self.spec, self.target.name, self.threads), *options])}"
            )
            named[f"{name}.sh"] = f'#!/bin/sh\ncd "$(dirname "$0")" && exec {commands[-1]}\n'
        try:
            named |= self._case(named)
        except TargetError as error:
            commands.append(f"The IR is not reduced: {error}")
        if reduction.REDUCED in named:
            commands.append(f"./{reduction.TEST} {reduction.REDUCED} || echo it fails")
        named["README.txt"] = "\n".join(
            (f"{self.reason}\n\nTo blame: {self.kind} {self.number} of {self.count}:\n\n{self.op}\n", *commands, "")
        )
        files.write_together({name: (into / name, content.encode()) for name, content in named.items()})
        for script in into.glob("*.sh"):
            script.chmod(0o755)

    def _case(self, beside: dict[str, str]) -> dict[str, str]:
        """The files of the IR on which something fails; none where nothing does."""
        if not self.stage:
            return {}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with (
                contextlib.suppress(TilewrightError),
                self.after.compiled(folder, self.spec, self.target, self.threads, dumped=True),
            ):
                pass
            found = [reduction.case(each, self.stage) for each in (folder / DUMPED).glob("*")]
        return reduction.reduced(*found[0], beside) if found and found[0] else {}
