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

from tilewright.standalone.errors import NotRunnableError as NotRunnableError
from tilewright.standalone.errors import OperandError as OperandError
from tilewright.standalone.errors import TargetError as TargetError
from tilewright.standalone.errors import TilewrightError as TilewrightError

_PACKAGE = str(Path(__file__).resolve().parent)


class SpecError(TilewrightError):
    """An invalid or unsupported spec: a wrong extent, an unknown element type, something that is not done yet."""


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


def not_yet(what: str, supported: str, remedy: str | None) -> SpecError:
    """The error for a valid spec of a product that this release does not support."""
    return SpecError(f"{what} is not supported yet", where="MatmulSpec", expected=supported, remedy=remedy)


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
