# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How one of the compilations that a bisection tries fails, and what that says of another failure."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.emit.pipeline import FAMILIES
from tilewright.errors import ScheduleError, TilewrightError, WrongResultError
from tilewright.runtime.reduction import SCHEDULED
from tilewright.targets import GpuTarget, Target


@dataclass(frozen=True, slots=True)
class Failure:
    """How a compilation fails.

    Attributes:
        kind: The class of the error.
        stage: The stage that fails: "scheduled" where a transform op does; empty where the kernel is made, and computes wrong numbers.
        place: Which stage that is, from 0; between two of them is what is checked once the whole schedule ran.
        reason: The error's text.
    """

    kind: type[TilewrightError]
    stage: str
    place: float
    reason: str

    @classmethod
    def of(cls, error: TilewrightError, target: Target | GpuTarget, reason: str) -> Failure:
        """The failure of a compilation for a target."""
        stages = FAMILIES[target.family if isinstance(target, GpuTarget) else "cpu"]
        if isinstance(error, WrongResultError):
            return cls(type(error), "", len(stages), reason)
        stage = getattr(error, "stage", None) or SCHEDULED
        place = stages.index(stage) if stage in stages else -1
        checked = isinstance(error, ScheduleError) and error.transform_op is None
        return cls(type(error), stage, place + checked / 2, reason)

    def shows(self, last: Failure) -> bool | None:
        """Whether the fault is there with which the whole schedule fails; None where that cannot be said.

        What fails at an earlier place says nothing. What gets further does not have the fault, unless its numbers are wrong: then that is
        what is to blame, and the whole schedule fails in consequence.
        """
        if self.stage == "" or (self.kind, self.place) == (last.kind, last.place):
            return True
        return False if self.place > last.place else None
