# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `tensor_memory` as a row of the table of strategies: what it does, with which sizes, and how."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.gpu.mma_types import as_stored
from tilewright.codegen.gpu.tensor_products import TYPES
from tilewright.codegen.gpu.tensor_roles import Quarters, TensorRoles
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.codegen.gpu.warpgroup import MOST_BATCH_AXES
from tilewright.mlir import ir
from tilewright.schedules.gpu.tensor_memory import TensorMemoryTile
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def does(spec: MatmulSpec, target: GpuTarget) -> bool:
    """Elements of 8 and 16 bits, and of 32 that may be shortened, in every layout, all as they are stored."""
    types = _types(spec, target)
    # Rows that are not aligned take another strategy, whose sums are of another order.
    other = spec.products > 1 or spec.gathers or spec.deterministic
    return types is not None and not other and len(spec.batch_axes) <= MOST_BATCH_AXES


def share(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: TensorMemoryTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    """Makes the loop over blocks the code of a thread; returns the boxes in which operands are copied."""
    types = _types(spec, target)
    assert types is not None, "the strategy does it"
    shared = TensorRoles(loop, Quarters(sizes), types, boxes_of_c=boxed)
    shared.run()
    return shared.boxes


def _types(spec: MatmulSpec, target: GpuTarget) -> tuple[str, str] | None:
    """What instructions multiply of A and B, of one kind, as they are stored; None where a prologue computes something else."""
    names = as_stored(spec, target)
    if names is None or not set(names) <= set(TYPES) or TYPES[names[0]].kind != TYPES[names[1]].kind:
        return None
    return names
