# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions of calls: each says what is wrong, where, what was expected, and what to do.

Everything that is raised on purpose derives from `TilewrightError`, so that one ``except`` catches it. The message is always one
line; the parts stay apart as attributes for programs. All of them pickle.
"""

from __future__ import annotations

from collections.abc import Iterable

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
