# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every step of the set-up uses. Standard library only: this runs before anything is installed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from progress import Progress

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PACKAGE = ROOT / "python" / "tilewright"
LOG = BUILD / "setup.log"
"""What the commands of the last set-up printed."""
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
LLVM_VERSION = (ROOT / "llvm_version.txt").read_text(encoding="utf-8").strip()
LLVM_MAJOR = LLVM_VERSION.split(".")[0]
_SHOWN_LINES = 60
"""Most lines of a failed command that are printed."""


class SetupError(Exception):
    """Set-up cannot go on; the text says what is missing and what to do."""


def say(text: str) -> None:
    """Prints one line of progress at once."""
    print(f"setup: {text}", flush=True)


def run(command: Sequence[str | Path], *, what: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> None:
    """Runs a command, with its progress on our output and all that it prints in `LOG`.

    Raises:
        SetupError: It failed; the message names `what`, the command and the log, after the last lines of it.
    """
    words = [str(word) for word in command]
    shown: deque[str] = deque(maxlen=_SHOWN_LINES)
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a", encoding="utf-8") as log, Progress(what) as progress:
        print(f"$ {shlex.join(words)}", file=log, flush=True)
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except FileNotFoundError as error:
            raise SetupError(f"{what}: there is no program {words[0]!r}") from error
        with process:
            for line in process.stdout or ():
                log.write(line)
                shown.append(line)
                progress.heard(line)
        if process.returncode:
            progress.fail()
    if process.returncode:
        sys.stderr.writelines(shown)
        raise SetupError(f"{what} failed with exit status {process.returncode}, see {LOG}: {shlex.join(words)}")


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
