# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of `isolated`: reads a request from standard input, writes the answer to standard output, as JSON."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
from typing import TextIO

from tilewright.emit import isolated, stages
from tilewright.errors import LoweringError, ScheduleError
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Cache, Target


def answer(request: dict) -> dict:
    """Compiles what `request` asks for. Errors of the schedule and of lowering are answers too."""
    # From the parent process, and nobody else.
    spec: MatmulSpec = pickle.loads(base64.b64decode(request["spec"]))
    plan = Plan(request["name"], None, text=request["schedule"], threads=request["threads"])
    allocator = tuple(request["allocator"])
    try:
        built = stages.build(
            spec,
            _target(request["target"]),
            plan,
            until=request["until"],
            allocator=allocator,
            symbol=request["symbol"],
            started=_announce,
        )
    except (ScheduleError, LoweringError) as e:
        return {"error": _fields(e, plan.name)}
    return {
        "texts": built.texts,
        "seconds": built.seconds,
        "object": base64.b64encode(built.object).decode(),
        "workspace": built.workspace,
        "packed": None if built.packed is None else built.packed.header.hex(),
    }


def _announce(stage: str) -> None:
    sys.stderr.write(f"{isolated.STARTED}{stage}\n")
    sys.stderr.flush()


def _target(fields: dict) -> Target:
    caches = {level: Cache(**fields[level]) for level in ("l1", "l2", "l3") if fields[level]}
    return Target(**{**fields, "features": frozenset(fields["features"]), **caches})


def _fields(error: ScheduleError | LoweringError, schedule: str) -> dict:
    fields = {"class": type(error).__name__, "what": error.what, "where": error.where}
    fields |= {"expected": error.expected, "remedy": error.remedy}
    if isinstance(error, ScheduleError):
        own = {
            "file": error.file,
            "line": error.line,
            "transform_op": error.transform_op,
            "payload_op": error.payload_op,
        }
        # MLIR calls text without a file "-".
        file = schedule if str(error.file) == "-" else error.file
        return fields | {**own, "file": None if file is None else str(file)}
    return fields | {"stage": error.stage}


def _answers() -> TextIO:
    """Standard output for the answer alone: what else is written there, as by ``transform.print``, goes to standard error."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


if __name__ == "__main__":
    with _answers() as answers:
        json.dump(answer(json.load(sys.stdin)), answers)
