# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright explain`` for a GPU: every stage, the machine code and what the assembler says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import explain_folder, explain_page
from tilewright.emit import gpu_cost
from tilewright.emit.pipeline import Record
from tilewright.errors import TargetError
from tilewright.lab import gpu_view

if TYPE_CHECKING:
    from tilewright.cli.problem import GpuProblem
    from tilewright.emit.gpu import Assembled, GpuStages

_SUFFIXES = {"llvmir": ".ll", "ptx": ".ptx", "asm": ".s", "sass": ".sass"}


def explain(problem: GpuProblem, folder: Path) -> None:
    """Writes the folder for a product on a GPU, and says in two lines what is in it.

    Raises:
        TilewrightError: It cannot be compiled, or not be written.
    """
    compiled = explain_page.compiled(problem)
    stages = compiled.built
    problem = replace(problem, decided=stages.parameters)
    texts, assembled, note = _with_machine_code(stages)
    names = {stage: f"{number}-{stage}{_SUFFIXES.get(stage, '.mlir')}" for number, stage in enumerate(texts, 1)}
    files = {names[stage]: text.encode() for stage, text in texts.items()}
    m, n, k = (each if isinstance(each, int) else 0 for each in (problem.spec.m, problem.spec.n, problem.spec.k))
    drawn = gpu_view.drawings((m, n, k), problem.sizes, texts, stages.boxes)
    if drawn:
        files["tiles.svg"] = gpu_view.svg(drawn).encode()
    page = replace(compiled, problem=problem).render(
        Record(texts, stages.seconds),
        note=note,
        cost=_cost(stages, texts, assembled),
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
        "registers": None if assembled is None else assembled.registers,
        "spill_bytes": None if assembled is None else assembled.spill_bytes,
    }
    explain_folder.write(folder, files, facts)
    click.echo(f"{folder / 'index.html'}: {problem}")
    if assembled is not None:
        click.echo(
            f"{assembled.registers} registers a thread, {assembled.spill_bytes} bytes spilled,"
            f" {stages.shared_bytes} bytes of shared memory, {stages.sizes.threads} threads a block"
        )
    if note:
        click.echo(f"tilewright: {note}", err=True)


def _cost(stages: GpuStages, texts: Mapping[str, str], assembled: Assembled | None) -> dict[str, Any] | None:
    """What the kernel takes, where its code says it."""
    block = {"shared_bytes": stages.shared_bytes, "threads": stages.sizes.threads}
    if assembled is not None:
        mix = gpu_cost.mix(texts["sass"])
        return {"registers": assembled.registers, "spills": assembled.spill_bytes, "mix": mix, **block}
    return asdict(gpu_cost.amd(texts["asm"])) | {"threads": block["threads"]} if "asm" in texts else None


def _with_machine_code(stages: GpuStages) -> tuple[dict[str, str], Assembled | None, str | None]:
    """The texts of all stages, for NVIDIA's GPUs also of the machine code; what the assembler says; and why something is missing."""
    from tilewright.emit import gpu, gpu_code

    texts = dict(stages.texts)
    if stages.target.family != "nvidia":
        return texts, None, None
    try:
        assembled = gpu.assemble(stages)
        texts["sass"] = gpu_code.disassembly(assembled.cubin)
    except TargetError as error:
        return texts, None, f"the machine code is missing: {error}"
    return texts, assembled, None
