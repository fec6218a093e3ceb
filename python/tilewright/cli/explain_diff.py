# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a stage changed, line by line, as a person would see it.

Passes renumber values and indent what they wrap. Lines are therefore compared without indentation and without the names of
values, blocks and maps, so that a line is marked when its operation is new, and not when its operands are called otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_NAMES = re.compile(r"(?<![\w.])(%[\w$.-]+(?:[:#]\d+)?|\^bb\d+|#map\d*|!\d+)")
_MAX_LINES = 20_000
_REWRITTEN = 0.15
"""When the texts have fewer lines in common than this part of the shorter one, marking the others says nothing."""

SAME, ADDED, REMOVED = 0, 1, 2
"""What a run of lines is."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A text with the lines of the text before it that are gone.

    Attributes:
        lines: The lines of both, in order.
        runs: (kind, count) pairs that cover `lines`.
        note: Why nothing is marked, or None when it is.
    """

    lines: tuple[str, ...]
    runs: tuple[tuple[int, int], ...]
    note: str | None

    def count(self, kind: int) -> int:
        """How many lines are of that kind."""
        return sum(count for each, count in self.runs if each == kind)


def unmarked(text: str, note: str | None) -> Difference:
    """The text as it is, with the reason why nothing is marked in it."""
    lines = tuple(_lines(text))
    return Difference(lines, ((SAME, len(lines)),) if lines else (), note)


def difference(before: str, after: str) -> Difference:
    """What is new in `after`, and what is gone from `before`."""
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > _MAX_LINES:
        return unmarked(after, f"Not compared with the stage before: more than {_MAX_LINES} lines.")
    matcher = SequenceMatcher(None, _compared(old), _compared(new))
    lines: list[str] = []
    runs: list[tuple[int, int]] = []
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag == "equal":
            _append(lines, runs, SAME, new[new_start:new_end])
        else:
            _append(lines, runs, REMOVED, old[old_start:old_end])
            _append(lines, runs, ADDED, new[new_start:new_end])
    found = Difference(tuple(lines), tuple(runs), None)
    if found.count(SAME) < _REWRITTEN * min(len(old), len(new)):
        return unmarked(after, "Nearly every line is new, so nothing is marked.")
    return found


def comparable(text: str) -> list[str]:
    """The lines of a text as they are compared: without indentation and names of values."""
    return _compared(_lines(text))


def _lines(text: str) -> list[str]:
    """The lines, as the page splits them: at newlines only."""
    return text.removesuffix("\n").split("\n") if text else []


def _compared(lines: Sequence[str]) -> list[str]:
    """The lines as they are compared."""
    return [_NAMES.sub(lambda found: found.group()[0], line.strip()) for line in lines]


def _append(lines: list[str], runs: list[tuple[int, int]], kind: int, more: Sequence[str]) -> None:
    if more:
        lines += more
        runs.append((kind, len(more)))
