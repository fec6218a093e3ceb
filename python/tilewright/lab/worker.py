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

from tilewright.bench import bandwidth
from tilewright.bench.timing import cores
from tilewright.emit import child
from tilewright.errors import LoweringError, ScheduleError, SpecError, TilewrightError
from tilewright.knobs import overridden
from tilewright.lab import filter, kinds, measuring, shown, wanted
from tilewright.lab.kind import Kind
from tilewright.lab.spares import CODE, READY
from tilewright.runtime import step_trace
from tilewright.targets import GpuTarget, require_runnable

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
        return _KINDS[request["kind"]](request, kinds.of(spec, target, request["threads"]), tell)
    except (SpecError, ScheduleError, LoweringError) as error:
        return child.error_as_json(error)
    except TilewrightError as error:
        return child.error_as_json(
            LoweringError(error.what, where=error.where, expected=error.expected, remedy=error.remedy)
        )


def _text(request: dict[str, Any], kind: Kind, _tell: child.Tell) -> dict[str, Any]:
    """The text of one of our strategies' schedules."""
    text, plan = kind.own(request["strategy"])
    return {"text": text, "name": plan.name}


def _compile(request: dict[str, Any], kind: Kind, tell: child.Tell) -> dict[str, Any]:
    """Everything up to the code."""
    plan, knobs = wanted.plan(request, kind, tell)
    with overridden(TILEWRIGHT_DEBUG_INFO="1"):
        built = kind.build(plan, tell)
    stage = kinds.code_stage(kind.target)
    tell(stage, **{CODE: built.texts.get(stage, "")})
    about = kind.about(built, {each["name"]: each["selected"] for each in knobs})
    return shown.stages(built.texts, built.seconds, kind.target) | about | {"knobs": knobs}


def _trace(request: dict[str, Any], kind: Kind, tell: child.Tell) -> dict[str, Any]:
    """Each transform op and each pass, with the IR after it; of a schedule that fails, those before."""
    plan, _ = wanted.plan(request, kind, tell)
    with overridden(TILEWRIGHT_DEBUG_INFO="1"):
        found, _error = step_trace.record(lambda: kind.build(plan, tell))
    return shown.steps(found)


def _run(request: dict[str, Any], kind: Kind, tell: child.Tell) -> dict[str, Any]:
    """The kernel's numbers and time."""
    plan, _ = wanted.plan(request, kind, tell)
    return measuring.measured(kind, plan, tell)


def _speeds(request: dict[str, Any], kind: Kind, _tell: child.Tell) -> dict[str, Any]:
    """10⁹ bytes a second from each level of memory, for as many cores."""
    target = kind.target
    if isinstance(target, GpuTarget):
        raise SpecError(f"bandwidths of {target.name}", expected="a processor that runs here")
    require_runnable(target)
    return {"speeds": bandwidth.by_level(target, cores(request["threads"]))}


_KINDS: Mapping[str, Callable[..., dict[str, Any]]] = MappingProxyType(
    {"text": _text, "compile": _compile, "trace": _trace, "run": _run, "speeds": _speeds}
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
