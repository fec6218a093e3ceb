# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Brings operands and panels into the order of elements in which kernels read them."""

from __future__ import annotations

from tilewright.lowering import pipelines
from tilewright.lowering.passes import tile_panels, transposed_operands
from tilewright.lowering.run import payload_function, run_own_script
from tilewright.lowering.types import packed_elements
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def bring(module: ir.Module, function: func.FuncOp, spec: MatmulSpec, target: Target) -> None:
    """Takes operands of a bufferized `function` as they are stored, and gives its panels the order of the target's instructions.

    Transposed operands are read so, elements of less than a byte from bytes, panels hold the groups of narrow elements that an instruction
    multiplies at once, and those of tile registers tile after tile.
    """
    transposed_operands.take_as_stored(function)
    if packed_elements.of(spec):
        packed_elements.take_bytes(function, spec)
    if spec.widens or spec.split:
        run_own_script(module, pipelines.group_products(spec, target.dots(*spec.multiplied)), "bufferized")
    if target.dot(*spec.multiplied).is_tile:
        tile_panels.place(payload_function(module, "bufferized"))
