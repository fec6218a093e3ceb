# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Warns when the hot loop of a kernel under a user's sizes or schedule spills to the stack.

Sizes that the model chooses keep every sum in a register. A user's may not: the results stay right, but the kernel is slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.emit import code, hotloop
from tilewright.errors import warn_slow

if TYPE_CHECKING:
    from tilewright.emit.stages import Stages
    from tilewright.schedules.plan import Plan
    from tilewright.targets.base import Target


def count(stages: Stages) -> int:
    """Instructions of the hot loop that read or write the stack; 0 under a plan of ours, where nobody has to be told.

    Args:
        stages: A compilation; 0 where it stopped before there was LLVM IR for the target.
    """
    plan, llvmir = stages.plan, stages.texts.get("llvmir")
    if llvmir is None or not (plan.sized_by_user or not plan.trusted):
        return 0
    asm = stages.texts.get("asm") or code.assembly(llvmir, stages.target)
    loop = hotloop.hottest(asm, stages.target.architecture)
    return 0 if loop is None else loop.stack_accesses


def warn(accesses: int, plan: Plan, target: Target) -> None:
    """Issues a `SlowScheduleWarning` unless there are none."""
    if not accesses:
        return
    sizes = " ".join(f"{name}={size}" for name, size in plan.sizes.items() if name in ("mr", "nr"))
    registers = f"{target.vector_registers} registers of {target.vector_bits} bits"
    warn_slow(
        f"the hot loop accesses the stack {accesses} times under {plan.name}{f', {sizes}' if sizes else ''}: its values do not all fit "
        f"the {registers} of {target.name}. Make the register tile smaller, or leave its sizes to the model"
    )
