# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The registry of decisions: the attribute that a schedule records on a product, a softmax or a convolution, and what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilewright.build.usedef import operations
from tilewright.codegen import block_products, bounds
from tilewright.codegen.attention import function as attention
from tilewright.codegen.convolution import depthwise
from tilewright.codegen.convolution.images import read_images
from tilewright.codegen.scalable import elementwise as scalable_elementwise
from tilewright.codegen.scalable import product as scalable
from tilewright.codegen.scaled_sums import product as scaled_sums
from tilewright.codegen.streaming import product as outer_products
from tilewright.codegen.streaming.functions import define
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.schedules import decisions
from tilewright.schedules.decisions import Decision, Depthwise, OnlineSoftmax, OuterProducts, ScalableTiles, ScaledSums
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

__all__ = ["CARRIERS", "WHOLE", "Carrier", "carry_out", "carry_out_whole", "define", "read_images"]


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

WHOLE: Mapping[type, Callable[[func.FuncOp, ir.Operation, Any, Target, int], int]] = MappingProxyType(
    {OnlineSoftmax: attention.expand, Depthwise: depthwise.expand}
)
"""What carries out decisions about a softmax, or a convolution, and all ops around it: takes function, op, decision, target and threads,
replaces the function on tensors by one on memrefs, and returns the bytes of scratch memory that this takes as its last argument; with
0 it takes none."""


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
    found = [op for op in operations(function.operation) if decisions.PRODUCT in op.attributes]
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
        (found[0],) = (op for op in operations(function.operation) if decisions.PRODUCT in op.attributes)
    bounds.check(found[0], spec, decision)
    carrier.expand(function, found[0], spec, target, decision)
    if carrier.blocks and target.scalable_bits:
        scalable_elementwise.vectorize(function)


def carry_out_whole(function: func.FuncOp, target: Target, threads: int) -> tuple[Decision, int]:
    """Replaces a function on tensors, of which one op carries a decision about all of it, by one on memrefs.

    Args:
        function: The function.
        target: For which target.
        threads: Between how many threads it is shared at most.

    Returns:
        What was decided, and the bytes of scratch memory that the function takes as its last argument.

    Raises:
        ScheduleError: Not one op carries such a decision, or it does not fit the ops around it or the target.
    """
    names = (decisions.SOFTMAX, decisions.CONVOLUTION)
    found = [(op, name) for op in operations(function.operation) for name in names if name in op.attributes]
    if len(found) != 1:
        raise ScheduleError(
            f"{len(found)} ops carry a decision about a softmax or a convolution",
            expected="one, which says how the function is computed",
            remedy="Let the schedule decide on it once, as the operator's own does: kernel.asm['schedule'] prints that",
        )
    op, name = found[0]
    decision = decisions.of(op, name)
    assert decision is not None, "it carries one"
    if type(decision) not in WHOLE:
        raise ScheduleError(
            f"a #tilewright.{decisions.mnemonic(type(decision))} is for GPUs", expected="a #tilewright.online_softmax"
        )
    with op.location:
        return decision, WHOLE[type(decision)](function, op, decision, target, threads)
