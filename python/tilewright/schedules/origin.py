# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whose schedule a transform module is: it is a strategy's if that strategy writes the same text again.

What a schedule says of its origin is only a claim. Formats of packed operands that two kernels share rest on the proof.
"""

from __future__ import annotations

from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects.tilewright import ScheduleAttr
from tilewright.schedules import calls, select
from tilewright.schedules.decisions import SCHEDULE
from tilewright.schedules.models.blocking import Blocking
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def of(schedule: ir.Module, function: ir.Operation, spec: MatmulSpec, target: Target) -> str:
    """The name of the strategy that writes `schedule` for `spec` on `target`; empty where none does.

    Args:
        schedule: The schedule.
        function: The payload's function once the schedule ran, which carries what the schedule says of its origin.
        spec: What it computes.
        target: For which target.
    """
    if SCHEDULE not in function.attributes:
        return ""
    said = ScheduleAttr(function.attributes[SCHEDULE])
    if said.strategy not in select.STRATEGIES:
        return ""
    try:
        sizes = Blocking(**{each.name: ir.IntegerAttr(each.attr).value for each in said.parameters})
        again = select.strategy(said.strategy)(spec, target, sizes)
    except (ScheduleError, TypeError):  # sizes that the strategy does not have, or refuses
        return ""
    return said.strategy if calls.without(schedule) == calls.without(again) else ""
