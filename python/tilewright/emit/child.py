# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs what MLIR may not survive in a child process, and says how it ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tilewright.emit import reproducers
from tilewright.errors import LoweringError, ScheduleError, SpecError, TilewrightError
from tilewright.processes.child import Child, ChildEndedError
from tilewright.targets.base import Cache, Target

_STAGE = "stage"
"""The key of what the child sends when a stage starts."""
_MOST_ANSWER = 1 << 29
"""Bytes of an answer that are read."""
_ERRORS = {each.__name__: each for each in (SpecError, ScheduleError, LoweringError)}
_FIELDS = ("what", "where", "expected", "remedy", "file", "line", "transform_op", "payload_op", "stage")


class EndedError(Exception):
    """The child gave no answer.

    Attributes:
        reason: How it ended.
        stage: What it was at.
        output: What it had printed.
    """

    def __init__(self, reason: str, stage: str, output: str) -> None:
        """Takes the attributes."""
        super().__init__(reason)
        self.reason = reason
        self.stage = stage
        self.output = output

    def as_error(self, files: Mapping[str, str], remedy: str) -> LoweringError:
        """The error, which names a folder with `files` that make it happen again; `remedy` is what to do with them."""
        folder = reproducers.keep({**files, "stderr.txt": self.output})
        return LoweringError(f"MLIR {self.reason}", stage=self.stage, reproducer=folder, remedy=f"{remedy} in {folder}")


def ask(module: str, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
    """The answer of a worker module to `request`, which it gets as JSON.

    Args:
        module: What the child runs: `answer_with`.
        request: What it is asked.
        timeout: Seconds after which it is ended.

    Raises:
        TilewrightError: What the child answered with.
        EndedError: It gave no answer.
    """
    stage, deadline = "payload", time.monotonic() + timeout
    with Child(module) as child:
        try:
            child.send_bytes(json.dumps(request).encode())
            while True:
                left = max(0.0, deadline - time.monotonic())
                answer = json.loads(child.receive_bytes(left, _MOST_ANSWER))
                if _STAGE not in answer:
                    break
                stage = answer[_STAGE]
        except ChildEndedError as ended:
            reason = ended.reason if ended.status is not None else f"took more than {timeout:g} s"
            raise EndedError(reason, stage, ended.output) from None
        except ValueError:
            raise EndedError("gave no answer that can be read", stage, child.output()) from None
        sys.stderr.write(child.ended().output)  # What a schedule printed: MLIR keeps it until the end.
    error = answer.get("error")
    if error:
        raise _ERRORS[error.pop("class")](**error)
    return answer


def answer_with(make: Callable[[dict[str, Any], Callable[[str], None]], dict[str, Any]]) -> None:
    """The child: answers its parent's request with what `make` makes of it; `make` gets a function that tells that a stage starts."""
    with Connection(int(sys.argv[1])) as parent:

        def started(stage: str) -> None:
            parent.send_bytes(json.dumps({_STAGE: stage}).encode())

        answer = make(json.loads(parent.recv_bytes()), started)
        sys.stdout.flush()
        sys.stderr.flush()
        parent.send_bytes(json.dumps(answer).encode())


def target_as_json(target: Target) -> dict[str, object]:
    """A target as a request carries it."""
    return {**asdict(target), "features": sorted(target.features)}


def target_from_json(fields: Mapping[str, Any]) -> Target:
    """The target of which `target_as_json` made `fields`."""
    caches = {level: Cache(**fields[level]) for level in ("l1", "l2", "l3") if fields[level]}
    return Target(**{**fields, "features": frozenset(fields["features"]), **caches})


def error_as_json(error: TilewrightError, **replaced: str | None) -> dict[str, Any]:
    """An error as an answer carries it, with other values for some of its fields."""
    fields = {name: getattr(error, name) for name in _FIELDS if hasattr(error, name)} | replaced
    named = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    return {"error": {"class": type(error).__name__, **named}}
