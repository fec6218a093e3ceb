# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions for processors in the lab: operators, and those of modules."""

from __future__ import annotations

from dataclasses import replace

from tilewright.emit import child, modules, operators
from tilewright.emit.pipeline import Record
from tilewright.errors import ScheduleError
from tilewright.lab.kind import Kind
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules import make
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target

MODULE = "schedule.mlir"
"""What errors call a module, which the editor holds in place of a schedule."""


class Operator(Kind):
    """A convolution or attention for a processor."""

    def __init__(self, spec: OperatorSpec, target: Target, threads: int) -> None:
        """Takes what is computed."""
        self.spec, self.target = spec, target
        self.scheduled, self._own = operators.planned(spec, target, None, threads)

    def own(self, strategy: str) -> tuple[str, Plan]:  # noqa: D102
        if strategy:
            raise ScheduleError(f"strategy {strategy!r} for {self.spec.operator}", expected="its own schedule")
        built = operators.compiled(self.spec, self.target, self._own, until="schedule")
        return built.texts.get("schedule", ""), self._own

    def plan(self, name: str, text: str) -> Plan:  # noqa: D102
        given = make.of_text(name, text)
        sizes = None if given.text is not None else self._own.parameters
        return replace(given, parameters=sizes, threads=self._own.threads)

    def build(self, plan: Plan, tell: child.Tell, *, runs: bool = False) -> Record:  # noqa: D102
        return operators.compiled(self.spec, self.target, plan, until="obj" if runs else "asm", started=tell)


class Module(Kind):
    """The functions of a module for a processor; each of its products has the schedule that is chosen for it."""

    scheduled = None

    def __init__(self, target: Target, threads: int) -> None:
        """Takes for what it is compiled."""
        self.target, self._threads = target, threads

    def own(self, strategy: str) -> tuple[str, Plan]:  # noqa: D102
        raise ScheduleError(f"strategy {strategy!r} for a module", expected="none: the editor holds the module")

    def plan(self, name: str, text: str) -> Plan:  # noqa: D102 - all modules have one name
        return Plan(MODULE, None, text=text, threads=self._threads)

    def build(self, plan: Plan, tell: child.Tell, *, runs: bool = False, plain: bool = False) -> Record:
        """As Kind; `plain`: as loops over elements."""
        until = "obj" if runs else "asm"
        text, threads = plan.text or "", 1 if plain else self._threads
        return modules.build(text, MODULE, self.target, threads=threads, plain=plain, until=until, started=tell)
