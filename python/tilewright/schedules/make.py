# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the plan of a compilation from what the user gave as `schedule`."""

from __future__ import annotations

import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tilewright.errors import ScheduleError
from tilewright.schedules import select
from tilewright.schedules.plan import Plan, Schedule, is_trivial
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

FUNCTION = "schedule"
"""The function that a .py schedule file defines: ``schedule(spec, target, parameters) -> ir.Module``."""


def make(
    spec: MatmulSpec, target: Target, schedule: Schedule = None, parameters: Mapping[str, int] | None = None
) -> Plan:
    """The plan for `spec` on `target`.

    Args:
        spec: What is computed.
        target: For which target.
        schedule: None to have a strategy chosen; a strategy's name; a function ``(spec, target, parameters)`` that
            returns a transform module; or a .py or .mlir file with one.
        parameters: Sizes that override the model's, by name ("mr", "nr", "mc", "nc", "kc").

    Raises:
        ScheduleError: The schedule is unknown, unreadable or of a wrong kind, or an override is wrong.
    """
    if schedule is None:
        if is_trivial(spec):
            return Plan("trivial", None)
        choice = select.choose(spec, target, parameters)
        return Plan(choice.strategy, choice.parameters)
    if isinstance(schedule, str) and schedule in select.STRATEGIES:
        if is_trivial(spec):
            return Plan(schedule, None)
        choice = select.sized(schedule, spec, target, parameters)
        return Plan(schedule, choice.parameters)
    sizes = select.choose(spec, target, parameters).parameters
    if callable(schedule):
        return Plan(getattr(schedule, "__qualname__", repr(schedule)), sizes, schedule, trusted=False)
    if isinstance(schedule, str | Path):
        return _from_file(Path(schedule), sizes)
    raise ScheduleError(
        f"schedule is a {type(schedule).__name__}", expected="a strategy's name, a function, or a .py or .mlir file"
    )


def _from_file(path: Path, sizes: select.Blocking) -> Plan:
    if path.suffix not in (".py", ".mlir"):
        select.row(str(path))  # raises: it is no strategy either
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "not UTF-8 text"
        raise ScheduleError(f"cannot read the schedule: {reason}", where=str(path), expected="a text file") from None
    if path.suffix == ".mlir":
        return Plan(str(path), sizes, text=text, trusted=False)
    try:
        function = runpy.run_path(str(path)).get(FUNCTION)
    except (Exception, SystemExit) as e:  # whatever the user's file raises
        file, line = _place_of(e, path)
        raise ScheduleError(f"{type(e).__name__}: {e}", file=file, line=line) from e
    if not callable(function):
        raise ScheduleError(
            f"no function {FUNCTION}", where=str(path), expected=f"def {FUNCTION}(spec, target, parameters)"
        )
    return Plan(str(path), sizes, cast("select.Strategy", function), trusted=False)


def _place_of(error: BaseException, path: Path) -> tuple[str | Path, int | None]:
    """The file and line of a syntax error; otherwise the last line of `path` that was run."""
    if isinstance(error, SyntaxError):
        return error.filename or path, error.lineno
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return path, lines[-1] if lines else None
