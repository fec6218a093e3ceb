# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs what MLIR may not survive in a child process, and says how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from tilewright.errors import LoweringError, ScheduleError, SpecError, TilewrightError
from tilewright.targets.base import Cache, Target

STARTED = "tilewright-stage: "
"""What the child writes to its standard error before the name of each stage."""
_ERRORS = {each.__name__: each for each in (SpecError, ScheduleError, LoweringError)}
_FIELDS = ("what", "where", "expected", "remedy", "file", "line", "transform_op", "payload_op", "stage")


class EndedError(Exception):
    """The child gave no answer.

    Attributes:
        reason: How it ended.
        stderr: What it wrote to its standard error.
    """

    def __init__(self, reason: str, stderr: str) -> None:
        """Takes the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.stderr = stderr

    def as_error(self, files: Mapping[str, str], remedy: str) -> LoweringError:
        """The error, which names a folder with `files` that make it happen again; `remedy` is what to do with them."""
        stages = [line.removeprefix(STARTED) for line in self.stderr.splitlines() if line.startswith(STARTED)]
        folder = Path(tempfile.mkdtemp(prefix="tilewright-reproducer-"))
        for name, text in {**files, "stderr.txt": self.stderr}.items():
            (folder / name).write_text(text)
        return LoweringError(
            f"MLIR {self.reason}",
            stage=stages[-1] if stages else "payload",
            reproducer=folder,
            remedy=f"{remedy} in {folder}",
        )


def ask(module: str, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """The answer of a worker module to `request`, which it gets on its standard input as JSON.

    Args:
        module: What the child runs.
        request: What it is asked.
        timeout: Seconds after which it is ended.

    Raises:
        TilewrightError: What the child answered with.
        EndedError: It gave no answer.
    """
    try:
        child = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            check=False,
        )
    except subprocess.TimeoutExpired as e:
        stderr = e.stderr.decode(errors="replace") if isinstance(e.stderr, bytes) else e.stderr or ""
        raise EndedError(f"took more than {timeout:g} s", stderr) from None
    if child.returncode != 0:
        raise EndedError(_reason(child.returncode), child.stderr)
    # What a schedule printed.
    sys.stderr.writelines(line for line in child.stderr.splitlines(keepends=True) if not line.startswith(STARTED))
    try:
        answer = json.loads(child.stdout)
    except ValueError:
        raise EndedError("gave no answer that can be read", child.stderr) from None
    error = answer.get("error")
    if error:
        raise _ERRORS[error.pop("class")](**error)
    return answer


def _reason(returncode: int) -> str:
    if returncode < 0:
        return f"crashed with {signal.Signals(-returncode).name}"
    return f"ended with status {returncode}"


def target_as_json(target: Target) -> dict[str, object]:
    """A target as a request carries it."""
    return {**asdict(target), "features": sorted(target.features)}


def target_from_json(fields: Mapping[str, Any]) -> Target:
    """The target of which `target_as_json` made `fields`."""
    caches = {level: Cache(**fields[level]) for level in ("l1", "l2", "l3") if fields[level]}
    return Target(**{**fields, "features": frozenset(fields["features"]), **caches})


def announce(stage: str) -> None:
    """Tells the parent that a stage starts."""
    sys.stderr.write(f"{STARTED}{stage}\n")
    sys.stderr.flush()


def error_as_json(error: TilewrightError, **replaced: str | None) -> dict[str, Any]:
    """An error as an answer carries it, with other values for some of its fields."""
    fields = {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)} | replaced
    named = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    return {"error": {"class": type(error).__name__, **named}}


def answers() -> TextIO:
    """Standard output for the answer alone: what else is written there, as by ``transform.print``, goes to standard error."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream
