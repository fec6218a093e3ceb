# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright explain``: a folder with every stage of one compilation, the hot loop's analysis, and a page to step through."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import explain_against, explain_count, explain_folder, options

if TYPE_CHECKING:
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import Problem
    from tilewright.emit.built import Built
    from tilewright.emit.stages import Stages

_SUFFIXES = {"llvmir": ".ll", "asm": ".s"}


@options.verb(short_help="Write every stage of a compilation, with a page to step through.")
@options.problem
@click.option(
    "--count",
    is_flag=True,
    help="Also run it in the emulator, and count the instructions of a call, beside OpenBLAS's.",
)
@click.option(
    "--measure",
    is_flag=True,
    help="Also time it on this machine, beside what its multiply-adds and each level of memory would take.",
)
@click.option(
    "--against",
    metavar="DIR",
    help="An earlier explanation: also write what differs in schedule, code, model and time.",
)
@click.option("-o", "output", metavar="DIR", required=True, help="The folder to write: new, empty or an earlier one.")
def explain(count: bool, measure: bool, against: str | None, output: str, **asked: Any) -> None:  # noqa: ANN401 - of `options.problem`
    """Show how a product, or what is in FILE.mlir, is compiled, stage by stage.

    Writes the schedule, the IR after every stage, the assembly, and the hot loop with llvm-mca's analysis. index.html among
    them is the page of `tilewright lab`, in which you step through transform ops and passes; moves.txt says what each loop touches
    and what comes from beyond each cache; tiles.svg draws the blocks of the schedule to scale. With --count, it also says how many
    instructions a call executes, for a target that is emulated here.
    """
    from tilewright.cli import explain_gpu, explain_hot, explain_moves, explain_page
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import GpuProblem, given
    from tilewright.emit import attribution, hotloop
    from tilewright.lab import blocks

    if not output:
        raise click.UsageError("-o is empty; expected the name of a folder")
    folder = Path(output)
    explain_folder.require_usable(folder)
    earlier = None if against is None else explain_against.read(Path(against))
    problem = given(**asked)
    if isinstance(problem, GpuProblem):
        if count:
            raise click.UsageError("--count given for a GPU; expected a processor that is emulated here")
        if measure:
            raise click.UsageError("--measure given for a GPU; expected a processor that runs here")
        if earlier is not None:
            raise click.UsageError("--against given for a GPU; expected a processor")
        explain_gpu.explain(problem, folder)
        return
    compiled = explain_page.compiled(problem)
    stages = compiled.built
    loop = hotloop.hottest(stages.texts["asm"], problem.target.architecture)
    analysis, note = explain_hot.analysis_of(problem, loop)
    counted = None
    if count:
        if isinstance(problem, ModuleProblem):
            raise click.UsageError("--count given for a module; expected one product")
        counted = explain_count.count(problem, asked["schedule"], asked["parameters"])
    facts = _facts(problem, stages) | {"hot_loop": explain_hot.facts(loop, analysis, problem.target)}
    moved, levels = None, []
    if isinstance(problem, ModuleProblem):
        if measure:
            raise click.UsageError("--measure given for a module; expected one product")
    else:
        moved = explain_moves.of(problem, stages.texts, analysis, measure=measure)
        if moved is not None:
            facts["moves"] = moved.facts()
        levels = blocks.of(problem.spec, problem.target, problem.sizes)
    if counted is not None:
        facts |= {"instructions": counted.kernel, "openblas_instructions": counted.openblas}
    names = _names(stages.texts)
    plain = stages.texts | {"llvmir": attribution.without_tables(stages.texts["llvmir"])}
    files = {names[stage]: text.encode() for stage, text in plain.items()}
    files |= explain_hot.files(loop, analysis)
    if moved is not None:
        files["moves.txt"] = moved.text().encode()
    if levels:
        files["tiles.svg"] = blocks.svg(levels).encode()
    differences = None
    if earlier is not None:
        texts = {names[stage]: stages.texts[stage] for stage in ("schedule", "asm") if stage in stages.texts}
        differences = explain_against.text(earlier, (facts, texts))
        files["against.txt"] = differences.encode()
    page = compiled.render(
        stages,
        hot=explain_hot.shown(loop, analysis, problem.target),
        note=note,
        workspace=stages.workspace,
        moves=moved and moved.as_json(),
        drawings=[blocks.svg([each]) for each in levels],
        count=counted and asdict(counted),
        differences=differences,
    )
    files["index.html"] = page.encode()
    explain_folder.write(folder, files, facts)
    click.echo(f"{folder / 'index.html'}: {problem}")
    click.echo(explain_hot.summary(loop, analysis))
    if counted is not None:
        click.echo(str(counted))
    for each in (note, counted.note if counted else None):
        if each:
            click.echo(f"tilewright: {each}", file=sys.stderr)


def _names(texts: Mapping[str, str]) -> dict[str, str]:
    """The file of each stage: the IR numbered in order, and the schedule and the assembly by name."""
    numbered = [stage for stage in texts if stage not in ("schedule", "asm")]
    names = {stage: f"{number}-{stage}{_SUFFIXES.get(stage, '.mlir')}" for number, stage in enumerate(numbered, 1)}
    return names | {"schedule": "schedule.mlir", "asm": "kernel.s"}


def _facts(problem: Problem | ModuleProblem, stages: Stages | Built) -> dict[str, Any]:
    """What a program may want to know, for the list of files."""
    target = problem.target
    return {
        **problem.facts(),
        "title": problem.title,
        "threads": problem.threads,
        "target": target.name,
        "triple": target.triple,
        "schedule": problem.schedule,
        "parameters": problem.sizes,
        "seconds": dict(stages.seconds),
        "workspace_bytes": stages.workspace,
    }
