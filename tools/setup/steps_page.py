# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes docs/reference/steps.md: what each step of a schedule does, from the docstrings of `tilewright.schedules.steps`."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType

from common import ROOT, say

TARGET = ROOT / "docs" / "reference" / "steps.md"
TITLE = """# Steps of a schedule

`from tilewright.schedules import steps`. A step takes handles to payload ops and gives handles; it builds ops of the transform
dialect at the end of the script under construction. [A schedule of your own](../../README.md#a-schedule-of-your-own) shows a
whole one. `make docs` writes this page from the docstrings, and beside it `dialect.md`, about the ops that are not upstream's.
"""
_LITERAL = re.compile(r"``([^`]+)``")
_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes):$", re.MULTILINE)


def text() -> str:
    """The page."""
    from tilewright.schedules import steps

    return "\n".join([TITLE, *(_entry(name, step) for name, step in _steps(steps))])


def _steps(module: ModuleType) -> Iterator[tuple[str, Callable[..., object]]]:
    """The public functions and classes of the module, in its order."""
    for name, each in vars(module).items():
        if not name.startswith("_") and callable(each) and getattr(each, "__module__", "") == module.__name__:
            yield name, each


def _entry(name: str, step: Callable[..., object]) -> str:
    """The part of the page about one step."""
    said = _LITERAL.sub(r"`\1`", inspect.getdoc(step) or "")
    about, *sections = _SECTION.split(said.replace("::\n", ":\n"))
    lists = "".join(_section(title, body) for title, body in zip(sections[::2], sections[1::2], strict=True))
    of = "" if inspect.isclass(step) else f"\n```text\n{name}{_signature(step)}\n```\n"
    return f"## {name}\n{of}\n{about.strip()}\n{lists}"


def _signature(step: Callable[..., object]) -> str:
    """How it is called, a parameter a line where one line is too short."""
    shown = str(inspect.signature(step)).replace("'", "")
    if len(shown) <= 100:
        return shown
    each = ",\n    ".join(str(parameter).replace("'", "") for parameter in inspect.signature(step).parameters.values())
    return f"(\n    {each},\n) -> {inspect.signature(step).return_annotation}".replace("'", "")


def _section(title: str, body: str) -> str:
    """Arguments as a list, everything else as a paragraph."""
    plain = textwrap.dedent(body.strip("\n")).rstrip()
    if title == "Returns":
        return f"\n{title}: {plain}\n"
    rows = re.sub(r"\n\s+", " ", plain).splitlines()
    listed = "\n".join(re.sub(r"^(\*{0,2}\w+): ", r"- `\1`: ", row) for row in rows)
    return f"\n{title}:\n\n{listed}\n"


def write() -> None:
    """Writes the page."""
    TARGET.write_text(text(), encoding="utf-8")
    say(f"wrote {TARGET.relative_to(ROOT)}")


if __name__ == "__main__":
    write()
