# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every step of the set-up uses. Standard library only: this runs before anything is installed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PACKAGE = ROOT / "python" / "tilewright"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LLVM_VERSION = (ROOT / "llvm_version.txt").read_text(encoding="utf-8").strip()
LLVM_MAJOR = LLVM_VERSION.split(".")[0]


class SetupError(Exception):
    """Set-up cannot go on; the text says what is missing and what to do."""


def say(text: str) -> None:
    """Prints one line of progress at once."""
    print(f"setup: {text}", flush=True)


def run(command: Sequence[str | Path], *, what: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command with its output on ours.

    Raises:
        SetupError: It failed; the message names `what` and the command.
    """
    words = [str(word) for word in command]
    try:
        status = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL).returncode
    except FileNotFoundError as error:
        raise SetupError(f"{what}: there is no program {words[0]!r}") from error
    if status:
        raise SetupError(f"{what} failed with exit status {status}: {shlex.join(words)}")


def output(command: Sequence[str | Path], *, cwd: Path = ROOT) -> str | None:
    """The standard output of a command, or None when it cannot be run or fails."""
    try:
        done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def require_python() -> None:
    """Refuses an interpreter that the package does not support, in words, before anything else fails."""
    if sys.version_info < (3, 10):  # noqa: UP036
        raise SetupError(f"Python {sys.version.split()[0]} is too old: set PYTHON=… to one from 3.10")
