# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A notebook's widget that steps through a trace: the steps that changed the IR, and what each changed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from importlib import import_module, resources
from typing import Any, Protocol

from tilewright.errors import TilewrightError

_CONTEXT = 3
"""Lines that are kept around each difference."""
_MOST_LINES = 2000


class Step(Protocol):
    """What the widget shows of a step of a trace."""

    @property
    def number(self) -> int: ...  # noqa: D102 - as `step_trace.Step` says, and the others
    @property
    def stage(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def source(self) -> str: ...  # noqa: D102
    @property
    def seconds(self) -> float: ...  # noqa: D102
    @property
    def before(self) -> str: ...  # noqa: D102
    @property
    def after(self) -> str: ...  # noqa: D102


def made(what: str, failure: str, changing: Sequence[Step]) -> Any:  # noqa: ANN401 - of a package that need not be installed
    """The widget of a trace: its title, its error, and the steps that changed the IR.

    Raises:
        TilewrightError: anywidget is not installed.
    """
    try:
        anywidget, traitlets = (import_module(name) for name in ("anywidget", "traitlets"))
    except ImportError:
        raise TilewrightError(
            "anywidget is not installed", where="Trace.widget", remedy="Install tilewright[notebook]"
        ) from None
    listed = [_named(each) for each in changing]

    class StepThrough(anywidget.AnyWidget):
        """The steps; `current` is the number of the one that is shown among them, and `lines` is what it changed."""

        _esm = resources.files("tilewright.runtime").joinpath("step_widget.js").read_text(encoding="utf-8")
        _css = resources.files("tilewright.runtime").joinpath("step_widget.css").read_text(encoding="utf-8")
        title = traitlets.Unicode(what).tag(sync=True)
        error = traitlets.Unicode(failure).tag(sync=True)
        steps = traitlets.List(listed).tag(sync=True)
        current = traitlets.Int(0).tag(sync=True)
        lines = traitlets.List().tag(sync=True)

        @traitlets.validate("current")
        def _known(self, proposal: Any) -> int:  # noqa: ANN401 - traitlets'
            return max(0, min(proposal["value"], len(changing) - 1))

        @traitlets.observe("current")
        def _show(self, _: object = None) -> None:
            self.lines = list(lines(changing[self.current])) if changing else []

        @traitlets.default("lines")
        def _first(self) -> list[list[str]]:
            return list(lines(changing[0])) if changing else []

    return StepThrough()


def _named(step: Step) -> dict[str, str]:
    """What the list of steps says of one."""
    return {
        "number": str(step.number),
        "name": step.name,
        "source": step.source,
        "stage": step.stage,
        "time": f"{step.seconds * 1e3:.2f} ms",
    }


def lines(step: Step) -> Iterator[list[str]]:
    """What a step changed: lines behind " ", "-", "+", or "@" for some that are left out."""
    before, after = step.before.splitlines(), step.after.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    count = last = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        if group[0][3] > last:
            yield ["@", f"{group[0][3] - last} lines"]
        last = group[-1][4]
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                some = [[" ", each] for each in after[new_start:new_end]]
            else:
                some = [["-", each] for each in before[start:end]] + [["+", each] for each in after[new_start:new_end]]
            count += len(some)
            if count > _MOST_LINES:
                yield ["@", f"more than {_MOST_LINES} lines changed"]
                return
            yield from some
    if last < len(after):
        yield ["@", f"{len(after) - last} lines"]
