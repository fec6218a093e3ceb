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


def add(answer: dict[str, Any], code: str, target: Target | GpuTarget) -> None:
    """Adds to an answer the analysis of a hot loop, or what a GPU's kernel takes; or why that is missing.

    An answer of NVIDIA's gets the code that `machine` reads.
    """
    answer |= {"hot": None, "cost": None, "note": None}
    if len(code) > _MOST:
        answer["note"] = f"The code has {len(code)} characters; that of up to {_MOST} is analyzed."
    elif isinstance(target, GpuTarget):
        _add_cost(answer, code, target)
    else:
        _add_hot_loop(answer, code, target)


def _add_hot_loop(answer: dict[str, Any], asm: str, target: Target) -> None:
    loop = hotloop.hottest(asm, target.architecture)
    if loop is None:
        answer["note"] = "No loop of this kernel does arithmetic: it is empty, or straight-line code."
        return
    try:
        answer["hot"] = hot_report.report(loop, mca.analyze(loop, target, report=False), target)
    except TilewrightError as error:
        answer["hot"] = hot_report.report(loop, None, target)
        answer["note"] = f"The hot loop is not analyzed: {error}"


def _add_cost(answer: dict[str, Any], code: str, target: GpuTarget) -> None:
    block = answer["block"]
    try:
        if target.family == "nvidia":
            made = ptxas.assemble_text(code, target.cpu)
            cost = gpu_cost.Cost(made.registers, made.spill_bytes, block["shared_bytes"], {})
            answer["cubin"] = base64.b64encode(made.cubin).decode()
        elif target.family == "amd":
            cost = gpu_cost.amd(code)
        else:
            answer["note"] = "There is no assembler for this target: drivers compile its shaders."
            return
    except TilewrightError as error:
        answer["note"] = f"The machine code is missing: {error}"
        return
    answer["cost"] = asdict(cost) | {"threads": block["threads"]}


def machine(cubin: str, target: GpuTarget) -> dict[str, Any]:
    """The machine code that `add` had assembled: its lines with their places, and its instructions that multiply or copy, by kind.

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
