# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which passes run behind a schedule: those of our pipelines, or of a list of a user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from tilewright.errors import LoweringError
from tilewright.lowering import pass_list
from tilewright.lowering.pass_list import Line


@dataclass(slots=True)
class Choice:
    """What a compilation runs.

    Attributes:
        lines: The list by which it runs; None for our pipelines.
        required: Whether it runs what it needs alone.
        log: Where each pipeline is written before it runs; None for nowhere.
        taken: How many lines were taken.
    """

    lines: tuple[Line, ...] | None
    required: bool
    log: Path | None
    taken: int = 0

    def next(self, standard: Line, needed: str) -> str:
        """The pipeline to be run in place of one of ours, of which `needed` is what cannot be left out.

        Raises:
            LoweringError: The list was made for another compilation.
        """
        number, pipeline = self.taken, needed if self.required else standard.pipeline
        self.taken += 1
        if self.lines is not None:
            if number >= len(self.lines) or self.lines[number].stage != standard.stage:
                raise self._other(f"pipeline {number + 1} is of the stage {standard.stage}")
            pipeline = self.lines[number].pipeline
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{Line(standard.stage, pipeline)}\n")
        return pipeline

    def check_all_taken(self) -> None:
        """Raises `LoweringError` where the list has more lines than the whole compilation ran pipelines."""
        if self.lines is not None and self.taken < len(self.lines):
            raise self._other(f"there are {self.taken} pipelines")

    def _other(self, what: str) -> LoweringError:
        return LoweringError(
            f"the list of passes has {len(self.lines or ())} lines, and {what}",
            where="TILEWRIGHT_PASSES",
            expected="the list of a compilation of the same product, target, schedule and threads",
            remedy="Have TILEWRIGHT_DUMP write its passes.txt, and edit that",
        )


_CHOICE: ContextVar[Choice | None] = ContextVar("chosen passes", default=None)


@contextmanager
def chosen(text: str, log: Path | None) -> Iterator[Choice | None]:
    """Has a compilation inside run the passes of a list, or those alone that it needs (`Knobs.pass_list`), and log them.

    Yields what it runs; None for our pipelines, which nobody logs.

    Raises:
        LoweringError: The text is no list.
    """
    if not text and log is None:
        yield None
        return
    required = text == pass_list.REQUIRED
    choice = Choice(pass_list.read(text) if text and not required else None, required, log)
    token = _CHOICE.set(choice)
    try:
        yield choice
    finally:
        _CHOICE.reset(token)


def of_mlir(pipeline: str, stage: str) -> str:
    """The pipeline that is run in place of one of ours; empty for none.

    Raises:
        LoweringError: The list was made for another compilation.
    """
    choice = _CHOICE.get()
    if choice is None:
        return pipeline
    standard = Line(stage, pass_list.normal(pipeline))
    return choice.next(standard, pass_list.required(standard))


def of_llvm(stage: str, default: Callable[[int], str], level: int) -> str | None:
    """The passes that LLVM runs in place of its own pipeline of a level; None for that pipeline.

    Args:
        stage: The stage.
        default: Says the passes of LLVM's pipeline of a level.
        level: The level.

    Raises:
        LoweringError: The list was made for another compilation.
    """
    choice = _CHOICE.get()
    if choice is None:
        return None
    standard = default(level)
    passes = choice.next(Line(stage, standard), default(0))
    return None if passes == standard else passes
