# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pages show of a compilation, as plain data: its stages and its steps, each line beside the line of the schedule that made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.emit import attribution
from tilewright.lab import located
from tilewright.lab.texts import Texts
from tilewright.runtime.step_trace import Step, Trace
from tilewright.targets import registry
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

CODE = ("sass", "asm", "ptx", "spirv")
"""The stages that a processor's or a GPU's code is read in, the closest to the machine first."""
LLVM = "LLVM's passes"
"""What a step is that is one of them."""
_LANGUAGES = {
    "llvmir": "llvm",
    "rows_llvmir": "llvm",
    "asm": "asm",
    "rows_asm": "asm",
    "ptx": "asm",
    "rows_ptx": "asm",
    "sass": "asm",
}
"""Those of stages that are not MLIR, for colors."""

Renamed = Callable[[str], str]
"""Gives the place of a schedule that pages show, of a place as compilations tell it."""


def places(file: str, shown: str) -> Renamed:
    """Has the lines of a file be those of the schedule that is shown, under the name that pages know."""
    return lambda place: f"{shown}:{place[len(file) + 1 :]}" if place.startswith(f"{file}:") else place


def stages(
    texts: Mapping[str, str],
    seconds: Mapping[str, float],
    target: Target | GpuTarget,
    renamed: Renamed = str,
) -> dict[str, Any]:
    """The texts of the stages, and which of them is the code.

    Args:
        texts: By stage.
        seconds: What each stage took, where that is known.
        target: For which target.
        renamed: Gives the places that are shown.
    """
    packed, numbers = Texts(), dict[str, int]()
    for name, text in texts.items():
        language = _LANGUAGES.get(name, "mlir")
        if name in ("ptx", "rows_ptx"):
            text = attribution.annotated(text, texts[name.replace("ptx", "llvmir")], attribution.NVIDIA)
        lines = list(assembly(text, target) if language == "asm" else _lines(text, language))
        numbers[name] = packed.add((line, renamed(place)) for line, place in lines)
    numbers[""] = packed.add(())  # What is before the first stage.
    code = next((each for each in CODE if each in texts), "")
    return {
        "texts": packed.as_json(),
        "stages": numbers,
        "code": code,
        "language": _LANGUAGES.get(code, "mlir"),
        "seconds": dict(seconds),
    }


def add(answer: dict[str, Any], name: str, lines: Iterable[tuple[str, str]]) -> None:
    """Adds a text, as lines with their places, to an answer of `stages`, as its code."""
    packed = answer["texts"]
    first = len(packed["lines"])
    known = {place: number for number, place in enumerate(packed["sources"])}
    for line, place in lines:
        packed["lines"].append((line, known.setdefault(place, len(known))))
    packed["sources"] = list(known)
    packed["texts"].append(list(range(first, len(packed["lines"]))))
    answer["stages"][name] = len(packed["texts"]) - 1
    answer |= {"code": name, "language": _LANGUAGES[name]}


def steps(found: Trace, renamed: Renamed = str) -> dict[str, Any]:
    """The steps of a trace with the IR before and after each; of a schedule that fails, those before."""
    return _packed(found.steps, renamed) | {"failed": found.error}


def stage_steps(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The stages of which `stages` made an answer as steps, for what has too many steps to show; their texts are the answer's."""
    numbers = answer["stages"]
    names = [name for name in numbers if name not in ("", "schedule")]
    made = [
        {
            "stage": name,
            "kind": "a whole stage",
            "language": _LANGUAGES.get(name, "mlir"),
            "name": name,
            "source": "",
            "seconds": answer["seconds"].get(name, 0.0),
            "handles": [],
            "before": numbers[before],
            "after": numbers[name],
        }
        for before, name in zip(["", *names], names, strict=False)
    ]
    return {"steps": made, "texts": None, "failed": ""}


def _packed(found: Iterable[Step], renamed: Renamed) -> dict[str, Any]:
    """Steps, of which equal texts are there once."""
    texts, known = Texts(), dict[str, int]()

    def packed(text: str, language: str) -> int:
        if text not in known:  # What is after a step is before the next, and most change nothing.
            known[text] = texts.add((line, renamed(place)) for line, place in _lines(text, language))
        return known[text]

    made = []
    for step in found:
        language = "llvm" if step.kind == LLVM else "mlir"
        made.append(
            {
                "stage": step.stage,
                "kind": step.kind,
                "language": language,
                "name": step.name,
                "source": renamed(step.source),
                "seconds": step.seconds,
                "handles": step.handles,
                "before": packed(step.before, language),
                "after": packed(step.after, language),
            }
        )
    return {"steps": made, "texts": texts.as_json()}


def _lines(text: str, language: str) -> located.Lines:
    """The lines of a text with their places in the schedule, where it tells them."""
    if language == "llvm":
        return attribution.located(text)
    return located.mlir(text) if language == "mlir" else [(line, "") for line in text.splitlines()]


def assembly(text: str, target: Target | GpuTarget) -> Iterable[tuple[str, str]]:
    """The lines of assembly with their places in the schedule."""
    if isinstance(target, GpuTarget):
        return located.assembly(text, attribution.AMD if target.family == "amd" else attribution.NVIDIA)
    family = registry.family_of(target.architecture).name
    return located.assembly(text, registry.knowledge("tilewright.emit.{}_text", family).SYNTAX.comment)
