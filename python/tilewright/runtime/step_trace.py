# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The trace of a compilation: each transform op of the schedule and each pass behind it, with the IR before and after."""

from __future__ import annotations

import hashlib
import json
import lzma
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from tilewright import knobs
from tilewright.errors import TilewrightError
from tilewright.lowering import instrument
from tilewright.runtime import files

SUFFIX = ".trace"
"""The suffix of a file with a trace."""
_FORMAT = 1
_PACKAGE = Path(__file__).resolve().parents[2]
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One transform op, or one pass.

    Attributes:
        number: Which step of the trace it is, from 1.
        stage: The stage that it belongs to.
        kind: What it is: "transform ops", "MLIR's passes" or "LLVM's passes".
        name: Its name: "structured.tile_using_for", "canonicalize".
        source: For a transform op, the file and line of the schedule that made it.
        seconds: How long it took.
        handles: For each result of a transform op, what it then holds: the first line of each payload op, or the parameters.
        before: The IR before it.
        after: The IR after it.
    """

    number: int
    stage: str
    kind: str
    name: str
    source: str
    seconds: float
    handles: tuple[tuple[str, ...], ...]
    before: str
    after: str

    @property
    def changed(self) -> bool:
        """Whether it changed the IR."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Trace:
    """What `tilewright.trace` and `Kernel.trace` return.

    Attributes:
        title: What was compiled.
        steps: The steps, in order. Where a schedule failed, those before the failure.
        error: Why the compilation failed: the op, where it stands, and the reason. Empty where it did not.
    """

    title: str
    steps: tuple[Step, ...]
    error: str = ""

    def write(self, path: str | PathLike[str]) -> None:
        """Writes it to a file that `Trace.read` reads; equal texts are kept once, and all is compressed.

        Raises:
            TilewrightError: The file cannot be written.
        """
        texts: dict[str, str] = {}

        def kept(text: str) -> str:
            key = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
            texts[key] = text
            return key

        steps = [
            {name: getattr(step, name) for name in _PLAIN} | {"before": kept(step.before), "after": kept(step.after)}
            for step in self.steps
        ]
        said = {"format": _FORMAT, "title": self.title, "error": self.error, "steps": steps, "texts": texts}
        files.write(Path(path), lzma.compress(json.dumps(said).encode()), "Trace.write")

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Trace:
        """The trace in a file that `write` wrote.

        Raises:
            TilewrightError: The file cannot be read, or is no trace.
        """
        try:
            said = json.loads(lzma.decompress(Path(path).read_bytes()))
            if said["format"] != _FORMAT:
                raise ValueError(f"format {said['format']}")
            texts = said["texts"]
            steps = [
                Step(
                    **{name: step[name] for name in _PLAIN if name != "handles"},
                    handles=tuple(tuple(each) for each in step["handles"]),
                    before=texts[step["before"]],
                    after=texts[step["after"]],
                )
                for step in said["steps"]
            ]
        except OSError as error:
            raise TilewrightError(f"cannot read it: {error.strerror}", where=str(path), expected="a trace") from None
        except (ValueError, KeyError, TypeError, lzma.LZMAError) as error:
            raise TilewrightError(f"no trace: {error}", where=str(path), expected="what Trace.write wrote") from None
        return cls(said["title"], tuple(steps), said["error"])

    def perfetto(self) -> str:
        """The steps' times, as the JSON that Perfetto and Chrome's tracing page show."""
        events, start = list[dict[str, object]](), 0.0
        for step in self.steps:
            args = {"number": step.number, "source": step.source, "changed": step.changed}
            timed = {"ph": "X", "ts": start * 1e6, "dur": step.seconds * 1e6, "pid": 1, "tid": 1}
            events.append({"name": step.name, "cat": f"{step.stage}: {step.kind}", **timed, "args": args})
            start += step.seconds
        return json.dumps({"traceEvents": events, "otherData": {"title": self.title}})

    def widget(self) -> Any:  # noqa: ANN401 - of anywidget
        """For notebooks: a widget that steps through what changed the IR, which a cell shows.

        Raises:
            TilewrightError: anywidget is not installed.
        """
        from tilewright.runtime import step_widget

        return step_widget.made(self.title, self.error, [step for step in self.steps if step.changed])

    def __repr__(self) -> str:
        """What was compiled, and in how many steps."""
        return f"<tilewright.Trace {self.title}: {len(self.steps)} steps{', failed' if self.error else ''}>"


_PLAIN = ("number", "stage", "kind", "name", "source", "seconds", "handles")
"""The fields of a step that a file has as they are."""


def required(compilation: Callable[[], Any]) -> Trace:
    """The trace of what a function compiles; of a schedule that fails, everything up to the failure.

    Raises:
        TilewrightError: It failed before a schedule ran.
    """
    found, error = record(compilation)
    if error is not None and not found.steps:
        raise error
    return found


def record(compilation: Callable[[], Any]) -> tuple[Trace, TilewrightError | None]:
    """The trace of what a function compiles, and the error with which that ended; of this thread and its child processes alone."""
    error = None
    with tempfile.TemporaryDirectory(prefix="tilewright-trace-") as folder:
        with knobs.overridden(TILEWRIGHT_DUMP=folder):
            try:
                compilation()
            except TilewrightError as e:
                error = e
        found = sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_ctime_ns)
        title = found[0].name if found else ""
        steps = [step for compiled in found for step in _read_dump(compiled)]
    numbered = tuple(Step(number, *step) for number, step in enumerate(steps, 1))
    return Trace(title, numbered, "" if error is None else str(error)), error


def _read_dump(folder: Path) -> Iterator[tuple[Any, ...]]:
    """The fields of the steps, but their numbers, that a compilation wrote to a folder."""
    for group in sorted((folder / "passes").glob("*")):
        said = json.loads((group / instrument.INDEX).read_text(encoding="utf-8"))
        stage = group.name.split("-", 1)[1]
        (first,) = group.glob(f"{instrument.BEFORE}.*")
        text = first.read_text(encoding="utf-8")
        for step in said["steps"]:
            after = (group / step["file"]).read_text(encoding="utf-8") if step["file"] else text
            handles = tuple(tuple(each) for each in step["handles"])
            yield stage, said["kind"], step["name"], _short(step["source"]), step["seconds"], handles, text, after
            text = after


def _short(source: str) -> str:
    """A file and line; of a file of ours, from the package on."""
    return source.removeprefix(f"{_PACKAGE}/")
