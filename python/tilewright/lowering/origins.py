# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds whose schedule a scheduled module had."""

from __future__ import annotations

from tilewright.lowering.run import payload_function
from tilewright.mlir import ir
from tilewright.schedules import origin as origin_
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def origin_of(schedule: ir.Module, module: ir.Module, spec: MatmulSpec, target: Target) -> str:
    """The strategy whose schedule a scheduled module had, where that matters: where B comes packed. Otherwise empty."""
    return origin_.of(schedule, payload_function(module, "scheduled").operation, spec, target) if spec.b_packed else ""
