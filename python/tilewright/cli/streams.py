# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the process's output streams take any text, whatever encoding they have and whether they are open or closed."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

_SPELLED: Mapping[str, str] = MappingProxyType(
    {
        "×": "x",
        "·": "*",
        "÷": "/",
        "–": "-",
        "−": "-",
        "─": "-",
        "…": "...",
        "µ": "u",
        "²": "^2",
        "³": "^3",
        "⁹": "^9",
        "±": "+-",
        "≤": "<=",
        "≥": ">=",
        "→": "->",
        "←": "<-",
    }
)
"""What stands for a character where the encoding lacks it."""
_POLICY = "tilewright.spelled"
_ESCAPED = range(0xDC80, 0xDD00)
"""The surrogates that stand for bytes of file names that are no text, as PEP 383 has it."""


def prepare() -> None:
    """Opens closed streams to nowhere, and lets open ones spell what their encoding lacks."""
    codecs.register_error(_POLICY, _spelled)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_POLICY)


def discard_stdout() -> None:
    """Points standard output at nothing, so that the interpreter does not fail on it once more when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler: the first character that cannot be written in other ones, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if ord(character) in _ESCAPED:
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return _SPELLED.get(character, "?"), error.start + 1
