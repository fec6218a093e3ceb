# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks the choices that a user's schedule for a GPU leaves open, by the models of what it decides; times them where there is a card."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilewright.codegen.gpu.strategies import SIZES
from tilewright.errors import TilewrightError
from tilewright.payload.spec_tables import Spec
from tilewright.runtime import gpu
from tilewright.runtime.gpu import GpuKernel
from tilewright.schedules import choices, make
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget
from tilewright.tuning import gpu_cost, on_card, on_paper, own
from tilewright.tuning.on_card import Measured
from tilewright.tuning.on_paper import Ranked, Ranking


def rank(
    spec: Spec, target: GpuTarget, schedule: str, seconds: float, tell: Callable[[float], object] = lambda part: None
) -> tuple[Ranking, list[Measured], str]:
    """The choices of a schedule in order, those that were timed on a card here, and its text with the likeliest, or what won there.

    Its own choices are compiled first, and then others: those that differ in one choice, and others at random.

    Args:
        spec: What to compute, of static extents.
        target: The GPU.
        schedule: A .py or .mlir file.
        seconds: How long it may take, about.
        tell: Told which part of that is over.

    Raises:
        SpecError: `spec` has dynamic extents, or is not done on GPUs.
        ScheduleError: The schedule does not fit, or leaves nothing open.
    """
    on_paper.require_static(spec)
    start, called = time.monotonic(), make.own(schedule).name
    problem: Any = spec
    text = gpu.compile(problem, target, schedule, cache=True).asm["schedule"]
    types = spec.multiplied if isinstance(spec, MatmulSpec) else ("", "")  # Of peaks, which nobody measures here.
    found: list[Ranked] = []
    refused: list[str] = []
    with TemporaryDirectory(prefix="tilewright-") as folder:

        def compile_(path: Path) -> GpuKernel:
            return gpu.compile(problem, target, str(path), cache=True)

        space = own.space(text, called, Path(folder), compile_, types)
        for candidate in chain([space.start], space.ordered):
            if found and time.monotonic() - start > seconds:
                break
            try:
                kernel: Any = space.compile(candidate)
                predicted = gpu_cost.cycles(spec, target, _decided(kernel))
                found.append(on_paper.ranked(kernel, called, dict(candidate.sizes), predicted))
            except TilewrightError as error:  # Choices that do not fit together.
                refused.append(str(error))
            tell(min((time.monotonic() - start) / seconds, 1.0))

        def compiled(each: Ranked, emulated: bool = False) -> GpuKernel:
            path = Path(folder) / "tried.mlir"
            path.write_text(choices.made(text, each.sizes))
            return gpu.compile(problem, target.emulated() if emulated else target, str(path), cache=True)

        own_choice = found[0].sizes
        ranking = on_paper.tried(found, refused, lambda each: on_paper.checked(spec, each, partial(compiled, each)))
        timed: list[Measured] = []
        if on_card.has_card(target):
            first = next(each for each in ranking.found if each.sizes == own_choice)
            timed = on_card.compare(spec, first, ranking, compiled, tell)
    best = ranking.found[0]
    if timed:
        won = timed[0].times.verdict == "won"
        return ranking, timed, choices.made(text, timed[0].ranked.sizes) if won else text
    return ranking, timed, choices.made(text, best.sizes) if best.right is not False else text


def _decided(kernel: GpuKernel) -> Any:  # noqa: ANN401 - a strategy's sizes
    """The sizes that a schedule has decided, as those of the strategy that has sizes of these names; of attention, as they are."""
    decided = dict(kernel.metadata.parameters)
    kind = next((each for each in SIZES if {one.name for one in fields(each)} == set(decided)), None)
    return kernel.sizes if kind is None else kind(**decided)
