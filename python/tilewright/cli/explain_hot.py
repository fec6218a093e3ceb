# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The hot loop of a kernel, for ``explain``: llvm-mca's analysis of it, its files, its facts and its line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.emit import hot_report, mca
from tilewright.errors import TargetError

if TYPE_CHECKING:
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import Problem
    from tilewright.emit.hotloop import HotLoop
    from tilewright.emit.mca import Analysis
    from tilewright.targets import Target

_NO_LOOP = "# No loop of this kernel does arithmetic: it is empty, or small enough to be straight-line code.\n"
_OF_LOOP = ("fma", "tile_products", "multiplies", "loads", "stores", "stack_accesses", "gathers", "calls")
"""What is counted of a hot loop."""


def analysis_of(problem: Problem | ModuleProblem, loop: HotLoop | None) -> tuple[Analysis | None, str | None]:
    """llvm-mca's analysis of the loop; without it, why there is none."""
    if loop is None:
        return None, None
    try:
        return mca.analyze(loop, problem.target), None
    except TargetError as error:
        return None, f"the hot loop is not analyzed: {error}"


def files(loop: HotLoop | None, analysis: Analysis | None) -> dict[str, bytes]:
    """The loop between llvm-mca's markers, and its reports."""
    if loop is None:
        return {"hot_loop.s": _NO_LOOP.encode()}
    text = f"# The hot loop of {loop.function}.\n# LLVM-MCA-BEGIN hot_loop\n{loop.text}# LLVM-MCA-END hot_loop\n"
    files = {"hot_loop.s": text.encode()}
    if analysis is not None:
        said = "".join(f"# {each}\n" for each in (analysis.model, *analysis.notes))
        files |= {"hot_loop.mca.txt": f"{said}{analysis.text}".encode(), "hot_loop.mca.json": analysis.json.encode()}
    return files


def facts(loop: HotLoop | None, analysis: Analysis | None, target: Target) -> dict[str, Any] | None:
    """What a program may want to know of the loop."""
    if loop is None:
        return None
    found: dict[str, Any] = {
        "label": loop.label,
        "instructions": len(loop.instructions),
        "mix": dict(loop.mix),
        "origins": dict(loop.origins),
        **{name: getattr(loop, name) for name in _OF_LOOP},
    }
    if analysis is not None:
        found |= {
            "cpu": analysis.cpu,
            "model": analysis.model,
            "notes": list(analysis.notes),
            "rates": target.rates,
            "cycles": analysis.cycles,
            "bound_cycles": analysis.bound,
            "percent_of_bound": analysis.percent_of_bound,
        }
    return found


def shown(loop: HotLoop | None, analysis: Analysis | None, target: Target) -> dict[str, Any] | None:
    """What the page shows of the loop."""
    return None if loop is None else hot_report.report(loop, analysis, target)


def summary(loop: HotLoop | None, analysis: Analysis | None) -> str:
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
