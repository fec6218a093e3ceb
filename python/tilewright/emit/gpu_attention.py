# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles attention for a GPU, stage by stage, up to a thread's function: the payload and the kind of schedule are those of CPUs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.build.usedef import operations
from tilewright.codegen.attention import chain
from tilewright.codegen.gpu import kernel
from tilewright.codegen.gpu_attention import function as attention
from tilewright.emit.gpu_kernel import GpuCode, expand
from tilewright.emit.gpu_stages import GpuStages
from tilewright.errors import ScheduleError
from tilewright.lowering import run
from tilewright.mlir import ir
from tilewright.payload import attention as payload
from tilewright.payload.text import parse
from tilewright.schedules import decisions
from tilewright.schedules.decisions import SharedSoftmax, WarpGroupSoftmax
from tilewright.schedules.models import shared_softmax, warp_group_softmax


class GpuAttention(GpuCode):
    """The kernel of attention on its way, with a method for each stage."""

    def __init__(
        self,
        stages: GpuStages,
        context: ir.Context,
        make: Callable[[Any, ir.Context], ir.Module | None],
        *,
        aligned: bool,
        boxed: bool,
    ) -> None:
        """Takes what makes the schedule, and whether rows of operands and of the result are aligned."""
        super().__init__(stages)
        self._context, self._make, self._form = context, make, attention.Form(aligned, boxed)

    def payload(self) -> str:
        """The payload, in linalg on tensors."""
        self.module = parse(payload.text(self.stages.spec.whole), "payload", self._context)
        return str(self.module)

    def schedule(self) -> str:
        """The schedule, which decides how the function is computed."""
        made = self._make(self.stages.spec.whole, self._context)
        assert made is not None, "attention is always scheduled"
        self._schedule = made
        return str(made)

    def scheduled(self) -> str:
        """The payload with the decision on it."""
        stages = self.stages
        run.apply_schedule(self.module, self._schedule, stages.spec.whole, name=stages.strategy)
        self.deciding = decisions.deciding(self._schedule, (SharedSoftmax, WarpGroupSoftmax))
        return str(self.module)

    def threads(self) -> str:
        """The code of a thread, as the decision says."""
        stages = self.stages
        whole = run.payload_function(self.module, "threads", stages.spec.whole.operator)
        try:
            softmax, decision = _decided(whole.operation)
            with softmax.location:
                found = chain.read(whole, softmax)
                if isinstance(decision, SharedSoftmax):
                    shared_softmax.check(decision, found, stages.target)
                else:
                    warp_group_softmax.check(decision, found, len(found.batch) + 1, stages.target)
                self.module, boxes = attention.build(found, decision, stages.target, self._form)
        except ScheduleError as error:
            raise run.located(error, self.deciding, stages.strategy) from None
        stages.sizes, stages.boxes = decision, tuple(boxes)
        text = expand(stages, self.module)
        kernel.lower_vectors(self.module, attention.lanes(decision))
        return text


def _decided(function: ir.Operation) -> tuple[ir.Operation, SharedSoftmax | WarpGroupSoftmax]:
    """The softmax of a function that carries a decision, and that."""
    found = [op for op in operations(function) if decisions.SOFTMAX in op.attributes]
    decision = decisions.of(found[0], decisions.SOFTMAX) if len(found) == 1 else None
    if not isinstance(decision, SharedSoftmax | WarpGroupSoftmax):
        raise ScheduleError(
            "neither a #tilewright.shared_softmax nor a #tilewright.warp_group_softmax says how threads compute the function",
            expected="one, on the softmax",
            remedy="Let the schedule decide on it, as the operator's own does: kernel.asm['schedule'] prints that",
        )
    return found[0], decision
