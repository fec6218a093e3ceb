# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes out what a target has no instructions for: conversions of small floats, and functions of epilogues and prologues."""

from __future__ import annotations

from tilewright.lowering.run import run_passes
from tilewright.lowering.types import half_floats, math_functions, small_floats
from tilewright.mlir import ir
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def write(module: ir.Module, spec: MatmulSpec, target: Target) -> None:
    """Writes out the conversions of 8-bit floats, those of 16-bit ones that `target` has no instructions for, and functions.

    Raises:
        LoweringError: A pass failed.
    """
    with module.context:
        if small_floats.of(spec):
            small_floats.expand(module.operation, target)
        if half_floats.of(spec):
            half_floats.convert_by_f32(module.operation)
        missing = half_floats.to_expand(spec, target)
        if "f16" in missing:
            half_floats.expand_f16(module.operation)
        if "bf16" in missing:
            run_passes(module, half_floats.EXPAND_BF16, "llvm")
        if spec.has_entries:
            math_functions.expand(module.operation, target)
