# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup` as a row of the table of strategies: what it does, with which sizes, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.lowering.gpu.boxes import Box
from tilewright.lowering.gpu.warpgroups import Specialised, WarpGroups
from tilewright.lowering.gpu.wgmma import TYPES
from tilewright.mlir import ir
from tilewright.schedules.block_tile import with_sizes
from tilewright.schedules.warpgroup import ROW_BYTES, WarpGroupTile
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget


def does(spec: MatmulSpec, target: GpuTarget) -> bool:
    """Elements of 16 bits in every layout; bytes where they lie along K."""
    known = spec.a in TYPES and spec.b_type.name in TYPES
    # Rows that are not aligned take another strategy, whose sums are of another order.
    if spec.batch_axes or spec.prologue_a or spec.prologue_b or spec.deterministic:
        return False
    return known and (spec.a_type.bits == 16 or spec.layout == "nt")  # noqa: PLR2004 - what the instruction transposes


def sizes(spec: MatmulSpec, given: Mapping[str, int]) -> WarpGroupTile:
    """The sizes for a product, with some given by name."""
    return with_sizes(WarpGroupTile, {"bk": ROW_BYTES * 8 // spec.a_type.bits, **given})


def share(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: WarpGroupTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    """Makes the loop over blocks the code of a thread; returns the boxes in which operands are copied."""
    shared = Specialised(loop, WarpGroups(sizes), (spec.a, spec.b_type.name), boxes_of_c=boxed)
    shared.run()
    return shared.boxes
