# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the stages of a compilation, and the IR after each pass, to a folder."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

from tilewright.errors import TilewrightError

PASSES = "passes.txt"
"""The file that lists the passes that ran behind the schedule."""
_SUFFIXES = {"llvmir": "ll", "asm": "s", "ptx": "ptx", "obj": "o"}
"""The suffixes of stages that are no MLIR."""


def folder(parent: Path, title: str) -> Path:
    """Makes a new folder in `parent` for one compilation: its title, and a number where there are several.

    Raises:
        TilewrightError: It cannot be made.
    """
    name = re.sub(r"[^\w.+-]+", "_", title).strip("_")[:100] or "kernel"
    for number in count():
        path = parent / (name if number == 0 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if parent.is_dir():
                continue
            raise TilewrightError(f"{parent} is a file", where="TILEWRIGHT_DUMP", expected="a folder") from None
        except OSError as error:
            raise TilewrightError(
                f"cannot make {path}: {error.strerror}",
                where="TILEWRIGHT_DUMP",
                expected="a folder that can be written",
            ) from None
        return path
    raise AssertionError("numbers do not end")


def write(into: Path, number: int, stage: str, made: str | bytes) -> None:
    """Writes what a stage has made, as ``NN-STAGE.SUFFIX``."""
    path = into / f"{number:02d}-{stage}.{_SUFFIXES.get(stage, 'mlir')}"
    path.write_bytes(made if isinstance(made, bytes) else made.encode())
