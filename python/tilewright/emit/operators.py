# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The builders of operators: by name of the operator, the module that compiles it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.emit import pipeline
from tilewright.operator_specs import OperatorSpec
from tilewright.targets.base import Target

if TYPE_CHECKING:
    from tilewright.emit.modules import Built

BUILDERS: Mapping[str, str] = MappingProxyType(
    {
        "attention": "attention",
        "conv2d": "conv2d",
    }
)
"""Modules of this package with ``build(spec, target, *, threads, parameters, until, allocator, symbol)``, as `build` below has it."""


def build(
    spec: OperatorSpec,
    target: Target,
    *,
    threads: int = 1,
    parameters: Mapping[str, int] | None = None,
    until: str = pipeline.BINARY,
    for_linking: bool = False,
    symbol: str = "",
) -> Built:
    """Compiles `spec` for `target`, which this machine need not be able to run.

    Args:
        spec: What to compute.
        target: For which target.
        threads: Most threads that a call uses.
        parameters: Sizes of the schedule that override the model's, by name.
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
    builder = import_module(f"tilewright.emit.{BUILDERS[spec.operator]}")
    return builder.build(
        spec,
        target,
        threads=threads,
        parameters=dict(parameters or {}),
        until=until,
        allocator=allocator,
        symbol=symbol,
    )
