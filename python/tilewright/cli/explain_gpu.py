# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright explain`` for a GPU: every stage, the machine code and what the assembler says of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import explain_folder, explain_page
from tilewright.emit import gpu_cost
from tilewright.emit.pipeline import Record
from tilewright.errors import TargetError
from tilewright.lab import gpu_view

if TYPE_CHECKING:
    from tilewright.cli.problem import GpuProblem
    from tilewright.emit.gpu_cost import Cost
    from tilewright.emit.gpu_stages import GpuStages

_SUFFIXES = {"llvmir": ".ll", "ptx": ".ptx", "asm": ".s", "sass": ".sass"}


def explain(problem: GpuProblem, folder: Path) -> None:
    """Writes the folder for a product on a GPU, and says in two lines what is in it.

    Raises:
        TilewrightError: It cannot be compiled, or not be written.
    """
    compiled = explain_page.compiled(problem)
    stages = compiled.built
    problem = replace(problem, decided=stages.parameters)
    texts, cost, note = _with_machine_code(stages)
    names = {stage: f"{number}-{stage}{_SUFFIXES.get(stage, '.mlir')}" for number, stage in enumerate(texts, 1)}
    files = {names[stage]: text.encode() for stage, text in texts.items()}
    m, n, k = (each if isinstance(each, int) else 0 for each in (problem.spec.m, problem.spec.n, problem.spec.k))
    drawn = gpu_view.drawings((m, n, k), problem.sizes, texts, stages.boxes)
    if drawn:
        files["tiles.svg"] = gpu_view.svg(drawn).encode()
    page = replace(compiled, problem=problem).render(
        Record(texts, stages.seconds),
        note=note,
        cost=cost and asdict(cost) | {"threads": stages.sizes.threads},
        drawings=[gpu_view.svg([each]) for each in drawn],
    )
    files["index.html"] = page.encode()
    facts = {
        **problem.facts(),
        "target": problem.target.name,
        "triple": problem.target.triple,
        "schedule": problem.schedule,
        "parameters": dict(problem.sizes),
        "shared_bytes": stages.shared_bytes,
        "registers": cost and cost.registers,
        "spill_bytes": cost and cost.spills,
    }
    explain_folder.write(folder, files, facts)
    click.echo(f"{folder / 'index.html'}: {problem}")
    if cost is not None:
        click.echo(
            f"{cost.registers} registers a thread, {cost.spills} bytes spilled,"
            f" {cost.shared_bytes} bytes of shared memory, {stages.sizes.threads} threads a block"
        )
    if note:
        click.echo(f"tilewright: {note}", err=True)


def _with_machine_code(stages: GpuStages) -> tuple[dict[str, str], Cost | None, str | None]:
    """The texts of all stages, for NVIDIA's GPUs also of the machine code; what the kernel takes; and why something is missing."""
    texts = dict(stages.texts)
    try:
        if stages.target.family == "nvidia":
            cost, texts["sass"] = gpu_cost.nvidia(texts["ptx"], stages.target, stages.shared_bytes)
            return texts, cost, None
    except TargetError as error:
        return texts, None, f"the machine code is missing: {error}"
    return texts, gpu_cost.amd(texts["asm"]) if "asm" in texts else None, None
