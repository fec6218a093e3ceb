# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes schedules between two of them: the first ops as in the one, the rest as in the other. Works on their printed text alone."""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from tilewright.errors import ScheduleError

_BODY = re.compile(
    r"^  transform\.named_sequence @__transform_main\(.*\) \{\n(.*?)^(?=    transform\.yield)", re.M | re.S
)
_VALUE = re.compile(r"%[\w$.-]+")
_RESULTS = re.compile(r"(%[^=]*) = ")


@dataclass(frozen=True, slots=True)
class Text:
    """The printed text of a schedule.

    Attributes:
        head: What precedes the ops of its main sequence.
        ops: The text of each op of that, regions included.
        tail: What follows them.
    """

    head: str
    ops: tuple[str, ...]
    tail: str

    @classmethod
    def of(cls, text: str) -> Text:
        """The parts of the text of one module, as MLIR prints it.

        Raises:
            ScheduleError: It has no main sequence, or several modules, as that of dynamic extents with cases has.
        """
        found = list(_BODY.finditer(text))
        if len(found) != 1:
            raise ScheduleError(
                f"it has {len(found)} main sequences", expected="one", remedy="Give extents in place of dynamic ones"
            )
        body = found[0]
        return cls(text[: body.start(1)], tuple(_ops(body[1])), text[body.end(1) :])

    def first(self, count: int) -> str:
        """The schedule with its first `count` ops alone."""
        return "".join((self.head, *self.ops[:count], self.tail))


def _ops(body: str) -> Iterator[str]:
    """The ops of a body, which MLIR indents by four spaces: one starts at each such line that closes no region."""
    lines: list[str] = []
    for line in body.splitlines(keepends=True):
        starts = line.startswith("    ") and line[4:5] not in (" ", "}", "^")
        if starts and lines:
            yield "".join(lines)
            lines = []
        lines.append(line)
    if lines:
        yield "".join(lines)


@dataclass(frozen=True, slots=True)
class Change:
    """A place where two sequences differ: which elements of the first, and which the second has for them."""

    old: tuple[int, int]
    new: tuple[int, int]


def changes(old: Text, new: Text) -> list[Change]:
    """Where two schedules differ, in order; names of values make no difference. An op for an op is a change of its own."""
    first, second = ([_VALUE.sub("%", op) for op in each.ops] for each in (old, new))
    return differences(first, second)


def differences(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Change]:
    """Where two sequences differ, in order. Where as many elements take the place of others, each is a change of its own."""
    found: list[Change] = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        pairs = i_end - i if tag == "replace" and i_end - i == j_end - j else 0
        found += [Change((i + n, i + n + 1), (j + n, j + n + 1)) for n in range(pairs)] or [
            Change((i, i_end), (j, j_end))
        ]
    return found


def mixed(old: Text, new: Text, taken: Sequence[Change]) -> str:
    """The schedule `old` with the changes `taken`, some of `changes(old, new)`, to `new`.

    Each value gets a name of its own. An op of `old` that uses what a change has replaced by as many ops uses the new ones' results.
    """
    names: tuple[dict[str, str], dict[str, str]] = ({}, {})
    written: list[str] = []

    def write(op: str, own: int, also: str | None) -> None:
        """Adds an op of `old` (0) or `new` (1); `also` is the op of the other schedule whose results these are too."""
        results = _results(op)
        for index, name in enumerate(results):
            fresh = f"%h{len(written)}_{index}"
            names[own][name] = fresh
            if also is not None and index < len(_results(also)):
                names[1 - own][_results(also)[index]] = fresh
        written.append(_VALUE.sub(lambda found: names[own].get(found[0], found[0]), op))

    end = Change((len(old.ops), len(old.ops)), (len(new.ops), len(new.ops)))
    i = j = 0
    for change in [*changes(old, new), end]:
        for kept in range(change.old[0] - i):
            write(old.ops[i + kept], 0, new.ops[j + kept])
        ours, theirs = old.ops[slice(*change.old)], new.ops[slice(*change.new)]
        pairs = len(ours) == len(theirs)
        own, other, number = (theirs, ours, 1) if change in taken else (ours, theirs, 0)
        for index, op in enumerate(own):
            write(op, number, other[index] if pairs else None)
        (_, i), (_, j) = change.old, change.new
    return "".join((old.head, *written, old.tail))


def _results(op: str) -> list[str]:
    """The names of an op's results, without how many there are of one."""
    found = _RESULTS.match(op.lstrip())
    return _VALUE.findall(found[1]) if found else []
