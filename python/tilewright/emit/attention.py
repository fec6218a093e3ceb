# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles attention for a CPU, stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict

from tilewright.codegen import registry
from tilewright.dims import Dim
from tilewright.emit import pipeline
from tilewright.emit.machine_code import MachineCode, texts
from tilewright.emit.modules import Built
from tilewright.errors import ScheduleError
from tilewright.lowering import modules, run
from tilewright.lowering.entries import module_entries
from tilewright.mlir import ir
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention as payload
from tilewright.payload.signature import Parameter, Signature, renamed
from tilewright.payload.text import parse
from tilewright.schedules import attention as model
from tilewright.schedules import decisions
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target

_BODY = "attention_body"
_TIDY = "builtin.module(canonicalize, cse)"
"""What is written out has the same constants many times."""


def planned(
    spec: AttentionSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> tuple[AttentionSpec, Plan]:
    """What the schedule is made for, and the plan of our own one.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
    """
    return spec, model.plan(spec, target, parameters, threads)


def build(
    spec: AttentionSpec,
    target: Target,
    plan: Plan,
    *,
    until: str,
    allocator: tuple[str, str],
    symbol: str,
    started: Callable[[str], object],
) -> Built:
    """Compiles attention, as `emit.operators.compiled` says.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A stage failed.
    """
    return _Attention(spec, target, plan, allocator, symbol).run(until, started)


class _Attention(MachineCode):
    """Attention on its way, with a method for each stage."""

    def __init__(
        self, spec: AttentionSpec, target: Target, plan: Plan, allocator: tuple[str, str], symbol: str
    ) -> None:
        self._built, self._context = Built(), ir.Context()
        super().__init__(target, self._built)
        self._spec, self._target, self._plan = spec, target, plan.read(spec, self._context)
        self._allocator, self._symbol = allocator, symbol
        self._schedule: ir.Module | None = None

    def run(self, until: str, started: Callable[[str], object]) -> Built:
        """All stages up to the one that is wanted."""
        title = f"{self._spec} {self._target.name}"
        with self._context, ir.Location.unknown():
            pipeline.run(self, "cpu", until=until, record=self._built, title=title, started=started)
        return self._built

    def payload(self) -> str:
        self.module = parse(payload.text(self._spec), "payload", self._context)
        return texts([self.module])

    def schedule(self) -> str:
        self._schedule = self._plan.module(self._spec, self._target, self._context)
        return texts([self._schedule])

    def scheduled(self) -> str:
        assert self._schedule is not None, "attention is always scheduled"
        run.apply_schedule(self.module, self._schedule, self._spec, name=self._plan.name)
        return texts([self.module])

    def bufferized(self) -> str:
        function = run.payload_function(self.module, "bufferized", self._spec.operator)
        try:
            decided, size = registry.carry_out_chain(function, self._target, self._plan.threads)
        except ScheduleError as error:
            raise run.located(error, _deciding(self._schedule), self._plan.name) from None
        run.run_passes(self.module, _TIDY, "bufferized")
        self._built.functions = (_signature(self._spec, decided).with_workspace(size),)
        return texts([self.module])

    def llvm(self) -> str:
        modules.to_llvm(self.module, _BODY, self._target)
        bodies = {_BODY: (renamed(self._built.functions, self._symbol)[0], self.module)}
        self.module = module_entries.join(bodies, (), self._target, self._allocator)
        return texts([self.module])


def _deciding(schedule: ir.Module | None) -> ir.Operation | None:
    """The op of a schedule that decides on the softmax; None where there is none."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "transform.tilewright.annotate" and str(op.attributes["annotation"]).startswith(
            "#tilewright.online_softmax"
        ):
            found.append(op)
        return ir.WalkResult.ADVANCE

    if schedule is not None:
        schedule.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[0] if found else None


def _signature(spec: AttentionSpec, decided: decisions.Decision) -> Signature:
    """What the function takes and gives."""
    arguments, result = [_parameter(each) for each in spec.operands], _parameter(spec.result, written=True)
    said = ", ".join(f"{name}={value}" for name, value in asdict(decided).items())
    return Signature(spec.operator, tuple(arguments), (result,), spec.flops, (f"online_softmax: {said}",))


def _parameter(operand: OperandSpec, *, written: bool = False) -> Parameter:
    names = tuple(
        name if isinstance(size, Dim) else "" for size, name in zip(operand.shape, operand.names, strict=True)
    )
    return Parameter(operand.name, operand.shape, operand.type.name, written, batch=operand.batch, names=names)
