# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products for processors as stages and as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.payload.abi import ENTRY
from tilewright.runtime.linkable import Linkable
from tilewright.schedules.plan import Plan
from tilewright.spec import MatmulSpec
from tilewright.targets import Target

if TYPE_CHECKING:
    from tilewright.emit.stages import Stages


def build(spec: MatmulSpec, target: Target, plan: Plan, **wanted: Any) -> Stages:  # noqa: ANN401 - fields of Wanted
    """Compiles `spec` under `plan` for any target; in a child process where `child.is_needed`.

    `wanted` is as for `emit.stages.build`.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A later stage failed, or MLIR crashed.
    """
    from tilewright.emit import child, isolated, stages

    return (isolated if child.is_needed(plan) else stages).build(spec, target, plan, **wanted)


def linkable(spec: MatmulSpec, target: Target, plan: Plan, name: str = ENTRY) -> Linkable:
    """How the kernel of a product is made as a file."""

    def built(until: str, symbol: str) -> Stages:
        from tilewright.emit import spills

        made = build(spec, target, plan, until=until, for_linking=True, symbol=symbol)
        spills.warn(spills.count(made), plan, target)
        return made

    def declared(symbol: str) -> str:
        from tilewright.emit.header import header

        return header(spec, target, symbol, threads=plan.threads)

    return Linkable(target, plan.threads, name, built, declared)
