# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The child process of the lab: compiles one kernel under one schedule, or traces or runs it, and ends.

It imports everything before it is asked, so that an answer takes no longer than the work.
"""

from __future__ import annotations

import base64
import faulthandler
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import Any

from tilewright.emit import child, stages
from tilewright.errors import LoweringError, ScheduleError, SpecError, TargetError
from tilewright.lab import filter, measuring, stepped, wanted
from tilewright.lab.spares import READY
from tilewright.schedules import make
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_BEFORE_THE_END = 0.3
"""Seconds before its limit at which a child prints where it is: `bubblewrap` would end it before it could when it is asked to end."""


def answer(request: dict[str, Any], tell: child.Tell) -> dict[str, Any]:
    """What `request` asks for. Errors of the schedule and of lowering are answers too."""
    faulthandler.dump_traceback_later(request["seconds"] - _BEFORE_THE_END)
    # From the parent process, and nobody else.
    spec, target = pickle.loads(base64.b64decode(request["wanted"]))
    if request["confined"]:
        filter.apply()
    try:
        return _KINDS[request["kind"]](request, spec, target, tell)
    except (SpecError, ScheduleError, LoweringError) as error:
        return child.error_as_json(error)
    except TargetError as error:
        return child.error_as_json(
            LoweringError(error.what, where=error.where, expected=error.expected, remedy=error.remedy)
        )


def _text(request: dict[str, Any], spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """The text of one of our strategies' schedules."""
    plan = make.make(spec, target, request["strategy"] or None, None, request["threads"])
    built = stages.build(spec, target, plan, until="schedule")
    return {"text": built.texts.get("schedule", ""), "name": plan.name, "sizes": dict(plan.sizes)}


def _compile(request: dict[str, Any], spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """Everything up to the assembly."""
    plan, knobs = wanted.plan(request, spec, target, tell)
    return {**stepped.compiled(plan, knobs, spec, target, tell), "knobs": knobs}


def _trace(request: dict[str, Any], spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """Each transform op and each pass."""
    return stepped.traced(wanted.plan(request, spec, target, tell)[0], spec, target, tell)


def _run(request: dict[str, Any], spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """The kernel's numbers and time."""
    plan, _ = wanted.plan(request, spec, target, tell)
    built = stages.build(spec, target, plan, started=tell)
    tell("call")
    return measuring.measured(built, spec, target, plan)


_KINDS: Mapping[str, Callable[..., dict[str, Any]]] = MappingProxyType(
    {"text": _text, "compile": _compile, "trace": _trace, "run": _run}
)
"""What can be asked for."""


if __name__ == "__main__":
    with Connection(os.dup(int(sys.argv[1]))) as parent:
        parent.send_bytes(READY)
    child.answer_with(answer)
    # Python would take its time to take everything down, and the parent waits for what was printed.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
