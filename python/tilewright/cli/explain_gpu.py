# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright explain`` for a GPU: every stage, the machine code and what the assembler says of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli import explain_folder, explain_page
from tilewright.errors import TargetError

if TYPE_CHECKING:
    from tilewright.cli.problem import GpuProblem
    from tilewright.emit.gpu import Assembled, GpuStages

_SUFFIXES = {"llvmir": ".ll", "ptx": ".ptx", "asm": ".s", "sass": ".sass"}


def explain(problem: GpuProblem, folder: Path) -> None:
    """Writes the folder for a product on a GPU, and says in two lines what is in it.

    Raises:
        TilewrightError: It cannot be compiled, or not be written.
    """
    stages = problem.build()
    problem = replace(problem, decided=stages.parameters)
    texts, assembled, note = _with_machine_code(stages)
    names = {stage: f"{number}-{stage}{_SUFFIXES.get(stage, '.mlir')}" for number, stage in enumerate(texts, 1)}
    files = {names[stage]: text.encode() for stage, text in texts.items()}
    page = explain_page.Page(problem, explain_page.Texts(texts), names, None, None, note)
    files["index.html"] = explain_page.render(page).encode()
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
