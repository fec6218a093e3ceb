# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a .py schedule file and finds its function. Only child processes do."""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tilewright.errors import ScheduleError

FUNCTION = "schedule"
"""The function that a .py schedule file defines: ``schedule(spec, target, sizes) -> ir.Module``."""
_MODULE = "tilewright_schedule"


def function(source: str, path: str) -> Callable[..., Any]:
    """The function ``schedule`` that a file defines.

    Args:
        source: The file's text.
        path: Its name.

    Raises:
        ScheduleError: It cannot be run, or defines no such function; the error names the line.
    """
    module = ModuleType(_MODULE)
    module.__file__ = path
    sys.modules[_MODULE] = module  # Dataclasses look there.
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except MemoryError:
        raise
    except (Exception, SystemExit) as e:  # whatever the user's file raises
        line = _line_of(e, path)
        raise ScheduleError(f"{type(e).__name__}: {e}", file=path, line=line, remedy=remedy(e)) from e
    found = getattr(module, FUNCTION, None)
    if not callable(found):
        raise ScheduleError(f"no function {FUNCTION}", where=path, expected=f"def {FUNCTION}(spec, target, sizes)")
    return found


def remedy(error: BaseException) -> str | None:
    """What to do about what a user's function raised: names that are near one that is not there, and where arguments are described."""
    if isinstance(error, AttributeError) and error.obj is not None and error.name:
        near = difflib.get_close_matches(error.name, dir(error.obj), 3)
        if not near and dataclasses.is_dataclass(error.obj):
            near = [each.name for each in dataclasses.fields(error.obj)]
        return f"There is {', '.join(near)}" if near else "help() shows what it has"
    if isinstance(error, TypeError | ValueError | AttributeError):
        return (
            "Classes of tilewright.mlir.dialects.transform take handles, which other ops returned, and sizes, which are ints or "
            "parameters: help() shows their arguments"
        )
    return None


def _line_of(error: BaseException, path: str) -> int | None:
    """The line of a syntax error; otherwise the last line of `path` that was run."""
    if isinstance(error, SyntaxError):
        return error.lineno
    lines = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return lines[-1] if lines else None
