# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles attention for a CPU, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from types import MappingProxyType

from tilewright.dims import Dim
from tilewright.emit.built import Built
from tilewright.emit.operator_function import OperatorFunction
from tilewright.emit.pipeline import Wanted
from tilewright.mlir import ir
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention as payload
from tilewright.payload.signature import Parameter, Signature
from tilewright.payload.text import parse
from tilewright.schedules import decisions
from tilewright.schedules.operators import attention as model
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target


def planned(
    spec: AttentionSpec, target: Target, parameters: Mapping[str, int], threads: int
) -> tuple[AttentionSpec, Plan]:
    """What the schedule is made for, and the plan of our own one.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
    """
    return spec, model.plan(spec, target, parameters, threads)


def build(spec: AttentionSpec, target: Target, plan: Plan, wanted: Wanted) -> Built:
    """Compiles attention, as `emit.operators.compiled` says.

    Raises:
        ScheduleError: The schedule does not fit.
        LoweringError: A stage failed.
    """

    def made(context: ir.Context) -> ir.Module:
        return parse(payload.text(spec), "payload", context)

    signature = partial(_signature, spec)
    return OperatorFunction(spec, target, plan, wanted, made, signature).build()


def _signature(spec: AttentionSpec, decided: decisions.Decision) -> Signature:
    """What the function takes and gives."""
    arguments, result = [_parameter(each) for each in spec.operands], _parameter(spec.result, written=True)
    said = ", ".join(f"{name}={value}" for name, value in asdict(decided).items())
    return Signature(spec.operator, tuple(arguments), (result,), spec.flops, (f"online_softmax: {said}",))


_OPEN = MappingProxyType({"b0": "d0", "e": "d1", "s": "d2", "t": "d3"})
"""What open extents are called that are neither queries nor keys: pages, starts of sequences, sequences, and columns of a table."""


def _parameter(operand: OperandSpec, *, written: bool = False) -> Parameter:
    named = zip(operand.shape, operand.names, strict=True)
    names = tuple(_OPEN.get(name, name) if isinstance(size, Dim) else "" for size, name in named)
    return Parameter(operand.name, operand.shape, operand.type.name, written, batch=operand.batch, names=names)
