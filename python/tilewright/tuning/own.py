# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a search may try for a user's schedule: the options of its knobs and alternatives."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tilewright.errors import ScheduleError
from tilewright.records.trial import OWN, Trial, schedule_digest
from tilewright.runtime.kernel import Kernel
from tilewright.schedules import choices
from tilewright.tuning.candidates import Candidate, Space

_MOST = 2_000
"""Candidates that are listed beyond neighbors of the best ones; a search tries some tens."""


def name(text: str) -> str:
    """What records call a schedule: a digest of its text, whatever its choices are now."""
    first = {each.name: each.options[0] for each in choices.read(text)}
    return OWN + schedule_digest(choices.made(text, first))


def chosen(text: str, last: Trial | None) -> str:
    """The text with the choices of a search's last comparison, where it was won."""
    return text if last is None or last.verdict != "won" else choices.made(text, last.sizes)


def space(
    text: str, called: str, folder: Path, compile_: Callable[[Path], Kernel], multiplied: tuple[str, str]
) -> Space:
    """The choices that a schedule leaves open, from its own on.

    Nothing predicts what a user's schedule costs. Candidates that differ from it in one choice go first, the others in an order that is
    random and always the same.

    Args:
        text: The schedule's text.
        called: What users call it.
        folder: Where the schedules that are tried are written.
        compile_: Compiles under one of them, and verifies what can be.
        multiplied: The types of the elements that are multiplied.

    Raises:
        ScheduleError: It leaves nothing open.
    """
    found = choices.read(text, called)
    open_ = {each.name: each.options for each in found if len(each.options) > 1}
    if not open_:
        raise ScheduleError(
            "it leaves nothing open",
            where=called,
            expected="a knob or alternatives with several options",
            remedy="Give sizes by `knobs.knob(name, options, selected)`, or by transform.tune.knob",
        )
    known = name(text)
    start = Candidate.of(
        known, {each.name: each.options[0] if each.selected is None else each.selected for each in found}
    )

    def near(candidate: Candidate) -> list[Candidate]:
        sizes = dict(candidate.sizes)
        around: list[Candidate] = []
        for each, options in open_.items():
            at = options.index(sizes[each])
            others = [*options[max(at - 1, 0) : at], *options[at + 1 : at + 2]]
            around += [Candidate.of(known, {**sizes, each: option}) for option in others]
        return around

    def compiled(candidate: Candidate) -> Kernel:
        path = folder / f"{Path(called).stem}-{'-'.join(f'{each}={size}' for each, size in candidate.sizes)}.mlir"
        path.write_text(choices.made(text, dict(candidate.sizes)))
        return compile_(path)

    return Space(start, _ordered(start, open_), near, lambda candidate: None, compiled, multiplied, own=known)


def _ordered(start: Candidate, options: Mapping[str, tuple[int, ...]]) -> list[Candidate]:
    """Other candidates: those with one other choice, then others at random."""
    sizes = dict(start.sizes)
    single = [
        Candidate.of(start.strategy, {**sizes, each: option})
        for each, every in options.items()
        for option in every
        if option != sizes[each]
    ]
    draw = random.Random(0)
    points: Iterable[tuple[int, ...]] = itertools.product(*options.values())
    if math.prod(map(len, options.values())) > _MOST:
        points = (tuple(draw.choice(every) for every in options.values()) for _ in range(_MOST))
    several = [Candidate.of(start.strategy, {**sizes, **dict(zip(options, point, strict=True))}) for point in points]
    draw.shuffle(several)
    return [each for each in dict.fromkeys([*single, *several]) if each != start]
