# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of the compilation of attention."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from tilewright.dims import Dim
from tilewright.emit import code, llvmir
from tilewright.emit.modules import Built
from tilewright.lowering import driver, module_entries, modules
from tilewright.lowering.attention import function
from tilewright.mlir import ir
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention as payload
from tilewright.payload.signature import Parameter, Signature
from tilewright.schedules.attention import AttentionPlan, plan
from tilewright.targets.base import Target

_BODY = "attention_body"
_TIDY = "builtin.module(canonicalize, cse)"
"""What is written out has the same constants many times."""


def build(
    spec: AttentionSpec,
    target: Target,
    *,
    threads: int,
    parameters: Mapping[str, int],
    until: str,
    allocator: tuple[str, str],
) -> Built:
    """Compiles attention, as `emit.operators.build` says. It has no schedule: the loops are written out by the lowering.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
        LoweringError: A stage failed.
    """
    built = Built()
    made = plan(spec, target, parameters)
    done = _timer(built, until)
    context = ir.Context()
    with context, ir.Location.unknown():
        with done("payload") as is_last:
            built.texts["payload"] = payload.text(spec)
        if is_last:
            return built
        with done("bufferized") as is_last:
            module, size = function.written_out(spec, made, target, threads)
            driver.run_passes(module, _TIDY, "bufferized")
            built.functions = (_signature(spec, made).with_workspace(size),)
            built.texts["bufferized"] = f"{module}\n"
        if is_last or until in ("schedule", "scheduled"):
            return built
        with done("llvm") as is_last:
            modules.to_llvm(module, _BODY, target)
            module = module_entries.join({_BODY: (built.functions[0], module)}, (), target, allocator)
            built.texts["llvm"] = f"{module}\n"
        if is_last:
            return built
        with done("llvmir") as is_last:
            raw = llvmir.translated(module.operation)
            built.texts["llvmir"] = code.optimize(raw, target)
    if is_last:
        return built
    if until == "asm":
        with done("asm"):
            built.texts["asm"] = code.assembly(built.texts["llvmir"], target)
        return built
    with done("obj"):
        built.object = code.object_file(built.texts["llvmir"], target)
    return built


def _timer(built: Built, until: str) -> Callable[[str], AbstractContextManager[bool]]:
    """A function of a stage's name that times it; what it gives is true for the last stage that is wanted."""

    @contextmanager
    def timed(stage: str) -> Iterator[bool]:
        start = time.perf_counter()
        yield stage == until
        built.seconds[stage] = time.perf_counter() - start

    return timed


def _signature(spec: AttentionSpec, made: AttentionPlan) -> Signature:
    """What the function takes and gives."""
    arguments, result = [_parameter(each) for each in spec.operands], _parameter(spec.result, written=True)
    sizes = ", ".join(f"{name}={value}" for name, value in made.sizes.items())
    return Signature(spec.operator, tuple(arguments), (result,), spec.flops, (f"{made.strategy}: {sizes}",))


def _parameter(operand: OperandSpec, *, written: bool = False) -> Parameter:
    names = tuple(
        name if isinstance(size, Dim) else "" for size, name in zip(operand.shape, operand.names, strict=True)
    )
    return Parameter(operand.name, operand.shape, operand.type.name, written, batch=operand.batch, names=names)
