# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `warpgroup` as a row of the table of strategies: what it does, with which sizes, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.codegen.gpu import grouped
from tilewright.codegen.gpu.gathering_groups import GatheringGroups
from tilewright.codegen.gpu.mma_types import as_stored
from tilewright.codegen.gpu.tma_tiles import Box
from tilewright.codegen.gpu.warp_group_fragments import WarpGroups
from tilewright.codegen.gpu.warpgroups import Specialized
from tilewright.codegen.gpu.weight_groups import WeightGroups
from tilewright.codegen.gpu.wgmma import TYPES
from tilewright.mlir import ir
from tilewright.schedules.gpu.warpgroup import MOST_PRODUCTS, WarpGroupTile, makes_weights
from tilewright.spec import MatmulSpec
from tilewright.targets.gpu import GpuTarget

MOST_BATCH_AXES = 3
"""Axes that a tensor map has beside those of a matrix."""


def does(spec: MatmulSpec, target: GpuTarget) -> bool:
    """Elements of 16 bits in every layout; others where they lie along K: only of the former instructions take both orders."""
    types = _types(spec, target) or _of_weights(spec)
    # Rows that are not aligned take another strategy, whose sums are of another order.
    if types is None or spec.products > MOST_PRODUCTS or spec.deterministic or len(spec.batch_axes) > MOST_BATCH_AXES:
        return False
    return spec.a_stored.bits == 16 or spec.layout == "nt"


def share(
    loop: ir.Operation, spec: MatmulSpec, target: GpuTarget, sizes: WarpGroupTile, aligned: bool, boxed: bool
) -> Sequence[Box]:
    """Makes the loop over blocks the code of a thread; returns the boxes in which operands are copied."""
    types, of_weights = _types(spec, target), _of_weights(spec)
    if types is not None:
        kind = GatheringGroups if spec.gathers else Specialized
        shared = kind(loop, WarpGroups(sizes), types, boxes_of_c=boxed)
    else:
        assert of_weights is not None, "the strategy does it"
        shared = WeightGroups(loop, WarpGroups(sizes), of_weights, grouped.of(spec), boxes_of_c=boxed)
    shared.run()
    return shared.boxes


def _types(spec: MatmulSpec, target: GpuTarget) -> tuple[str, str] | None:
    """PTX's names of what instructions multiply of A and B as they are stored; None where a prologue computes something else."""
    names = as_stored(replace(spec, prologue_a=spec.prologue_a[1:]) if spec.gathers else spec, target)
    if names is None or not set(names) <= set(TYPES):
        return None
    return TYPES[names[0]], TYPES[names[1]]


def _of_weights(spec: MatmulSpec) -> tuple[str, str] | None:
    """The same where consumers make B of what is stored (`held_weights`)."""
    kind = spec.a_type.name
    return (TYPES[kind], TYPES[kind]) if makes_weights(spec) else None
