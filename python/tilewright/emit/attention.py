# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The stages of attention's compilation for a CPU."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.dims import Dim
from tilewright.emit import pipeline
from tilewright.emit.machine_code import MachineCode, texts
from tilewright.emit.modules import Built
from tilewright.lowering import driver, module_entries, modules
from tilewright.lowering.attention import function
from tilewright.mlir import ir
from tilewright.operand import OperandSpec
from tilewright.operator_specs.attention import AttentionSpec
from tilewright.payload import attention as payload
from tilewright.payload.signature import Parameter, Signature, renamed
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
    symbol: str = "",
) -> Built:
    """Compiles attention, as `emit.operators.build` says. It has no schedule: the loops are written out by the lowering.

    Raises:
        ScheduleError: A parameter is unknown or does not fit.
        LoweringError: A stage failed.
    """
    made = _Attention(spec, target, threads, plan(spec, target, parameters), allocator, symbol)
    with ir.Context(), ir.Location.unknown():
        pipeline.run(made, "cpu", until=until, record=made.built, title=f"{spec} {target.name}")
    return made.built


class _Attention(MachineCode):
    """Attention on its way, with a method for each stage.

    Attributes:
        built: What its stages have made.
    """

    def __init__(
        self,
        spec: AttentionSpec,
        target: Target,
        threads: int,
        sizes: AttentionPlan,
        allocator: tuple[str, str],
        symbol: str,
    ) -> None:
        self.built = Built()
        super().__init__(target, self.built)
        self._spec, self._target, self._threads = spec, target, threads
        self._sizes, self._allocator, self._symbol = sizes, allocator, symbol

    def payload(self) -> str:
        return payload.text(self._spec)

    def schedule(self) -> None:
        """There is none."""

    def scheduled(self) -> None:
        """There is none."""

    def bufferized(self) -> str:
        self.module, size = function.written_out(self._spec, self._sizes, self._target, self._threads)
        driver.run_passes(self.module, _TIDY, "bufferized")
        self.built.functions = (_signature(self._spec, self._sizes).with_workspace(size),)
        return texts([self.module])

    def llvm(self) -> str:
        modules.to_llvm(self.module, _BODY, self._target)
        bodies = {_BODY: (renamed(self.built.functions, self._symbol)[0], self.module)}
        self.module = module_entries.join(bodies, (), self._target, self._allocator)
        return texts([self.module])


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
