# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Refuses schedules that vectorize more than there are registers for by far: the code of such vectors takes minutes to make."""

from __future__ import annotations

import math

from tilewright.build.usedef import named, operations
from tilewright.errors import ScheduleError
from tilewright.lowering import run
from tilewright.mlir import ir

_MOST = 1 << 17
"""Elements of a vector, which become instructions by the width of a register; the tiles of our schedules have half as many at most."""
_VECTORIZE = ("transform.structured.vectorize", "transform.structured.vectorize_children_and_apply_patterns")


def refuse(payload: ir.Module, schedule: ir.Module, name: str) -> None:
    """Raises `ScheduleError`, at the op of the schedule called `name` that vectorizes, where it has made too large a vector."""
    largest = max((_elements(value.type) for op in operations(payload.operation) for value in op.results), default=0)
    if largest <= _MOST:
        return
    vectorizing = named(schedule.operation, *_VECTORIZE)
    error = ScheduleError(
        f"it makes a vector of {largest} elements",
        payload_op="linalg.matmul",
        expected=f"at most {_MOST}",
        remedy="Tile the op to a register tile before it is vectorized: some rows, some vectors of columns, and one k",
    )
    raise run.located(error, vectorizing[0] if vectorizing else None, name)


def _elements(kind: ir.Type) -> int:
    """How many elements a type has, if it is a vector's; scalable dimensions count by their least size."""
    return math.prod(kind.shape) if isinstance(kind, ir.VectorType) else 0
