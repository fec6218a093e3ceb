# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers the page: asks a child, analyzes what it compiled, and makes errors of the schedule into what an editor shows at their line."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from tilewright.emit import child, hot_report, hotloop, mca
from tilewright.errors import LoweringError, ScheduleError, TargetError, TilewrightError
from tilewright.lab.problem import Problem
from tilewright.lab.sandbox import Sandbox
from tilewright.lab.spares import Spares
from tilewright.processes.child import ChildEndedError
from tilewright.runtime import runners
from tilewright.schedules import select
from tilewright.targets.base import Target

_GRACE = 1.0
"""Seconds that a child gets beyond its own limit, at which it prints where it is."""
_MOST_ASSEMBLY = 1 << 21
"""Characters of assembly that are analyzed."""
_FRAME = re.compile(r'File "schedule\.py", line (\d+) in')


class Compiler:
    """What the server asks. A context manager that ends the children."""

    def __init__(self, sandbox: Sandbox, limits: child.Limits, spares: int = 2) -> None:
        """Starts children in `sandbox`, each of which may take `limits`; so many wait for work."""
        self.sandbox, self.limits = sandbox, limits
        self._spares = Spares(sandbox, spares)

    def __enter__(self) -> Compiler:
        """The compiler itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the children."""
        self._spares.__exit__()

    def answer(self, kind: str, problem: Problem, page: str) -> dict[str, Any]:
        """What a child answers, with ``error`` where the schedule is to blame, and what the schedule printed.

        Args:
            kind: What is asked for: a name in the worker's table.
            problem: Of what.
            page: Which page asks: it waits for one answer of a kind.
        """
        start, printed = time.perf_counter(), list[str]()
        emulated = kind == "run" and runners.of(problem.target).kind == "processes"
        seconds = self.limits.seconds
        request = {**problem.request(kind), "seconds": seconds, "confined": not emulated}
        limits = child.Limits(seconds + _GRACE, self.limits.memory_mb)
        try:
            with self._spares.one(f"{page} {kind}") as worker:
                answer = child.ask("", request, limits, worker, printed.append)
            if kind == "compile":
                answer |= _analyzed(answer.pop("asm"), problem.target)
                answer["flops"] = 0 if problem.spec.open else problem.spec.flops
        except child.EndedError as ended:
            printed.append(ended.output)
            answer = {"error": _ended(ended, problem, limits, self.limits)}
        except ChildEndedError as ended:
            printed.append(ended.output)
            answer = {
                "error": described(LoweringError(f"the process that compiles {ended.reason} before it was asked"))
            }
        except TilewrightError as error:
            answer = {"error": described(error)}
        took = time.perf_counter() - start
        return {**answer, "printed": "".join(printed)[-10_000:], "took": took}


def described(error: TilewrightError) -> dict[str, Any]:
    """An error as the page shows it: the text, and the line of the schedule where there is one."""
    line = getattr(error, "line", None)
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "text": str(error),
        "line": line if str(getattr(error, "file", "")) in ("-", "schedule.py", "schedule.mlir") else None,
        "expected": error.expected,
        "remedy": error.remedy,
        "op": getattr(error, "transform_op", None),
        "stage": getattr(error, "stage", None),
    }


def _ended(ended: child.EndedError, problem: Problem, limits: child.Limits, given: child.Limits) -> dict[str, Any]:
    """The error of a child that gave no answer."""
    reason = ended.reason
    if reason == limits.too_long or "SIGALRM" in reason:
        reason = f"took more than {given.seconds:g} s, the limit of this lab"
    if reason == limits.too_much:
        reason = f"took more than {given.memory_mb} MiB of memory, the limit of this lab"
    frames = _FRAME.findall(ended.output)
    if ended.stage == "schedule":
        line = int(frames[0]) if frames else None
        return described(ScheduleError(f"the schedule {reason}", file=problem.name if line else None, line=line))
    if ended.stage == "call":
        return described(ScheduleError(f"the kernel {reason}", where="its call"))
    return described(LoweringError(f"MLIR {reason}", stage=ended.stage))


def _analyzed(asm: str, target: Target) -> dict[str, Any]:
    """The hot loop with llvm-mca's analysis, or why there is none."""
    if len(asm) > _MOST_ASSEMBLY:
        return {
            "hot": None,
            "note": f"The assembly has {len(asm)} characters; the hot loop of up to {_MOST_ASSEMBLY} is analyzed.",
        }
    loop = hotloop.hottest(asm, target.architecture)
    if loop is None:
        return {"hot": None, "note": "No loop of this kernel does arithmetic: it is empty, or straight-line code."}
    try:
        return {"hot": hot_report.report(loop, mca.analyze(loop, target, report=False), target), "note": None}
    except TargetError as error:
        return {"hot": hot_report.report(loop, None, target), "note": f"The hot loop is not analyzed: {error}"}


def strategies() -> Mapping[str, str]:
    """Our strategies for processors, and what each is for."""
    return {name: row.purpose for name, row in select.STRATEGIES.items()}
