# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes the plan that the page asks for: the text of the edited schedule, with its knobs as the sliders have them."""

from __future__ import annotations

from typing import Any

from tilewright.build import contexts
from tilewright.emit import child
from tilewright.lab.kind import Kind
from tilewright.lowering import run
from tilewright.schedules import choices
from tilewright.schedules.plan import Plan


def plan(request: dict[str, Any], kind: Kind, tell: child.Tell) -> tuple[Plan, list[dict[str, Any]]]:
    """The schedule as text, and its knobs, as a page gets them.

    Args:
        request: What the page asks: the schedule's name, text and knobs.
        kind: What is compiled.
        tell: Told that the schedule starts to run and, with its text, that it has.

    Raises:
        ScheduleError: It cannot be made, or has not that choice.
    """
    tell("schedule")
    given = kind.plan(request["name"], request["text"])
    if kind.scheduled is None:
        return given, []
    context = contexts.new()
    module = given.module(kind.scheduled, kind.target, context)
    if module is None:
        return given, []
    with context:
        run.verify(module, given.name)
        options = {each.name: each.options for each in choices.of(module, given.name)}
        # Of a schedule that was edited, options may be gone: then its own choice stays.
        chosen = {name: value for name, value in request["knobs"].items() if value in options.get(name, ())}
        choices.make(module, chosen, given.name)
        text = str(module.operation.get_asm(enable_debug_info=True))
        knobs = [{"name": each.name, "options": each.options, "selected": each.selected} for each in choices.of(module)]
    tell("payload", schedule=text)
    return Plan(given.name, None, text=text, trusted=given.trusted, threads=given.threads), knobs
