# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bufferizes a scheduled module: memrefs for tensors."""

from __future__ import annotations

from tilewright.build.usedef import named
from tilewright.lowering import pipelines
from tilewright.lowering.passes import unit_slices
from tilewright.lowering.run import run_own_script, run_passes
from tilewright.mlir import ir


def to_memrefs(module: ir.Module) -> None:
    """Bufferizes a scheduled module.

    Raises:
        LoweringError: It failed.
    """
    run_passes(module, pipelines.OPAQUE_INDICES, "bufferized")
    unit_slices.split(module.operation)
    with module.context:
        script = pipelines.bufferize(empties=bool(named(module.operation, "tensor.empty")))
        run_own_script(module, script, "bufferized")
