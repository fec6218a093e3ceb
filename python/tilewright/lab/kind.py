# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The interface of what the lab compiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tilewright.emit import child
from tilewright.emit.pipeline import Record
from tilewright.schedules.plan import Plan


class Kind(ABC):
    """One compilation that is asked for.

    Attributes:
        scheduled: What schedules are made for; None where there is no schedule.
        target: For which target.
        spec: What is computed; None for what a module says.
    """

    scheduled: Any
    target: Any
    spec: Any = None

    @abstractmethod
    def own(self, strategy: str) -> tuple[str, Plan]:
        """The text of a schedule of ours, and its plan.

        Args:
            strategy: Its name; empty to have one chosen.
        """

    @abstractmethod
    def plan(self, name: str, text: str) -> Plan:
        """The plan of the schedule that is in the editor."""

    @abstractmethod
    def build(self, plan: Plan, tell: child.Tell, *, runs: bool = False) -> Record:
        """Compiles under a plan: up to the code that is read or, where it `runs`, that is linked."""

    def about(self, built: Record, knobs: Mapping[str, int]) -> dict[str, Any]:
        """What else the page shows of what was made, under a schedule with these knobs."""
        return {"moves": None, "drawings": [], "workspace": getattr(built, "workspace", 0)}
