# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products for processors in the lab."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilewright.emit import child, stages
from tilewright.emit.pipeline import Record
from tilewright.lab import blocks, moves
from tilewright.lab.kind import Kind
from tilewright.schedules import make
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_RECORDED = re.compile(r"#tilewright\.schedule<strategy = \"\w+\", parameters = \{([^}]*)\}")
"""The sizes that a schedule writes on the payload."""
_SIZE = re.compile(r"(\w+) = (\d+)")


class Product(Kind):
    """A product for a processor."""

    def __init__(self, spec: MatmulSpec, target: Target, threads: int) -> None:
        """Takes what is computed."""
        self.spec = self.scheduled = spec
        self.target, self._threads = target, threads

    def own(self, strategy: str) -> tuple[str, Plan]:  # noqa: D102 - as Kind, and the others
        plan = make.make(self.scheduled, self.target, strategy or None, None, self._threads)
        built = stages.build(self.scheduled, self.target, plan, until="schedule")
        return built.texts.get("schedule", ""), plan

    def plan(self, name: str, text: str) -> Plan:  # noqa: D102
        return make.from_text(self.scheduled, self.target, name, text, self._threads)

    def build(self, plan: Plan, tell: child.Tell, *, runs: bool = False) -> stages.Stages:  # noqa: D102
        return stages.build(self.scheduled, self.target, plan, until="obj" if runs else "asm", started=tell)

    def about(self, built: Record, knobs: Mapping[str, int]) -> dict[str, Any]:  # noqa: D102
        nest = moves.read(self.scheduled, built.texts)
        sizes = (moves.sizes(nest) if nest else {}) | _recorded(built) | dict(knobs)
        drawn = blocks.of(self.scheduled, self.target, sizes)
        shown = {
            "moves": nest and moves.as_json(nest, self.target, self._threads),
            "drawings": [blocks.svg([each]) for each in drawn],
        }
        return super().about(built, knobs) | shown


def _recorded(built: Record) -> dict[str, int]:
    """The sizes that a schedule has written down."""
    found = _RECORDED.search(built.texts.get("scheduled", ""))
    return {name: int(size) for name, size in _SIZE.findall(found[1])} if found else {}
