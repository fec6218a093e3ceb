# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``explain``: the lab's, with one compilation step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright import knobs, text_files
from tilewright.cli.module_problem import ModuleProblem
from tilewright.cli.problem import GpuProblem, Problem
from tilewright.lab import page, shown
from tilewright.lab.shown import places
from tilewright.runtime import step_trace
from tilewright.schedules.make import is_file

if TYPE_CHECKING:
    from tilewright.emit.pipeline import Record
    from tilewright.runtime.step_trace import Trace

_SHOWN = "schedule.mlir"
"""What pages call a printed schedule."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compilation with its steps.

    Attributes:
        problem: What was compiled.
        built: Its stages.
        trace: Its steps; None for a kernel of several cases, which has thousands.
    """

    problem: Problem | ModuleProblem | GpuProblem
    built: Any
    trace: Trace | None

    def render(self, built: Record, **more: Any) -> str:  # noqa: ANN401 - of the page
        """The page: `built` has the stages that it shows, and `more` what the lab's answers have besides."""
        text, name, renamed = built.texts.get("schedule", ""), _SHOWN, places("", "")
        file = self.problem.schedule
        if is_file(file):
            text, name = text_files.read(file), f"schedule.{file.rpartition('.')[2]}"
            renamed = places(file, name)
        asked = {"title": str(self.problem), "text": text, "language": name.rpartition(".")[2]}
        none = {"hot": None, "note": None, "moves": None, "workspace": 0, "drawings": [], "cost": None}
        answer = shown.stages(built.texts, built.seconds, self.problem.target, renamed)
        answer |= none | {"flops": self.problem.flops, "knobs": []} | more
        steps = None if self.trace is None else shown.steps(self.trace, renamed)
        return page.fitting({"problem": asked, "answer": answer, "trace": steps, "ran": None})


def compiled(problem: Problem | ModuleProblem | GpuProblem) -> Compiled:
    """Compiles up to the code, step by step, with line tables: of the schedule's file, and of one of ours as it is printed.

    Raises:
        TilewrightError: It cannot be compiled.
    """
    has_cases = isinstance(problem, Problem) and bool(problem.plan.cases)
    printed = not isinstance(problem, ModuleProblem) and not is_file(problem.schedule) and not has_cases
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="text" if printed else "1"):
        if has_cases:
            return Compiled(problem, _built(problem), None)
        made: list[Any] = []
        trace, error = step_trace.record(lambda: made.append(_built(problem)))
    if error is not None:
        raise error
    return Compiled(problem, made[0], trace)


def _built(problem: Problem | ModuleProblem | GpuProblem) -> Any:  # noqa: ANN401 - the stages of each
    return problem.build() if isinstance(problem, GpuProblem) else problem.build("asm")
