# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Starts the process that uses the card, and starts another one when it hangs or dies.

A kernel that faults ends the card's context of its process, and a deadlock never ends. Neither may keep other kernels from being
measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tilewright.bench.card.plan import Step
from tilewright.errors import TargetError, TilewrightError
from tilewright.processes.child import Child, ChildEndedError

START_SECONDS = 180.0
"""Until the card is open: torch takes its time."""
SILENT_SECONDS = 30.0
"""Between two things that the process tells of; the slowest one, a kernel's compilation in Triton, takes some 5 s."""
_MOST_BEGINNINGS = 3
_SHOWN = 600
"""Characters of what a process printed that are told, the last ones."""


@dataclass(frozen=True, slots=True)
class Broken:
    """What ended a process.

    Attributes:
        what: What ran: the name of a contender's choice, or "" where none did.
        text: What is known of it.
    """

    what: str
    text: str


def serve(folder: Path, tell: Connection) -> None:
    """The process: opens the card, then does each step that it is sent, until the card's context is lost, or nothing more comes."""
    from tilewright.bench.card.on_card import Bench, BrokenError

    try:
        bench = Bench(folder, lambda what: tell.send(("at", what)))
    except TilewrightError as e:
        tell.send(("refused", str(e)))
        return
    tell.send(("ready", None))
    while (given := tell.recv()) is not None:
        step, without = given
        try:
            tell.send(("done", {**bench.run(step, without), **bench.facts}))
        except BrokenError as e:
            tell.send(("broken", Broken(e.what, e.text)))
            return
        except TilewrightError as e:
            tell.send(("refused", str(e)))


class Worker:
    """Runs steps in a process of its own, which is begun again when it ends."""

    def __init__(
        self,
        folder: Path,
        module: str = "tilewright.bench.card.worker",
        start_seconds: float = START_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """Begins nothing yet; `module` is what the process runs."""
        self._folder, self._module = folder, module
        self._start_seconds, self._silent_seconds = start_seconds, silent_seconds
        self._process: Child | None = None

    def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any] | Broken:
        """What comes of a step, or what ended the process while it was at it.

        Raises:
            TargetError: There is no card, or no torch, or it cannot be opened.
        """
        process = self._process or self._begin()
        try:
            process.send((step, tuple(without)))
        except ChildEndedError as error:
            return self._broken("", error)
        at = ""
        while True:
            try:
                kind, about = process.receive(self._silent_seconds)
            except ChildEndedError as error:
                return self._broken(at, error)
            if kind == "done":
                return about
            if kind == "refused":
                raise TargetError(about)
            if kind == "broken":
                self.close()
                return about
            at = about

    def _begin(self) -> Child:
        """Begins the process; several times, since a card that was just left may need a moment."""
        broken = Broken("", "")
        for _ in range(_MOST_BEGINNINGS):
            self._process = process = Child(self._module, str(self._folder))
            try:
                kind, about = process.receive(self._start_seconds)
            except ChildEndedError as error:
                broken = self._broken("", error)
                continue
            if kind == "refused":
                self.close()
                raise TargetError(about)
            return process
        raise TargetError(f"no process can open the card: {broken.text}", where="bench card")

    def _broken(self, at: str, ended: ChildEndedError) -> Broken:
        """What ended the process while it was at something."""
        self.close()
        said = ended.output.strip()[-_SHOWN:]
        return Broken(at, f"the process {ended.reason}" + (f": {said}" if said else ""))

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.close()
        self._process = None


if __name__ == "__main__":
    # Under its own name, by which what is sent is found on the other side.
    from tilewright.bench.card import worker

    with Connection(int(sys.argv[1])) as connection:
        worker.serve(Path(sys.argv[2]), connection)
