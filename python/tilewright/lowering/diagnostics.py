# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MLIR's diagnostics, gathered while something runs and turned into our errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.mlir import ir

_PACKAGE = Path(__file__).resolve().parent.parent
# Frames of these are how a step is made, not who asked for it.
_PLUMBING = (
    Path(contextlib.__file__),
    _PACKAGE / "mlir",
    _PACKAGE / "schedules" / "steps",
)
DUMP = "see current operation"
"""Starts a note that prints the whole op: pages of text that no one reads in an error."""
_PAYLOAD_OP = re.compile(r'loc\("(\w+\.\w+)"\(')
_FILE_LINE = re.compile(r'"([^"]+)":(\d+)(?::\d+)?')


@dataclass(frozen=True, slots=True)
class Message:
    """One diagnostic.

    Attributes:
        severity: Its severity.
        text: Its text.
        location: Its location as MLIR prints it.
        notes: The notes attached to it, each with its location.
    """

    severity: ir.DiagnosticSeverity
    text: str
    location: str
    notes: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, diagnostic: ir.Diagnostic | ir.DiagnosticInfo) -> Message:
        """The message of a diagnostic of MLIR's, which lives no longer than its handler runs."""
        notes = tuple((note.message, str(note.location)) for note in diagnostic.notes)
        return cls(diagnostic.severity, diagnostic.message, str(diagnostic.location), notes)

    @property
    def is_error(self) -> bool:
        """Whether it is an error."""
        return self.severity == ir.DiagnosticSeverity.ERROR


@dataclass(slots=True)
class Collected:
    """The diagnostics gathered so far, in order."""

    messages: list[Message] = field(default_factory=list)

    @property
    def errors(self) -> list[Message]:
        """Those that are errors."""
        return [m for m in self.messages if m.is_error]

    @property
    def race(self) -> Message | None:
        """The first one that says that a tiling makes a race, of which MLIR only warns."""
        return next((m for m in self.messages if "not thread safe" in m.text), None)

    def text(self) -> str:
        """All of them, one line each, with their notes."""
        lines = []
        for message in self.messages:
            notes = (f"[{note}]" for note, _ in message.notes if DUMP not in note)
            lines.append(" ".join((message.text, *notes)))
        return "\n".join(lines)


@contextlib.contextmanager
def collect(context: ir.Context) -> Iterator[Collected]:
    """Gathers the diagnostics of `context`, in place of printing them."""
    collected = Collected()

    def handle(diagnostic: ir.Diagnostic) -> bool:
        collected.messages.append(Message.of(diagnostic))
        return True

    handler = context.attach_diagnostic_handler(handle)
    try:
        yield collected
    finally:
        handler.detach()


def source_line(location: str) -> tuple[str | None, int | None]:
    """The file and line that asked for an op, from its location: the innermost frame that is not plumbing."""
    frames = [(file, int(line)) for file, line in _FILE_LINE.findall(location)]
    for file, line in frames:
        path = Path(file)
        if not any(path == part or part in path.parents for part in _PLUMBING):
            return file, line
    return frames[0] if frames else (None, None)


def payload_op(message: Message) -> str | None:
    """The op of the payload that a message is about, by the name that `payload.matmul` puts in its location."""
    for location in (message.location, *(location for _, location in message.notes)):
        found = _PAYLOAD_OP.search(location)
        if found:
            return found[1]
    return None
