# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The registry of decisions about products: the attribute that a schedule records, and what carries it out on memrefs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.codegen import bounds
from tilewright.errors import ScheduleError
from tilewright.lowering import block_products, outer_products, scalable, scalable_elementwise, scaled_sums
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.schedules import decisions
from tilewright.schedules.decisions import OuterProducts, ScalableTiles, ScaledSums
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


@dataclass(frozen=True, slots=True)
class Carrier:
    """What carries out one kind of decision.

    Attributes:
        require: Raises `ScheduleError` where the target or the spec does not allow the decision; takes spec, target and decision.
        expand: Replaces the product; takes the function, the product, spec, target and decision.
        blocks: Whether the product is one of blocks, whose slices leave the loops that they do not depend on first.
    """

    require: Callable[[MatmulSpec, Target, Any], object]
    expand: Callable[[func.FuncOp, ir.Operation, MatmulSpec, Target, Any], None]
    blocks: bool


CARRIERS: Mapping[type, Carrier] = MappingProxyType(
    {
        ScalableTiles: Carrier(scalable.require, scalable.expand, blocks=True),
        OuterProducts: Carrier(outer_products.require, outer_products.call, blocks=True),
        ScaledSums: Carrier(scaled_sums.require, scaled_sums.expand, blocks=False),
    }
)


def carry_out(function: func.FuncOp, spec: MatmulSpec, target: Target, run_passes: Callable[[str], None]) -> None:
    """Replaces the product of a bufferized function that carries a decision, if one does.

    Args:
        function: The function, which is changed.
        spec: What it computes.
        target: For which target.
        run_passes: Runs a pipeline on the function's module.

    Raises:
        ScheduleError: Several products carry decisions, or the decision does not fit the target, the spec or the blocks.
    """
    found = [op for op in block_products.walk(function.operation) if decisions.PRODUCT in op.attributes]
    if not found:
        return
    if len(found) > 1:
        raise ScheduleError(
            f"{len(found)} products carry a decision",
            expected="one product a function",
            remedy="Decide after tiling, once",
        )
    decision = decisions.of(found[0], decisions.PRODUCT)
    assert decision is not None, "it carries one"
    carrier = CARRIERS[type(decision)]
    carrier.require(spec, target, decision)
    if carrier.blocks:
        run_passes(block_products.HOIST)
        (found[0],) = (op for op in block_products.walk(function.operation) if decisions.PRODUCT in op.attributes)
    bounds.check(found[0], spec, decision)
    carrier.expand(function, found[0], spec, target, decision)
    if carrier.blocks and target.scalable_bits:
        scalable_elementwise.vectorize(function)
