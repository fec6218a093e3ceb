# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that has the card, as the one that keeps the records sees it: it may hang or die, and then another one is begun.

A kernel that reads where nothing is ends the context of its process on the card, and a deadlock never ends: neither may take with it
what other kernels would have shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tilewright.bench.card.plan import Step
from tilewright.errors import TargetError, TilewrightError

START_SECONDS = 180.0
"""Until the card is open: torch takes its time."""
SILENT_SECONDS = 30.0
"""Between two things that the process tells of; the slowest one, a kernel's compilation in Triton, takes some 5 s."""
_END_SECONDS = 30.0
_MOST_BEGINNINGS = 3

Serve = Callable[[Path, Connection], None]


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


class Worker:
    """Runs steps in a process of its own, which is begun again when it ends."""

    def __init__(
        self,
        folder: Path,
        process: Serve = serve,
        start_seconds: float = START_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """Begins nothing yet."""
        self._folder, self._serve = folder, process
        self._start_seconds, self._silent_seconds = start_seconds, silent_seconds
        self._process: Any = None
        self._line: Any = None

    def run(self, step: Step, without: Iterable[str] = ()) -> dict[str, Any] | Broken:
        """What comes of a step, or what ended the process while it was at it.

        Raises:
            TargetError: There is no card, or no torch, or it cannot be opened.
        """
        if self._process is None:
            self._begin()
        try:
            self._line.send((step, tuple(without)))
        except (BrokenPipeError, ConnectionError):
            return self._ended("")
        at = ""
        while True:
            said = self._next(self._silent_seconds, at)
            if isinstance(said, Broken):
                return said
            kind, about = said
            if kind == "done":
                return about
            if kind == "broken":
                self.close()
                return about
            at = about

    def _begin(self) -> None:
        """Begins the process; several times, since a card that was just left may need a moment."""
        context = get_context("spawn")
        said: tuple[str, Any] | Broken = Broken("", "")
        for _ in range(_MOST_BEGINNINGS):
            self._line, theirs = context.Pipe()
            self._process = context.Process(target=self._serve, args=(self._folder, theirs), daemon=True)
            self._process.start()
            theirs.close()
            said = self._next(self._start_seconds, "")
            if not isinstance(said, Broken):
                break
        if isinstance(said, Broken):
            raise TargetError(f"no process can open the card: {said.text}", where="bench --card")
        kind, about = said
        if kind == "refused":
            self.close()
            raise TargetError(about)

    def _next(self, seconds: float, at: str) -> tuple[str, Any] | Broken:
        try:
            if self._line.poll(seconds):
                return self._line.recv()
        except (EOFError, ConnectionError):
            return self._ended(at)
        self.close()
        return Broken(at, f"nothing came for {seconds:.0f} s: it was ended")

    def _ended(self, at: str) -> Broken:
        """The process is gone."""
        self._process.join(_END_SECONDS)
        code = self._process.exitcode
        self.close()
        return Broken(at, f"the process ended with status {code}")

    def close(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        self._line.close()
        self._process.kill()
        self._process.join(_END_SECONDS)
        self._process = None
