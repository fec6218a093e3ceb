# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes lists of passes between two of them: the first passes as in the one, the rest as in the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.errors import LoweringError
from tilewright.lowering import pass_list
from tilewright.lowering.pass_list import Line
from tilewright.schedules.hybrid import differences


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two lists differ: at one place of a line, the second has passes for those of the first.

    Attributes:
        line: The line, from 0.
        old: How many passes of the line of the first list end there.
        new: How many of the second.
        text: The passes, for people: with + those of the second list, with - those of the first.
    """

    line: int
    old: int
    new: int
    text: str


def between(old: Sequence[Line], new: Sequence[Line]) -> list[Difference]:
    """Where two lists differ, in order.

    Raises:
        LoweringError: They are of different compilations.
    """
    if [line.stage for line in old] != [line.stage for line in new]:
        raise LoweringError(
            f"the lists of passes have lines of other stages ({len(old)} and {len(new)} lines)",
            expected="lists of the same compilation",
        )
    return [
        each for number, lines in enumerate(zip(old, new, strict=True)) for each in _of_line(number, lines[0], lines[1])
    ]


def _of_line(number: int, first: Line, second: Line) -> Iterator[Difference]:
    """Where two lines differ, a pass for each: those that are new come one by one, and with the last of them those go that it replaces."""
    olds, news = pass_list.passes(first.pipeline), pass_list.passes(second.pipeline)
    for change in differences(olds, news):
        removed = [f"- {_shown(each)}" for each in olds[slice(*change.old)]]
        for new in range(change.new[0] + 1, change.new[1] + 1):
            last = new == change.new[1]
            said = [*(removed if last else ()), f"+ {_shown(news[new - 1])}"]
            yield _difference(number, second, change.old[last], new, [*said, f"pass {new} of {len(news)}"])
        if change.new[0] == change.new[1]:
            for old, text in enumerate(removed, change.old[0] + 1):
                yield _difference(number, second, old, change.new[1], [text, f"pass {old} of {len(olds)}"])


def _difference(number: int, line: Line, old: int, new: int, said: Sequence[str]) -> Difference:
    return Difference(number, old, new, "\n".join(said) + f" in line {number + 1} of the list, stage {line.stage}")


def mixed(old: Sequence[Line], new: Sequence[Line], last: Difference) -> tuple[Line, ...]:
    """The list that has the second one's passes up to a difference of `between`, and those of the first behind."""
    here = replace(
        old[last.line],
        pipeline=pass_list.joined(new[last.line].pipeline, last.new, old[last.line].pipeline, last.old),
    )
    return (*new[: last.line], here, *old[last.line + 1 :])


def _shown(path: tuple[str, ...]) -> str:
    """A pass in its managers: ``func.func(cse)``."""
    return "(".join(path) + ")" * (len(path) - 1)
