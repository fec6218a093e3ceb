# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages of an operator whose payload is one function, of which a decision of its schedule says how all of it is computed."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.codegen import registry
from tilewright.emit.built import Built
from tilewright.emit.machine_code import MachineCode, Text, texts
from tilewright.emit.pipeline import Wanted
from tilewright.errors import ScheduleError
from tilewright.lowering import modules, run
from tilewright.lowering.entries import module_entries
from tilewright.lowering.passes import unroll
from tilewright.mlir import ir
from tilewright.operator_specs import OperatorSpec
from tilewright.payload.signature import Signature, renamed
from tilewright.schedules import decisions
from tilewright.schedules.decisions import Decision
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target

_TIDY = "builtin.module(canonicalize, cse)"
"""What is written out has the same constants many times."""


class OperatorFunction(MachineCode):
    """The function of an operator on its way, with a method for each stage."""

    def __init__(
        self,
        spec: OperatorSpec,
        target: Target,
        plan: Plan,
        wanted: Wanted,
        payload: Callable[[ir.Context], ir.Module],
        signature: Callable[[Decision], Signature],
    ) -> None:
        """Takes what is compiled, for which target, under which schedule.

        Args:
            spec: What is computed.
            target: For which target.
            plan: The schedule.
            wanted: What is wanted.
            payload: Makes the payload, whose function is called as the operator.
            signature: What the function takes and gives, once it is decided how it is computed.
        """
        self._built = Built()
        super().__init__(target, self._built, wanted, str(spec))
        self._spec, self._plan = spec, plan.read(spec, self._context)
        self._make, self._signature = payload, signature
        self._schedule: ir.Module | None = None

    def build(self) -> Built:
        """All stages up to the one that is wanted."""
        self.run()
        return self._built

    def payload(self) -> Text:
        """The payload, in linalg on tensors."""
        self.module = self._make(self._context)
        return texts([self.module])

    def schedule(self) -> Text:
        """The schedule, which decides how the function is computed."""
        self._schedule = self._plan.module(self._spec, self._target, self._context)
        return texts([self._schedule])

    def scheduled(self) -> Text:
        """The payload with the decision on it."""
        assert self._schedule is not None, "an operator is always scheduled"
        run.apply_schedule(self.module, self._schedule, self._spec, name=self._plan.name)
        return texts([self.module])

    def bufferized(self) -> Text:
        """Loops on memrefs for tensors, as was decided."""
        function = run.payload_function(self.module, "bufferized", self._spec.operator)
        try:
            decided, size = registry.carry_out_whole(function, self._target, self._plan.threads)
        except ScheduleError as error:
            raise run.located(error, decisions.deciding(self._schedule, registry.WHOLE), self._plan.name) from None
        run.run_passes(self.module, _TIDY, "bufferized")
        self._built.functions = (self._signature(decided).with_workspace(size),)
        return texts([self.module])

    def llvm(self) -> Text:
        """The function in the LLVM dialect, with its C entry."""
        body = f"{self._spec.operator}_body"
        modules.to_llvm(self.module, body, self._target)
        unroll.hand_on(self.module)
        bodies = {body: (renamed(self._built.functions, self._symbol)[0], self.module)}
        self.module = module_entries.join(bodies, (), self._target, asks_for_tiles=self._wanted.for_linking)
        return texts([self.module])
