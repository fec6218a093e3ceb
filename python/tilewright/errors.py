# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions of tilewright: each says what is wrong, where, what was expected, and what to do.

Everything that tilewright raises on purpose derives from `TilewrightError`, so that one ``except`` catches it. The
message is always one line, which the command line prints as it is; the parts stay apart as attributes for programs. All
of them pickle, so that a compilation in a child process can hand its error to the parent.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent)


_MOST = 4000
"""Characters of a part of a message: some screens. MLIR prints whole types and ops, of any size."""


def shortened(text: str) -> str:
    """A text whose middle is replaced by its length where it is too long to read."""
    if len(text) <= _MOST:
        return text
    kept = _MOST // 2 - 50
    return f"{text[:kept]} […{len(text) - 2 * kept} characters left out…] {text[-kept:]}"


class TilewrightError(Exception):
    """Base of every error that tilewright raises on purpose.

    Attributes:
        what: What is wrong, with the offending value in it.
        where: The place (an argument, a file and line, a stage), or None.
        expected: What would have been right, worded to follow "expected", or None.
        remedy: What the reader can do about it, a sentence, or None.
    """

    def __init__(
        self,
        what: str = "",
        *,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Keeps the parts; `what` alone is in `args`, the other parts travel as attributes when pickled."""
        what = shortened(what)
        super().__init__(what)
        self.what = what
        self.where = where and shortened(where)
        self.expected = expected and shortened(expected)
        self.remedy = remedy and shortened(remedy)

    def __str__(self) -> str:
        """The message on one line: ``[where: ]what[ (detail, …)][; expected …][. remedy]``."""
        place = self._place()
        details = ", ".join(self._details())
        text = f"{place}: {self.what}" if place else self.what
        if details:
            text += f" ({details})"
        if self.expected:
            text += f"; expected {self.expected}"
        if self.remedy:
            text = f"{text.rstrip('.')}. {self.remedy}"
        return " ".join(text.split())

    def _place(self) -> str | None:
        """What stands before the colon; a subclass may know the place when `where` is not given."""
        return self.where

    def _details(self) -> Iterable[str]:
        """Further facts of a subclass, put in brackets after `what`."""
        return ()


class SpecError(TilewrightError):
    """An invalid or unsupported spec: a wrong extent, an unknown element type, something that is not done yet."""


class TargetError(TilewrightError):
    """An unknown or inconsistent target, or one whose code this machine cannot run."""


class NotRunnableError(TargetError):
    """A target whose code nothing here can run: neither this machine nor an emulator."""


class OperandError(TilewrightError):
    """An operand of a call that does not fit the kernel: shape, element type, strides, overlap.

    Attributes:
        operand: The operand's name in the call ("a", "b", "out", …), or None.
    """

    def __init__(
        self,
        what: str = "",
        *,
        operand: str | None = None,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Takes the parts of `TilewrightError`, and the operand's name."""
        super().__init__(what, where=where, expected=expected, remedy=remedy)
        self.operand = operand

    def _place(self) -> str | None:
        return self.where or (f"operand {self.operand}" if self.operand else None)


class ScheduleError(TilewrightError):
    """A schedule that is wrong, or does not fit the payload.

    Attributes:
        file: The file whose code made the failing transform op (Python or MLIR), or None.
        line: The line in `file`, from 1, or None.
        transform_op: The failing transform op ("transform.structured.tile_using_for"), or None.
        payload_op: The payload op it was applied to ("linalg.matmul"), or None.
    """

    def __init__(
        self,
        what: str = "",
        *,
        file: str | Path | None = None,
        line: int | None = None,
        transform_op: str | None = None,
        payload_op: str | None = None,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Takes the parts of `TilewrightError`, and where in the schedule and on which payload it failed."""
        super().__init__(what, where=where, expected=expected, remedy=remedy)
        self.file = file
        self.line = line
        self.transform_op = transform_op
        self.payload_op = payload_op

    def _place(self) -> str | None:
        if self.where or self.file is None:
            return self.where
        return str(self.file) if self.line is None else f"{self.file}:{self.line}"

    def _details(self) -> Iterable[str]:
        if self.transform_op:
            yield f"transform op {self.transform_op}"
        if self.payload_op:
            yield f"payload op {self.payload_op}"


class WrongResultError(ScheduleError):
    """A schedule whose kernel computed wrong results, crashed, or did not end on random operands."""


class LoweringError(TilewrightError):
    """A stage of the lowering failed.

    Attributes:
        stage: The stage's name ("bufferized", "llvm", …), or None.
        reproducer: A file with which the failure can be repeated, or None.
    """

    def __init__(
        self,
        what: str = "",
        *,
        stage: str | None = None,
        reproducer: Path | None = None,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        """Takes the parts of `TilewrightError`, the stage, and the reproducer that was left."""
        super().__init__(what, where=where, expected=expected, remedy=remedy)
        self.stage = stage
        self.reproducer = reproducer

    def _place(self) -> str | None:
        return self.where or (f"stage {self.stage}" if self.stage else None)

    def _details(self) -> Iterable[str]:
        if self.reproducer is not None:
            yield f"reproducer: {self.reproducer}"


class SlowScheduleWarning(UserWarning):
    """A schedule's sizes give right results by slower code; the message names better ones."""


class UnverifiedWarning(UserWarning):
    """A kernel was to be verified, and nothing here can run it; the message says why."""


def warn_slow(message: str) -> None:
    """Issues a `SlowScheduleWarning`, as `warn` does."""
    warn(message, SlowScheduleWarning)


def warn(message: str, category: type[Warning]) -> None:
    """Issues a warning that names the line of the user's which led here: the nearest outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
