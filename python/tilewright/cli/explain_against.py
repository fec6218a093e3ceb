# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares an explanation with an earlier one: what differs in schedule, code, model and time."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.cli import explain_folder
from tilewright.cli.output import duration
from tilewright.errors import TilewrightError

_NAMES = re.compile(r"(?<![\w.])(%[\w$.-]+(?:[:#]\d+)?|\^bb\d+|#map\d*|!\d+)")
"""Names of values, blocks and maps, which say nothing of what differs."""
_SCHEDULE, _ASSEMBLY = "schedule.mlir", "kernel.s"
_MOST_LINES = 80
"""Of a schedule's differences."""
_WIDTH, _COLUMN = 30, 34
_FACTS = ("title", "target", "schedule", "threads", "workspace_bytes")
_COUNTS = (
    "instructions",
    "fma",
    "tile_products",
    "multiplies",
    "loads",
    "stores",
    "stack_accesses",
    "gathers",
    "calls",
)
_MODEL = ("cpu", "cycles", "bound_cycles", "percent_of_bound")


def read(folder: Path) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """The facts and the texts of an explanation.

    Raises:
        TilewrightError: The folder holds none.
    """
    try:
        facts = json.loads((folder / explain_folder.MANIFEST).read_text(encoding="utf-8"))
        if facts["kind"] != explain_folder.KIND:
            raise ValueError("it is of another kind")
        texts = {_ASSEMBLY: (folder / _ASSEMBLY).read_text(encoding="utf-8")}
        if _SCHEDULE in facts["files"]:
            texts[_SCHEDULE] = (folder / _SCHEDULE).read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TilewrightError(
            f"{folder} holds no explanation of a kernel for a processor: {error}",
            where="--against",
            expected="a folder that tilewright explain wrote",
        ) from None
    return facts, texts


def text(
    before: tuple[Mapping[str, Any], Mapping[str, str]], after: tuple[Mapping[str, Any], Mapping[str, str]]
) -> str:
    """What differs, for people: rows of what both have, the earlier one first."""
    (old, old_texts), (new, new_texts) = before, after
    lines = [f"{'':<{_WIDTH}}{'before':>{_COLUMN}}{'this':>{_COLUMN}}", ""]
    lines += _rows(*({name: each.get(name) for name in _FACTS} for each in (old, new)))
    lines += ["", "Schedule", "", *_rows(old["parameters"], new["parameters"])]
    lines += _schedule(old_texts.get(_SCHEDULE, ""), new_texts.get(_SCHEDULE, ""))
    loops = [each["hot_loop"] or {} for each in (old, new)]
    lines += [
        "",
        "Hot loop",
        "",
        *_rows(*(_counts(each) for each in loops)),
        *_rows(*(each.get("mix", {}) for each in loops)),
    ]
    lines += ["", "Model", "", *_rows(*({name: each.get(name) for name in _MODEL} for each in loops))]
    moves = [each.get("moves") or {} for each in (old, new)]
    lines += _rows(*(_moved(each) for each in moves))
    times = [(each.get("seconds") or {}).get("measured") for each in moves]
    lines += ["", "Time", "", *_times(*times)]
    code = [each[_ASSEMBLY].count("\n") for each in (old_texts, new_texts)]
    lines += ["", "Code", "", *_rows({"lines of assembly": code[0]}, {"lines of assembly": code[1]})]
    return "\n".join(lines) + "\n"


def _counts(loop: Mapping[str, Any]) -> dict[str, Any]:
    """What is counted of a hot loop that is not zero."""
    return {name.replace("_", " "): loop[name] for name in _COUNTS if loop.get(name)}


def _moved(moves: Mapping[str, Any]) -> dict[str, float]:
    """The bytes that come from beyond each cache."""
    beyond = moves.get("moved_beyond", {})
    return {
        ("bytes accessed" if name == "accesses" else f"bytes beyond {name}"): sum(each.values())
        for name, each in beyond.items()
    }


def _rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """A row for each name that either has; what differs is marked, numbers with their ratio."""
    for name in dict.fromkeys((*old, *new)):
        first, second = old.get(name), new.get(name)
        if first is None and second is None:
            continue
        mark = "" if first == second else _ratio(first, second)
        yield f"{name:<{_WIDTH}}{_shown(first):>{_COLUMN}}{_shown(second):>{_COLUMN}}{mark}"


def _ratio(old: object, new: object) -> str:
    """What is put behind a row whose values differ: a ratio, where it says something."""
    if isinstance(old, int | float) and isinstance(new, int | float) and old > 0 < new:
        return f"  × {new / old:.3g}"
    return "  *"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


def _schedule(old: str, new: str) -> Iterator[str]:
    """The lines of the schedule that differ, without the names of values."""
    found = list(difflib.unified_diff(_comparable(old), _comparable(new), lineterm="", n=0))[2:]
    changed = [line for line in found if not line.startswith("@@")]
    if not changed:
        yield "the same transform ops"
        return
    less, more = (sum(line.startswith(sign) for line in changed) for sign in "-+")
    yield f"transform ops: {less} lines are gone, {more} are new"
    yield from (f"  {line[: _MOST_LINES * 2]}" for line in changed[:_MOST_LINES])
    if len(changed) > _MOST_LINES:
        yield f"  and {len(changed) - _MOST_LINES} lines more"


def _comparable(text: str) -> list[str]:
    """The lines of a text as they are compared: without indentation and names of values."""
    return [_NAMES.sub(lambda found: found.group()[0], line.strip()) for line in text.splitlines()]


def _times(old: float | None, new: float | None) -> Iterator[str]:
    """The measured times; each was taken in a run of its own, so small differences say nothing."""
    if not old or new is None:
        yield "not measured: --measure was not given for both"
        return
    yield f"{'measured':<{_WIDTH}}{duration(old):>{_COLUMN}}{duration(new):>{_COLUMN}}  × {new / old:.3g}"
    yield "Taken in different runs: tilewright bench compare says whether a difference is more than noise."
