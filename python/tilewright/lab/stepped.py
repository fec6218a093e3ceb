# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a plan: up to the assembly, or step by step."""

from __future__ import annotations

import re
from typing import Any

from tilewright.emit import child, stages
from tilewright.knobs import overridden
from tilewright.lab import blocks, moves, shown
from tilewright.runtime import step_trace
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_RECORDED = re.compile(r"#tilewright\.schedule<strategy = \"\w+\", parameters = \{([^}]*)\}")
"""The sizes that a schedule writes on the payload."""
_SIZE = re.compile(r"(\w+) = (\d+)")


def compiled(
    plan: Plan, knobs: list[dict[str, Any]], spec: MatmulSpec, target: Target, tell: child.Tell
) -> dict[str, Any]:
    """Everything up to the assembly, under a schedule with these knobs."""
    with overridden(TILEWRIGHT_DEBUG_INFO="1"):
        built = stages.build(spec, target, plan, until="asm", started=tell)
    recorded = _RECORDED.search(built.texts.get("scheduled", ""))
    sizes = {name: int(size) for name, size in _SIZE.findall(recorded[1])} if recorded else {}
    sizes |= {each["name"]: each["selected"] for each in knobs}
    nest = moves.read(spec, built.texts, {})
    return shown.stages(built.texts, built.seconds, target) | {
        "asm": built.texts.get("asm", ""),
        "workspace": built.workspace,
        "drawings": [blocks.svg([each]) for each in blocks.of(spec, target, sizes)],
        "moves": None if nest is None else moves.as_json(nest, target),
    }


def traced(plan: Plan, spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """Each transform op and each pass, with the IR after it; of a schedule that fails, those before."""
    with overridden(TILEWRIGHT_DEBUG_INFO="1"):
        found, _error = step_trace.record(lambda: stages.build(spec, target, plan, until="asm", started=tell))
    return shown.steps(found)
