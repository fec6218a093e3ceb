# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads users' text files, up to a size."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

_MOST_BYTES = 1 << 24
"""Four for each of the characters that the parser of MLIR text takes."""


def read(file: str | Path) -> str:
    """The text of a file; ``-`` is standard input. Of one that is too large no more is read than shows it.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too large or no UTF-8 text, as the message says.
    """
    with nullcontext(sys.stdin.buffer) if str(file) == "-" else Path(file).open("rb") as source:
        data = source.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES >> 20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8 text") from None
