# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of the lab's menu: files beside this one, whose first lines say what each shows and of which product it is a schedule."""

from __future__ import annotations

import functools
import re
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

_FIELDS = ("SPDX-License-Identifier", "title", "group", "shape", "dtype", "layout", "epilogue", "target", "strategy")
_FIELD = re.compile(r"^(?:#|//) ([\w-]+): (.*)$")


@dataclass(frozen=True, slots=True)
class Sample:
    """An example.

    Attributes:
        name: Its file's name without the suffix and the number that orders it.
        title: What the menu shows.
        group: Where in the menu it stands.
        language: That of its text.
        text: The schedule; empty where it is one of ours, which `strategy` names.
        product: The fields of the product that it says: shape, dtype, target and so on.
        strategy: One of ours; empty for none.
    """

    name: str
    title: str
    group: str
    language: str
    text: str
    product: dict[str, str]
    strategy: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the page gets it."""
        return asdict(self)


@functools.cache
def all() -> tuple[Sample, ...]:
    """The examples, in the order of the menu."""
    files = sorted(resources.files("tilewright.lab").joinpath("examples").iterdir(), key=lambda each: each.name)
    return tuple(_read(each.name, each.read_text(encoding="utf-8")) for each in files if each.is_file())


def _read(name: str, text: str) -> Sample:
    """An example's fields are the comments at its start."""
    stem, _, language = name.rpartition(".")
    fields: dict[str, str] = {}
    lines = text.splitlines(keepends=True)
    while lines and (found := _FIELD.match(lines[0])) and found[1] in _FIELDS:
        fields[found[1]] = found[2]
        lines.pop(0)
    title, group = fields.pop("title"), fields.pop("group")
    fields.pop("SPDX-License-Identifier", None)
    strategy = fields.pop("strategy", "")
    return Sample(stem.split("_", 1)[1], title, group, language, "".join(lines).lstrip("\n"), fields, strategy)
