# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Watches the steps of a compilation (transform ops and passes): writes the IR after each to files, and prints how long each took."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.mlir import ir

INDEX = "steps.json"
"""The file of a group of steps that lists them."""
BEFORE = "000_before"
"""The file, without its suffix, of the IR before the first step of a group."""


@dataclass(slots=True)
class Watch:
    """What is watched.

    Attributes:
        folder: Where the IR goes: a folder for each group of steps, in it a file for each step that changed the IR, and `INDEX`; None
            for nowhere.
        timed: Whether each group prints a table of its steps' times to standard error.
        located: Whether the IR is written with the locations of its ops.
        groups: How many groups have run.
    """

    folder: Path | None
    timed: bool
    located: bool = False
    groups: int = 0


@dataclass(slots=True)
class Group:
    """The steps of one pipeline or schedule, in order.

    Attributes:
        stage: The stage that they belong to.
        kind: What they are, for people: "MLIR's passes".
        suffix: That of files with the IR.
        text: The IR as it is now; None where nobody wants it.
        last: The IR after the last step.
        steps: What `INDEX` says of each: its name, its seconds, the file with the IR where it changed that, where it stands in a source,
            and what the handles that it gave hold.
        texts: The IR by file.
        folder: Where it is written; None for nowhere.
    """

    stage: str
    kind: str
    suffix: str
    text: Callable[[], str] | None
    last: str = ""
    steps: list[dict[str, object]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def __post_init__(self) -> None:
        """Keeps the IR before the first step."""
        if self.text is not None:
            self.last = self.texts[f"{BEFORE}.{self.suffix}"] = self.text()

    def add(
        self,
        name: str,
        seconds: float,
        source: str = "",
        handles: Sequence[Sequence[str]] = (),
        *,
        after: str | None = None,
    ) -> None:
        """Adds a step that has just run; `after` is the IR after it, by default the IR now."""
        file = ""
        if self.text is not None:
            now = self.text() if after is None else after or self.last
            if now != self.last:
                file = f"{len(self.steps) + 1:03d}_{name}.{self.suffix}"
                self.last = self.texts[file] = now
        self.steps.append({"name": name, "seconds": seconds, "file": file, "source": source, "handles": handles})


_WATCH: ContextVar[Watch | None] = ContextVar("watched steps", default=None)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Has the steps inside watched; None: not."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def current() -> Watch | None:
    """What is watched here; None where nothing is."""
    return _WATCH.get()


def printed(module: ir.Module) -> str:
    """The text of a module, as what is watched here wants it."""
    watch = _WATCH.get()
    return str(module.operation.get_asm(enable_debug_info=watch is not None and watch.located))


@contextmanager
def group(stage: str, kind: str, suffix: str, text: Callable[[], str]) -> Iterator[Group | None]:
    """The group to which the steps inside are added; None where nothing is watched. It is also kept where a step fails."""
    watch = _WATCH.get()
    if watch is None:
        yield None
        return
    made = Group(stage, kind, suffix, text if watch.folder is not None else None)
    if watch.folder is not None:
        watch.groups += 1
        made.folder = watch.folder / f"{watch.groups:02d}-{stage}"
        made.folder.mkdir(parents=True)
        _write(made, made.folder)  # Where a step crashes, that is what it leaves.
    try:
        yield made
    finally:
        _keep(watch, made)


def _keep(watch: Watch, group: Group) -> None:
    """Writes the steps to the folder, and their times to standard error, as is wanted."""
    if group.folder is not None:
        _write(group, group.folder)
    if watch.timed:
        seconds: dict[str, float] = defaultdict(float)
        for step in group.steps:
            seconds[str(step["name"])] += float(str(step["seconds"]))
        total = sum(seconds.values())
        rows = sorted(seconds.items(), key=lambda each: -each[1])
        lines = [f"  {took:8.4f} ({took / (total or 1):6.1%})  {name}" for name, took in rows]
        sys.stderr.write("\n".join([f"{group.kind}, stage {group.stage}: {total:.4f} s", *lines, ""]))


def _write(group: Group, folder: Path) -> None:
    """Writes the steps so far."""
    for name, text in group.texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / INDEX).write_text(json.dumps({"kind": group.kind, "steps": group.steps}), encoding="utf-8")
