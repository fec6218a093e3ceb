# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Leaves out of the sums of a register tile the rows of the filter that meet nothing but padding.

Upstream has no pass for it: there, padding is numbers as any others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from tilewright.build.affine import terms
from tilewright.build.index import Number, add, div, div_rem, mul, signed_max, signed_min, total, value
from tilewright.build.usedef import definition, is_below
from tilewright.build.views import offsets_of
from tilewright.codegen.patch_layout import Patches
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func

_VALUES = ("arith.", "vector.", "math.")
"""Ops between the sums and where they are written."""


def skip(
    function: func.FuncOp, result: int, patches: Patches, counted: Sequence[ir.Value], tile: tuple[int, int]
) -> None:
    """Starts and ends the loops over K of each register tile where the rows of the filter begin and end to meet the image.

    Before::

        for k in 0..kc step t: acc += a[:, k] * b[k, :]

    After, a tile having pixels of the rows `first` to `last` of the result, and a block of K beginning at `pc`::

        for k in max(begin(last) - pc, 0)..min(end(first) - pc, kc) step t: acc += a[:, k] * b[k, :]

    Packed panels hold zeros for what is left out, so that the sums are the same.

    Args:
        function: The bufferized function of the product, whose rows are pixels.
        result: Which of its arguments is the result.
        patches: What its first operand is made of.
        counted: The variables of loops over K: over its blocks, and those that only pack.
        tile: Rows of a register tile, and the elements of K that a step of its loop takes.
    """
    seen: list[ir.Operation] = []
    for write, rows in list(writes(function.arguments[result], ())):
        loop = product_loop(write.operands[0])
        if loop is None or loop in seen or any(isinstance(n, ir.Value) and definition(n) for n in rows):
            continue
        seen.append(loop)
        around = [each for each in counted if is_below(loop, ir.BlockArgument(each).owner.owner.operation)]
        with ir.InsertionPoint(loop), loop.location:
            _bound(loop, total(rows), total(around), patches, tile)


def writes(view: ir.Value, rows: tuple[Number, ...] = ()) -> Iterator[tuple[ir.Operation, tuple[Number, ...]]]:
    """The writes to a view of the result that starts at these rows."""
    for use in view.uses:
        op = use.owner.operation
        if op.name == "memref.subview":
            yield from writes(op.results[0], (*rows, *terms(offsets_of(op)[0])))
        elif op.name == "vector.transfer_write":
            yield op, (*rows, *terms(op.operands[2]))


def product_loop(value: ir.Value) -> ir.Operation | None:
    """The loop over K whose sums are made into `value`."""
    work = [value]
    while work:
        op = definition(work.pop())
        if op is not None and op.name == "scf.for":
            inside = [each.operation.name for each in op.regions[0].blocks[0].operations]
            return op if "vector.contract" in inside else None
        if op is not None and op.name.startswith(_VALUES):
            work += list(op.operands)
    return None


def _bound(loop: ir.Operation, pixel: Number, block: Number, patches: Patches, tile: tuple[int, int]) -> None:
    """Gives `loop` its new bounds."""
    rows, step = tile
    row = patches.filter[1] * patches.channels
    begin, end = met(pixel, patches, rows)
    begin = mul(div(mul(begin, row), step), step)
    end = mul(quotient(mul(end, row), step), step)
    minus = mul(block, -1)
    loop.operands[0] = value(signed_max(add(begin, minus), 0))
    loop.operands[1] = value(signed_min(add(end, minus), loop.operands[1]))


def met(pixel: Number, patches: Patches, rows: int) -> tuple[Number, Number]:
    """From which row of the filter to which one it meets the images, for any of so many pixels from `pixel` on."""
    images, size = patches.shape[0], prod(patches.results)
    ends = [div_rem(at, size) for at in (pixel, signed_min(add(pixel, rows - 1), images * size - 1))]
    first, last = (mul(div(inside, patches.results[1]), -patches.stride[0]) for _, inside in ends)
    dilation, (above, _) = patches.dilation[0], patches.before
    # Rows of the filter above the image for the last row, and until below it for the first.
    begin = quotient(add(last, above), dilation)
    end = quotient(add(first, above + patches.extents[0]), dilation)
    begin, end = (signed_min(signed_max(each, 0), patches.filter[0]) for each in (begin, end))
    if images > 1:
        alike = arith.cmpi(arith.CmpIPredicate.eq, *(value(image) for image, _ in ends))
        begin = arith.select(alike, value(begin), value(0))
        end = arith.select(alike, value(end), value(patches.filter[0]))
    return begin, end


def quotient(number: Number, divisor: int) -> Number:
    """The quotient rounded up, or what is below one where the number is below zero."""
    if divisor == 1:
        return number
    return div(signed_max(add(number, divisor - 1), 0), divisor)
