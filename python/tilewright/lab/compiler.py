# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Answers the page: asks a child, analyzes what it compiled, and makes errors of the schedule into what an editor shows at their line."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tilewright.emit import child
from tilewright.errors import LoweringError, ScheduleError, TilewrightError
from tilewright.lab import analysis
from tilewright.lab.problem import Problem, Spec
from tilewright.lab.sandbox import Sandbox
from tilewright.lab.spares import CODE, Spares
from tilewright.processes.child import ChildEndedError
from tilewright.runtime import runners
from tilewright.schedules import select
from tilewright.schedules.gpu_strategies import GPU_STRATEGIES
from tilewright.spec import MatmulSpec

_FILES = ("-", "schedule.py", "schedule.mlir")
"""What errors call the text in the editor."""
_GRACE = 1.0
"""Seconds that a child gets beyond its own limit, at which it prints where it is."""
_IN_MODULE = re.compile(r"schedule\.mlir:(\d+)")
"""Where errors of a module stand."""
_FRAME = re.compile(r'File "schedule\.py", line (\d+) in')


class Compiler:
    """What the server asks. A context manager that ends the children."""

    def __init__(self, sandbox: Sandbox, limits: child.Limits, spares: int = 2) -> None:
        """Starts children in `sandbox`, each of which may take `limits`; so many wait for work."""
        self.sandbox, self.limits = sandbox, limits
        self._spares = Spares(sandbox, spares)
        self._analysts = ThreadPoolExecutor()

    def __enter__(self) -> Compiler:
        """The compiler itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the children."""
        self._spares.__exit__()
        self._analysts.shutdown()

    def answer(self, kind: str, problem: Problem, page: str) -> dict[str, Any]:
        """What a child answers, with ``error`` where the schedule is to blame, and what the schedule printed.

        Args:
            kind: What is asked for: a name in the worker's table.
            problem: Of what.
            page: Which page asks: it waits for one answer of a kind.
        """
        printed = list[str]()
        start = time.perf_counter()
        emulated = kind == "run" and runners.of(problem.target).kind == "processes"
        seconds = self.limits.seconds
        request = {**problem.request(kind), "seconds": seconds, "confined": not emulated}
        limits = child.Limits(seconds + _GRACE, self.limits.memory_mb)
        analyses = list[Future[dict[str, Any]]]()

        def heard(told: Mapping[str, str]) -> None:
            if CODE in told and not analyses:  # A schedule could tell more of them.
                analyses.append(self._analysts.submit(analysis.of, told[CODE], problem.target))

        try:
            with self._spares.one(f"{page} {kind}") as worker:
                start = time.perf_counter()  # Where one waits, that was at once.
                answer = child.ask("", request, limits, worker, printed.append, heard)
                if kind == "compile":  # Before the next child starts, which would take a core from llvm-mca.
                    analysis.add(answer, analyses[0].result())
                    answer["flops"] = _operations(problem.spec)
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
    if found := _IN_MODULE.match(error.where or ""):
        line = int(found[1])
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "text": str(error),
        "line": line if found or str(getattr(error, "file", "")) in _FILES else None,
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


def _operations(spec: Spec) -> int:
    """Of a call; 0 where that is not known."""
    return 0 if spec is None or (isinstance(spec, MatmulSpec) and spec.open) else spec.flops


def strategies() -> dict[str, dict[str, str]]:
    """Our strategies for processors and for GPUs, and what each is for."""
    return {
        "processors": {name: row.purpose for name, row in select.STRATEGIES.items()},
        "gpus": {name: row.purpose for name, row in GPU_STRATEGIES.items()},
    }
