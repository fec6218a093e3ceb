# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``explain``: one HTML file that loads nothing, in which a person steps through the stages.

The template has all of the layout and the behavior; what is computed here goes into it as one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from tilewright.cli import explain_diff, explain_nest
from tilewright.emit import hot_report
from tilewright.targets.gpu import GpuTarget

if TYPE_CHECKING:
    from tilewright.cli.explain_count import Count
    from tilewright.cli.module_problem import ModuleProblem
    from tilewright.cli.problem import GpuProblem, Problem
    from tilewright.emit.built import Built
    from tilewright.emit.hotloop import HotLoop
    from tilewright.emit.mca import Analysis
    from tilewright.emit.stages import Stages

_TEMPLATE = "explain_page.html"
_PLACE = "/*DATA*/null"
_MAX_LINES = 12_000


@dataclass(frozen=True, slots=True)
class _View:
    """How a stage is shown.

    Attributes:
        title: Its heading.
        about: What it is, in a sentence or two.
        language: "mlir", "llvm" or "asm", for the colors.
        before: The stage that it is compared with, or None.
        note: Why it is compared with none.
    """

    title: str
    about: str
    language: str
    before: str | None
    note: str | None = None


_VIEWS: Mapping[str, _View] = {
    "payload": _View(
        "Payload", "What to compute: one linalg operation on tensors, and nothing about how.", "mlir", None
    ),
    "schedule": _View(
        "Schedule",
        "How to compute it: a transform-dialect program that runs, at compile time, on the payload. Change it with"
        " --schedule or --set.",
        "mlir",
        None,
        "A program of its own: not compared with the payload.",
    ),
    "scheduled": _View(
        "Scheduled",
        "The payload after the schedule has run on it: tiled, packed where that pays, and vectorized, still on tensors.",
        "mlir",
        "payload",
    ),
    "bufferized": _View(
        "Bufferized",
        "Tensors have become memory: the operands are the caller's buffers, and packed panels live in scratch memory.",
        "mlir",
        "scheduled",
    ),
    "llvm": _View(
        "LLVM dialect",
        "Loops have become branches, vectors LLVM's vectors, and memrefs pointers with strides.",
        "mlir",
        "bufferized",
    ),
    "llvmir": _View(
        "LLVM IR",
        "Translated, and optimized by LLVM's O3 pipeline for the target.",
        "llvm",
        None,
        "Another language than the stage before: not compared line by line.",
    ),
    "threads": _View("Threads", "What each thread of a block does: tiles are shared among them.", "mlir", "bufferized"),
    "nvvm": _View(
        "NVVM dialect", "The kernel in the dialects of LLVM and of NVIDIA's instructions.", "mlir", "threads"
    ),
    "rocdl": _View("ROCDL dialect", "The kernel in the dialects of LLVM and of AMD's instructions.", "mlir", "threads"),
    "spirv": _View("SPIR-V dialect", "The compute shader, on words of 32 bits.", "mlir", "threads"),
    "ptx": _View("PTX", "What NVIDIA's assembler takes.", "asm", None, "Another language than the stage before."),
    "sass": _View("Machine code", "What the card runs.", "asm", None, "Another language than the stage before."),
    "asm": _View(
        "Assembly",
        "What the processor runs.",
        "asm",
        None,
        "Another language than the stage before: not compared line by line.",
    ),
}


_ROWS = "rows_"
"""What names of stages of a second kernel begin with."""


@dataclass(frozen=True, slots=True)
class Texts:
    """The stages of a compilation that has no more to say of them than their texts.

    Attributes:
        texts: By stage.
        seconds: How long each took, where that is known.
        workspace: Bytes of scratch memory of a call.
    """

    texts: Mapping[str, str]
    seconds: Mapping[str, float] = field(default_factory=dict)
    workspace: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """What the page shows.

    Attributes:
        problem: What was compiled.
        stages: Its stages.
        names: The file of each stage.
        loop: The hot loop, or None.
        analysis: llvm-mca's analysis of it, or None.
        note: Why there is no analysis, or None.
        count: The instructions of a call, or None.
        moves: What its loops move, or None.
        tiles: The blocks of its schedule, drawn as SVG, or None.
        differences: What differs from an earlier explanation, or None.
    """

    problem: Problem | ModuleProblem | GpuProblem
    stages: Texts | Stages | Built
    names: Mapping[str, str]
    loop: HotLoop | None
    analysis: Analysis | None
    note: str | None
    count: Count | None = None
    moves: str | None = None
    tiles: str | None = None
    differences: str | None = None


def render(page: Page) -> str:
    """The page as HTML."""
    template = resources.files("tilewright.cli").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    data = json.dumps(_data(page), ensure_ascii=False, separators=(",", ":"))
    # Inside a script element, only "<" could end it, and only in strings.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    before, after = template.split(_PLACE)
    return before + data + after


def _data(page: Page) -> dict[str, Any]:
    """Everything that the page shows."""
    import tilewright

    problem, target, texts = page.problem, page.problem.target, page.stages.texts
    seconds = page.stages.seconds
    return {
        "spec": problem.title,
        "flops": problem.flops,
        "target": target.name,
        "base": target.base,
        "triple": target.triple,
        "registers": f"{target.registers} × 32 bit a thread"
        if isinstance(target, GpuTarget)
        else f"{target.vector_registers} × {target.vector_bits} bit",
        "schedule": problem.schedule,
        "sizes": problem.sizes,
        "workspace": page.stages.workspace,
        "version": tilewright.__version__,
        "seconds": seconds,
        "nest": [_loop(each) for each in explain_nest.loops(texts.get("scheduled", ""), problem.sizes)],
        "stages": [_stage(name, page) for name in texts],
        "hot": page.loop and hot_report.report(page.loop, page.analysis, target),
        "count": asdict(page.count) if page.count else None,
        "note": page.note,
        "moves": page.moves,
        "tiles": page.tiles,
        "differences": page.differences,
    }


def _view(name: str, texts: Mapping[str, str]) -> _View:
    """How a stage is shown, also one of the kernel over rows that is behind a product's."""
    of = name.removeprefix(_ROWS)
    if of == name:
        return _VIEWS[name]
    view = _VIEWS[of]
    before = f"{_ROWS}{view.before}"
    return replace(view, title=f"Rows: {view.title}", before=before if before in texts else None)


def _stage(name: str, page: Page) -> dict[str, Any]:
    """One stage with its differences."""
    texts = page.stages.texts
    view = _view(name, texts)
    text = texts[name]
    compared = texts.get(view.before) if view.before else None
    found = explain_diff.unmarked(text, view.note) if compared is None else explain_diff.difference(compared, text)
    return {
        "name": name,
        "title": view.title,
        "about": view.about,
        "file": page.names[name],
        "language": view.language,
        "before": _view(view.before, texts).title if view.before else None,
        "note": found.note,
        "seconds": page.stages.seconds.get(name),
        "lines": "\n".join(found.lines[:_MAX_LINES]),
        "runs": _cut(found.runs),
        "left_out": max(0, len(found.lines) - _MAX_LINES),
        "count": text.count("\n"),
        "added": found.count(explain_diff.ADDED),
        "removed": found.count(explain_diff.REMOVED),
    }


def _cut(runs: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    """The runs of the lines that are shown."""
    room = _MAX_LINES
    kept: list[tuple[int, int]] = []
    for kind, count in runs:
        if room > 0:
            kept.append((kind, min(count, room)))
        room -= count
    return kept


def _loop(loop: explain_nest.Loop) -> dict[str, Any]:
    """One loop of the nest."""
    operations = [{"name": name, "count": count} for name, count in loop.operations.items()]
    return {**{each.name: getattr(loop, each.name) for each in fields(loop)}, "operations": operations}
