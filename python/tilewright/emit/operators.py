# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The table of operators' builders, and compilation through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from tilewright.emit import pipeline
from tilewright.operator_specs import OperatorSpec
from tilewright.schedules.plan import Plan
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.emit.modules import Built

BUILDERS: Mapping[str, str] = MappingProxyType(
    {
        "attention": "attention",
        "conv2d": "conv2d",
    }
)
"""Modules of this package with two functions:

- ``planned(spec, target, parameters, threads)`` returns what the operator's schedule is made for, a spec, and the plan of our own schedule.
- ``build(spec, target, plan, *, until, allocator, symbol, started)`` compiles the operator under a plan, as `compiled` says.
"""


def build(
    spec: OperatorSpec,
    target: Target,
    *,
    threads: int = 1,
    parameters: Mapping[str, int] | None = None,
    plan: Plan | None = None,
    until: str = pipeline.BINARY,
    for_linking: bool = False,
    symbol: str = "",
) -> Built:
    """Compiles `spec` for `target`, which this machine need not be able to run; under a user's schedule in a child process.

    Args:
        spec: What to compute.
        target: For which target.
        threads: Most threads that a call uses.
        parameters: Sizes of the schedule that override the model's, by name.
        plan: The user's schedule; None for ours.
        until: The last stage wanted: of `pipeline.FAMILIES`.
        for_linking: Whether the object gets its scratch memory from the C library, and not from the runtime that loads it.
        symbol: The name of the C entry; empty for the operator's.

    Returns:
        The stages reached, of one function whose name is the operator's.

    Raises:
        TargetError: The operator cannot be computed on the target.
        ScheduleError: A schedule does not fit.
        LoweringError: A later stage failed, or `until` is unknown.
    """
    from tilewright.lowering import driver

    pipeline.check(until)
    allocator = driver.LIBC_ALLOCATOR if for_linking else driver.RUNTIME_ALLOCATOR
    problem, own = _builder(spec).planned(spec, target, dict(parameters or {}), threads)
    if plan is None:
        return compiled(spec, target, own, until=until, allocator=allocator, symbol=symbol)
    from tilewright.emit import isolated

    sizes, used = (None, threads) if plan.text is not None else (own.parameters, own.threads)
    given = replace(plan, parameters=sizes, threads=used)
    return isolated.build_operator(spec, target, given, problem, until=until, allocator=allocator, symbol=symbol)


def compiled(
    spec: OperatorSpec,
    target: Target,
    plan: Plan,
    *,
    until: str,
    allocator: tuple[str, str],
    symbol: str,
    started: Callable[[str], object] = lambda stage: None,
) -> Built:
    """Compiles `spec` under `plan`, in this process; the rest is as for `build`.

    Args:
        spec: What to compute.
        target: For which target.
        plan: The schedule.
        until: The last stage wanted.
        allocator: Where the kernel gets its workspace: `driver.RUNTIME_ALLOCATOR` or `driver.LIBC_ALLOCATOR`.
        symbol: The name of the C entry; empty for the operator's.
        started: Told the name of each stage as it starts.
    """
    return _builder(spec).build(spec, target, plan, until=until, allocator=allocator, symbol=symbol, started=started)


def _builder(spec: OperatorSpec) -> ModuleType:
    """The module that compiles the operator."""
    return import_module(f"tilewright.emit.{BUILDERS[spec.operator]}")
