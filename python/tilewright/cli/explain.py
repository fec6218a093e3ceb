# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``tilewright explain``: a folder with every stage of one compilation, the hot loop's analysis, and a page to step through."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright import knobs
from tilewright.cli import explain_count, explain_folder, explain_moves, options
from tilewright.errors import TargetError

if TYPE_CHECKING:
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import Problem
    from tilewright.emit.built import Built
    from tilewright.emit.hotloop import HotLoop
    from tilewright.emit.mca import Analysis
    from tilewright.emit.stages import Stages

_SUFFIXES = {"llvmir": ".ll", "asm": ".s"}
_NO_LOOP = "# No loop of this kernel does arithmetic: it is empty, or small enough to be straight-line code.\n"


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
@click.option("-o", "output", metavar="DIR", required=True, help="The folder to write: new, empty or an earlier one.")
def explain(count: bool, measure: bool, output: str, **asked: Any) -> None:  # noqa: ANN401 - of `options.problem`
    """Show how a product, or what is in FILE.mlir, is compiled, stage by stage.

    Writes the schedule, the IR after every stage, the assembly, and the hot loop with llvm-mca's analysis. index.html among
    them lets you step through the stages with the differences marked; moves.txt says what each loop touches and what comes from
    beyond each cache. With --count, it also says how many instructions a call
    executes, for a target that is emulated here.
    """
    from tilewright.cli import explain_gpu, explain_page
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import GpuProblem, given
    from tilewright.emit import attribution, hotloop

    if not output:
        raise click.UsageError("-o is empty; expected the name of a folder")
    folder = Path(output)
    explain_folder.require_usable(folder)
    problem = given(**asked)
    if isinstance(problem, GpuProblem):
        if count:
            raise click.UsageError("--count given for a GPU; expected a processor that is emulated here")
        if measure:
            raise click.UsageError("--measure given for a GPU; expected a processor that runs here")
        explain_gpu.explain(problem, folder)
        return
    with knobs.overridden(TILEWRIGHT_DEBUG_INFO="1"):
        stages = problem.build("asm")
    stages.texts["llvmir"] = attribution.without_tables(stages.texts["llvmir"])
    loop = hotloop.hottest(stages.texts["asm"], problem.target.architecture)
    analysis, note = _analysis(problem, loop)
    counted = None
    if count:
        if isinstance(problem, ModuleProblem):
            raise click.UsageError("--count given for a module; expected one product")
        counted = explain_count.count(problem, asked["schedule"], asked["parameters"])
    facts = _facts(problem, stages, loop, analysis)
    moves = None
    if isinstance(problem, ModuleProblem):
        if measure:
            raise click.UsageError("--measure given for a module; expected one product")
    else:
        moves = _moves(problem, stages, analysis, facts, measure=measure)
    if counted is not None:
        facts |= {"instructions": counted.kernel, "openblas_instructions": counted.openblas}
    names = _names(stages.texts)
    files = {names[stage]: text.encode() for stage, text in stages.texts.items()}
    files |= _hot_loop_files(loop, analysis)
    if moves is not None:
        files["moves.txt"] = moves.encode()
    page = explain_page.Page(problem, stages, names, loop, analysis, note, counted, moves)
    files["index.html"] = explain_page.render(page).encode()
    explain_folder.write(folder, files, facts)
    click.echo(f"{folder / 'index.html'}: {problem}")
    click.echo(_summary(loop, analysis))
    if counted is not None:
        click.echo(str(counted))
    for each in (note, counted.note if counted else None):
        if each:
            click.echo(f"tilewright: {each}", file=sys.stderr)


def _analysis(problem: Problem | ModuleProblem, loop: HotLoop | None) -> tuple[Analysis | None, str | None]:
    """llvm-mca's analysis of the loop; without it, why there is none."""
    from tilewright.emit import mca

    if loop is None:
        return None, None
    try:
        return mca.analyze(loop, problem.target), None
    except TargetError as error:
        return None, f"the hot loop is not analyzed: {error}"


def _moves(
    problem: Problem, stages: Stages | Built, analysis: Analysis | None, facts: dict[str, Any], *, measure: bool
) -> str | None:
    """What the loops move, as text and among the facts; None where that is not known.

    Raises:
        click.UsageError: It is to be measured, and cannot.
        TargetError: This machine does not run it.
    """
    nest = explain_moves.read(problem, stages.texts)
    levels = None
    if measure:
        if nest is None or analysis is None or problem.plan.threads != 1:
            raise click.UsageError(
                "--measure given for what is not modeled; expected one thread, static extents, and loops"
            )
        levels = explain_moves.measure(problem, nest, problem.flops, analysis.percent_of_bound)
    if nest is None:
        return None
    facts["moves"] = explain_moves.facts(nest, problem.target, levels)
    return explain_moves.text(nest, problem.target, levels)


def _names(texts: Mapping[str, str]) -> dict[str, str]:
    """The file of each stage: the IR numbered in order, and the schedule and the assembly by name."""
    numbered = [stage for stage in texts if stage not in ("schedule", "asm")]
    names = {stage: f"{number}-{stage}{_SUFFIXES.get(stage, '.mlir')}" for number, stage in enumerate(numbered, 1)}
    return names | {"schedule": "schedule.mlir", "asm": "kernel.s"}


def _hot_loop_files(loop: HotLoop | None, analysis: Analysis | None) -> dict[str, bytes]:
    """The loop between llvm-mca's markers, and its reports."""
    if loop is None:
        return {"hot_loop.s": _NO_LOOP.encode()}
    text = f"# The hot loop of {loop.function}.\n# LLVM-MCA-BEGIN hot_loop\n{loop.text}# LLVM-MCA-END hot_loop\n"
    files = {"hot_loop.s": text.encode()}
    if analysis is not None:
        said = "".join(f"# {each}\n" for each in (analysis.model, *analysis.notes))
        files |= {"hot_loop.mca.txt": f"{said}{analysis.text}".encode(), "hot_loop.mca.json": analysis.json.encode()}
    return files


_OF_LOOP = ("fma", "tile_products", "multiplies", "loads", "stores", "stack_accesses", "gathers", "calls")
"""What is counted of a hot loop."""


def _facts(
    problem: Problem | ModuleProblem, stages: Stages | Built, loop: HotLoop | None, analysis: Analysis | None
) -> dict[str, Any]:
    """What a program may want to know, for the list of files."""
    target = problem.target
    facts: dict[str, Any] = {
        **problem.facts(),
        "target": target.name,
        "triple": target.triple,
        "schedule": problem.schedule,
        "parameters": problem.sizes,
        "seconds": dict(stages.seconds),
        "workspace_bytes": stages.workspace,
        "hot_loop": None,
    }
    if loop is not None:
        facts["hot_loop"] = {
            "label": loop.label,
            "instructions": len(loop.instructions),
            "mix": dict(loop.mix),
            "origins": dict(loop.origins),
            **{name: getattr(loop, name) for name in _OF_LOOP},
        }
    if analysis is not None:
        facts["hot_loop"] |= {
            "cpu": analysis.cpu,
            "model": analysis.model,
            "notes": list(analysis.notes),
            "rates": target.rates,
            "cycles": analysis.cycles,
            "bound_cycles": analysis.bound,
            "percent_of_bound": analysis.percent_of_bound,
        }
    return facts


def _summary(loop: HotLoop | None, analysis: Analysis | None) -> str:
    """The hot loop in one line."""
    if loop is None:
        return "hot loop: none, straight-line code"
    count, arithmetic, bound = _arithmetic(loop)
    text = (
        f"hot loop: {len(loop.instructions)} instructions, {count} {arithmetic}, {loop.loads} loads,"
        f" {loop.stack_accesses} spills, {loop.gathers} gathers"
    )
    if analysis is None:
        return text
    model = ". ".join((analysis.model, *analysis.notes))
    return f"{text}; {analysis.cycles:.1f} cycles, {analysis.percent_of_bound:.0f} % of the {bound} bound ({model})"


def _arithmetic(loop: HotLoop) -> tuple[int, str, str]:
    """How many instructions multiply, what they are called, and what the bound that they set is."""
    if loop.tile_products:
        return loop.tile_products, "tile products", "tile product"
    if not loop.fma:
        return loop.multiplies, "multiplications", "FMA"
    dots = any(each.fma and each.products > each.lanes for each in loop.instructions)
    return (loop.fma, "dot products", "dot product") if dots else (loop.fma, "FMAs", "FMA")
