# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How what is made of loads is kept behind the products that go on meanwhile, against schedulers that take it for ready at once.

A loop over K ends with it, and its products depend on none of it. NVIDIA's assembler moves nothing out of a condition; LLVM moves
products into what follows one, but nothing over a barrier of its scheduler on AMD's GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tilewright.build.loops import when
from tilewright.mlir import ir

Behind = Callable[[ir.Value, Callable[[], None]], None]
"""Emits what something emits, at least where a condition holds, behind what was emitted before."""


def _in_condition(condition: ir.Value, emit: Callable[[], None]) -> None:
    with when(condition):
        emit()


def _behind_barrier(condition: ir.Value, emit: Callable[[], None]) -> None:
    ir.Operation.create(
        "amdgpu.sched_barrier", attributes={"opts": ir.Attribute.parse("#amdgpu<sched_barrier_opt <none>>")}
    )
    emit()


BEHIND: Mapping[str, Behind] = MappingProxyType(
    {"nvidia": _in_condition, "amd": _behind_barrier, "vulkan": _in_condition}
)
"""By family of targets."""
