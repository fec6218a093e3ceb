# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports what a long step is doing while it runs, and how long it took.

On a terminal one line is kept up to date, with a bar where the step counts what it has done. Elsewhere a line comes now and
then. A step that ends within a second says nothing.
"""

from __future__ import annotations

import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_COUNT = re.compile(r"\[ *(\d+)(?:/(\d+)|%)\] *")
"""How Ninja and CMake's makefiles begin a line: [12/425] or [ 3%]."""
_SHOWN_AFTER_S = 1.0
_LINE_EVERY_S = 20.0
_REDRAWN_EVERY_S = 0.2
_BAR = 24
_TEXT = 60
"""Most characters of what a step printed last."""


class Progress:
    """One running step, used as a context; `heard` gets every line that it prints."""

    def __init__(self, what: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins to count the time of the step `what`, which is told on `stream`, by default standard output."""
        self._what = what
        self._stream = stream or sys.stdout
        self._clock = clock
        self._start = clock()
        self._told = self._start + _SHOWN_AFTER_S - _LINE_EVERY_S
        self._count = (0, 0)
        self._text = ""
        self._passed = True
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        """Starts to tell."""
        self._ticker.start()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        """Tells how long the step took."""
        if error is not None:
            self.fail()
        self._ended.set()
        self._ticker.join()
        if self._seconds >= _SHOWN_AFTER_S:
            end = "\r\033[K" if self._stream.isatty() else ""
            self._write(
                f"{end}setup: {self._what}: {'done in' if self._passed else 'failed after'} {self._seconds:.0f} s\n"
            )

    def heard(self, line: str) -> None:
        """Takes in a line that the step printed."""
        text = line.strip()
        if found := _COUNT.match(text):
            self._count = int(found[1]), int(found[2] or 100)
            text = text[found.end() :]
        self._text = text or self._text

    def fail(self) -> None:
        """Takes note that the step did not do what it was to do."""
        self._passed = False

    def tell(self) -> None:
        """Says where the step is, if it is time to."""
        if self._stream.isatty():
            if self._seconds >= _SHOWN_AFTER_S:
                width = shutil.get_terminal_size().columns
                self._write(f"\r\033[K{self._line(_bar(*self._count))[: width - 1]}")
        elif self._clock() - self._told >= _LINE_EVERY_S:
            self._told = self._clock()
            self._write(f"{self._line('')}\n")

    @property
    def _seconds(self) -> float:
        return self._clock() - self._start

    def _line(self, bar: str) -> str:
        """Where the step is, in one line."""
        done, total = self._count
        counted = f"{bar}{done} of {total}, " if total else ""
        text = f": {self._text[:_TEXT]}" if self._text and not total else ""
        return f"setup: {self._what}, {counted}{self._seconds:.0f} s{text}"

    def _tick(self) -> None:
        """Tells until the step has ended."""
        while not self._ended.wait(_REDRAWN_EVERY_S):
            self.tell()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _bar(done: int, total: int) -> str:
    """A bar of which the part that is done is full; empty when nothing is counted."""
    full = _BAR * done // total if total else 0
    return f"[{'#' * full}{'.' * (_BAR - full)}] " if total else ""
