# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out `#tilewright.patches`: a bufferized product reads a matrix of patches, one of its operands, from the images.

Where its schedule has `tilewright.images`, tiles read copies of these; otherwise packing reads them.
"""

from __future__ import annotations

from tilewright.codegen.convolution import in_place, padded_images, patches
from tilewright.codegen.patch_layout import Patches
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import func
from tilewright.payload.abi import ENTRY
from tilewright.payload.conv2d import PATCHES
from tilewright.schedules import decisions
from tilewright.schedules.models import image_copies
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def read(module: ir.Module, spec: MatmulSpec, target: Target) -> dict[int, tuple[int, ...]]:
    """Lets the product of a module read images, where its function says that an operand is their patches.

    Args:
        module: The bufferized product, which is changed.
        spec: What it computes.
        target: For which target.

    Returns:
        By number of an operand that the function does not take any more, the shape of the images that it takes for it.

    Raises:
        ScheduleError: The schedule does not read the operand in vectors.
    """
    functions = [op for op in module.body if isinstance(op, func.FuncOp)]
    (function,) = (op for op in functions if op.name.value == ENTRY)
    if PATCHES not in function.attributes:
        return {}
    operand, found = Patches.of(function.attributes[PATCHES])
    if operand >= len(function.arguments):
        raise ScheduleError(f"operand {operand} is a matrix of patches", expected=f"one of {len(function.arguments)}")
    for each in functions:
        if PATCHES in each.attributes:
            del each.attributes[PATCHES]
    dot, rows = target.dot(spec.a_type.name, spec.b_type.name), decisions.strategy_size(function.operation, "mr")
    if found.are_rows_as_they_lie:
        if not dot.is_tile:  # Panels of these have another order.
            in_place.read(module, spec)
        return {}
    # Tile registers, and multiply-adds by lane, take loops over K of a known length.
    tile = (rows, dot.step) if rows and not dot.is_tile and not target.by_lane else None
    patches.read(module, operand, found, len(spec.operands), tile, masked=target.masks(spec.a_type.bits))
    return {operand: found.shape}


def read_images(function: func.FuncOp, spec: MatmulSpec, target: Target) -> None:
    """Lets the product of a bufferized function read patches in copies of the images, if its schedule says so.

    Raises:
        ScheduleError: It cannot.
    """
    copies = decisions.number(function.operation, "images", image_copies.NONE)
    if copies not in image_copies.COPIED:
        return
    is_read = False
    if PATCHES in function.attributes:
        operand, patches = Patches.of(function.attributes[PATCHES])
        blocks = copies == image_copies.BLOCKS
        tiles, lanes = target.dot(*spec.multiplied).is_tile, target.lanes(spec.a_type)
        is_read = operand == 0 and padded_images.read(function, patches, lanes, blocks=blocks, tiles=tiles)
    if not is_read:
        raise ScheduleError(
            f"images is {copies}",
            where="schedule parameters",
            expected="0 of this product: it reads no patches, or not in whole rows of the filter and of the result",
            remedy="Leave images, mc and kc to the model",
        )
