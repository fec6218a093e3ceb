# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Analyzes code that the lab compiled: a processor's hot loop by llvm-mca, a GPU's kernel by its assembler."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tilewright.emit import gpu_code, gpu_cost, hot_report, hotloop, mca, ptxas
from tilewright.errors import TilewrightError
from tilewright.lab import shown
from tilewright.targets.base import Target
from tilewright.targets.gpu import GpuTarget

_MOST = 1 << 21
"""Characters of code that are analyzed."""


def of(code: str, target: Target | GpuTarget) -> dict[str, Any]:
    """The hot loop of a processor's code, or what a GPU's kernel takes; or why that is missing.

    That of NVIDIA's has the code that `machine` reads.
    """
    found: dict[str, Any] = {"hot": None, "cost": None, "note": None}
    if len(code) > _MOST:
        return found | {"note": f"The code has {len(code)} characters; that of up to {_MOST} is analyzed."}
    return found | (_cost(code, target) if isinstance(target, GpuTarget) else _hot_loop(code, target))


def add(answer: dict[str, Any], found: Mapping[str, Any]) -> None:
    """Adds to an answer what `of` found, with what a block of a GPU's kernel takes besides."""
    answer |= found
    if answer["cost"]:
        answer["cost"] = answer["block"] | answer["cost"]


def _hot_loop(asm: str, target: Target) -> dict[str, Any]:
    loop = hotloop.hottest(asm, target.architecture)
    if loop is None:
        return {"note": "No loop of this kernel does arithmetic: it is empty, or straight-line code."}
    try:
        return {"hot": hot_report.report(loop, mca.analyze(loop, target, report=False), target)}
    except TilewrightError as error:
        return {"hot": hot_report.report(loop, None, target), "note": f"The hot loop is not analyzed: {error}"}


def _cost(code: str, target: GpuTarget) -> dict[str, Any]:
    try:
        if target.family == "nvidia":
            made = ptxas.assemble_text(code, target.cpu)
            cost = {"registers": made.registers, "spills": made.spill_bytes, "mix": {}}
            return {"cost": cost, "cubin": base64.b64encode(made.cubin).decode()}
        if target.family == "amd":
            return {"cost": asdict(gpu_cost.amd(code))}
    except TilewrightError as error:
        return {"note": f"The machine code is missing: {error}"}
    return {"note": "There is no assembler for this target: drivers compile its shaders."}


def machine(cubin: str, target: GpuTarget) -> dict[str, Any]:
    """The machine code that `of` had assembled: its lines with their places, and its instructions that multiply or copy, by kind.

    It comes behind the answer: NVIDIA's disassembler takes as long to start as everything else.

    Raises:
        TilewrightError: There is no disassembler, or it refused the code.
        ValueError: It is no base64.
    """
    sass = gpu_code.disassembly(base64.b64decode(cubin, validate=True))
    return {"lines": list(shown.assembly(sass, target)), "mix": gpu_cost.mix(sass)}


def add_machine(answer: dict[str, Any], made: Mapping[str, Any]) -> None:
    """Adds what `machine` gave to the answer, as the page does."""
    del answer["cubin"]
    shown.add(answer, "sass", made["lines"])
    answer["cost"]["mix"] = made["mix"]
