# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that a product's blocks are no larger than its decision says, so that no panel is written past its end."""

from __future__ import annotations

from dataclasses import asdict

from tilewright.build.usedef import definition
from tilewright.codegen import block_products
from tilewright.dims import most
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.schedules.decisions import Decision, ScaledSums
from tilewright.spec import MatmulSpec

_PLACES = {"m": (0, 0), "n": (1, 1), "k": (0, 1)}
"""The operand, and the dimension of it, that has each extent of a product."""


def check(product: ir.Operation, spec: MatmulSpec, decision: Decision) -> None:
    """Checks the extents of a bufferized product of blocks.

    Raises:
        ScheduleError: A block may be larger than the decision says, or, of a decision about whole products, it is a block.
    """
    sizes = asdict(decision)
    for extent, (operand, dimension) in _PLACES.items():
        value = block_products.extent(product.operands[operand], dimension)
        bound = _most(value, most(getattr(spec, extent)))
        if isinstance(decision, ScaledSums):
            if bound != getattr(spec, extent):
                raise ScheduleError(
                    f"a block of {extent} = {bound}",
                    where="scaled_sums",
                    expected=f"all {getattr(spec, extent)}: it is not tiled",
                )
        elif bound > sizes[f"{extent}c"]:
            raise ScheduleError(
                f"a block has up to {bound} along {extent}",
                where=f"{extent}c",
                expected=f"at most the {sizes[f'{extent}c']} that are decided",
                remedy="Tile so, or decide on larger blocks",
            )


def _most(value: int | ir.Value, whole: int) -> int:
    """The most that an extent of a block can be, of `whole` where nothing smaller is known."""
    if isinstance(value, int):
        return value
    maker = definition(value)
    if maker is None or maker.name not in ("affine.min", "arith.constant"):
        return whole
    if maker.name == "arith.constant":
        return ir.IntegerAttr(maker.attributes["value"]).value
    results = ir.AffineMapAttr(maker.attributes["map"]).value.results
    constants = [each.value for each in results if isinstance(each, ir.AffineConstantExpr)]
    return min([*constants, whole])
