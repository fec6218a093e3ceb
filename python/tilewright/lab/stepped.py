# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles under a plan, with every text beside the lines of the schedule that made it: the stages, or every step between them."""

from __future__ import annotations

from typing import Any

from tilewright import knobs
from tilewright.build import contexts
from tilewright.emit import attribution, child, stages, traffic
from tilewright.lab import located
from tilewright.lab.texts import Texts
from tilewright.mlir import ir
from tilewright.runtime import step_trace
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets import registry
from tilewright.targets.base import Target


def compiled(plan: Plan, spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """Everything up to the assembly."""
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="1"):
        built = stages.build(spec, target, plan, until="asm", started=tell)
    texts, numbers = Texts(), dict[str, int]()
    for name, text in built.texts.items():
        if name == "llvmir":
            lines = attribution.located(text)
        elif name == "asm":
            lines = list(located.assembly(text, _comment(target)))
        else:
            lines = located.mlir(text)
        numbers[name] = texts.add(lines)
    return {
        "texts": texts.as_json(),
        "stages": numbers,
        "asm": built.texts.get("asm", ""),
        "seconds": built.seconds,
        "workspace": built.workspace,
        "moves": _moves(built.texts.get("bufferized", ""), spec, target),
    }


def traced(plan: Plan, spec: MatmulSpec, target: Target, tell: child.Tell) -> dict[str, Any]:
    """Each transform op and each pass, with the IR after it; of a schedule that fails, those before."""
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="1"):
        found, _error = step_trace.record(lambda: stages.build(spec, target, plan, until="asm", started=tell))
    texts, known = Texts(), dict[str, int]()

    def packed(step: step_trace.Step, text: str) -> int:
        if text not in known:  # What is after a step is before the next, and most change nothing.
            read = attribution.located if step.kind.startswith("LLVM") else located.mlir
            known[text] = texts.add(read(text))
        return known[text]

    steps = [
        {
            "stage": step.stage,
            "kind": step.kind,
            "name": step.name,
            "source": step.source,
            "seconds": step.seconds,
            "handles": step.handles,
            "before": packed(step, step.before),
            "after": packed(step, step.after),
        }
        for step in found.steps
    ]
    return {"steps": steps, "texts": texts.as_json(), "failed": found.error}


def _comment(target: Target) -> str:
    """What starts a comment in a target's assembly."""
    return registry.knowledge("tilewright.emit.{}_text", registry.family_of(target.architecture).name).SYNTAX.comment


def _moves(text: str, spec: MatmulSpec, target: Target) -> dict[str, Any] | None:
    """What the loops move, by loop and by cache; None where that is not known."""
    if not text or "// -----" in text:
        return None
    further = [f"operand {number}" for number in range(3, len(spec.operands) + 1)]
    with contexts.new() as context, ir.Location.unknown():
        nest = traffic.read(ir.Module.parse(text, context), ["A", "B", *further, "C"], {})
    if nest is None:
        return None
    caches = {"L1": target.l1, "L2": target.l2, "L3": target.l3}
    sizes = {name: cache.bytes for name, cache in caches.items() if cache is not None}
    loops = [
        {
            "name": loop.name,
            "depth": loop.depth,
            "step": loop.step,
            "trips": loop.trips,
            "touched": nest.touched(number),
        }
        for number, loop in enumerate(nest.loops)
    ]
    beyond = {"registers": nest.moved(0)} | {
        name: nest.moved(size, private=name != "L3") for name, size in sizes.items()
    }
    return {"loops": loops, "beyond": beyond, "caches": sizes, "buffers": dict(nest.sizes)}
