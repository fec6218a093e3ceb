# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops over the elements of patches, split where a new row or column of the filter begins: no vector has parts of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tilewright.build.constants import zero
from tilewright.build.index import Number, add, known, less, mul, total, value
from tilewright.build.loops import loop as loop_
from tilewright.build.usedef import copied, erase, is_innermost
from tilewright.codegen.patch_layout import Patches, Read
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, vector


def split(reads: Sequence[Read], flat: ir.Value, patches: Patches) -> list[Read]:
    """Splits the loops in which `reads` stand, and lets these read from the images; returns those for which it was not possible.

    Before::

        for k in 0..depth step L: use(matrix[pixel, block + k : block + k + L])

    After, with unit a divisor of depth, block and channels that is a multiple of L::

        for part in 0..depth / unit:
          inside = whether the place that the part's row and column of the filter meet is
          for c in 0..unit step L: use(images[place + c : place + c + L] if inside else 0)
    """
    loops: dict[ir.Operation, list[Read]] = {}
    for each in reads:
        around = each.op.parent
        if around is not None:
            loops.setdefault(around, []).append(each)
    left: list[Read] = []
    for loop, own in loops.items():
        units = [_unit(each, loop, patches) for each in own] if is_innermost(loop) else [0]
        unit = gcd(*units) if all(units) else 0
        if unit and all(unit % _lanes(each) == 0 for each in own):
            with ir.InsertionPoint(loop), loop.location:
                _split(loop, own, unit, flat, patches)
        else:
            left += own
    return left


def _lanes(read: Read) -> int:
    return ir.VectorType(read.op.results[0].type).shape[-1]


def _unit(read: Read, loop: ir.Operation, patches: Patches) -> int:
    """A divisor of where `read` starts to read in a step of `loop`, of the loop's length and of the channels; 0 for none."""
    first, last, step = (known(each) for each in list(loop.operands)[:3])
    if ir.VectorType(read.op.results[0].type).rank != 1:
        return 0
    if first != 0 or last is None or step != _lanes(read):
        return 0
    variable = loop.regions[0].blocks[0].arguments[0]
    mine = [each for each in read.columns if isinstance(each, ir.Value) and each == variable]
    rest = [each for each in read.columns if not (isinstance(each, ir.Value) and each == variable)]
    return gcd(patches.channels, last, *(_divisor(each) for each in rest)) if len(mine) == 1 else 0


def _divisor(number: Number) -> int:
    """What surely divides a number: itself where it is known, the step of a loop that it counts."""
    constant = known(number)
    if constant is not None:
        return constant
    if isinstance(number, ir.Value) and isinstance(number.owner, ir.Block):
        loop = number.owner.owner.operation
        if loop.name == "scf.for" and loop.regions[0].blocks[0].arguments[0] == number:
            first, _, step = (known(each) for each in list(loop.operands)[:3])
            return gcd(first, step) if first is not None and step is not None else 1
    return 1


def _split(loop: ir.Operation, reads: Sequence[Read], unit: int, flat: ir.Value, patches: Patches) -> None:
    """Makes the two loops in place of `loop`."""
    body = loop.regions[0].blocks[0]
    variable = body.arguments[0]
    depth, lanes = (known(loop.operands[each]) or 0 for each in (1, 2))
    patches_of = {each.op: patches.places(total([_outside(n, body, loop) for n in each.rows])) for each in reads}
    with loop_(0, depth // unit, 1) as (part, _, _):
        found = {}
        start = mul(part, unit)
        for each in reads:
            rest = [n for n in each.columns if not (isinstance(n, ir.Value) and n == variable)]
            first = add(total(rest), start)
            found[each.op] = _tap(first, patches_of[each.op], patches, depth <= patches.depth and not rest)
        with loop_(0, unit, lanes) as (channel, _, _):
            _copy(body, {variable: value(add(start, channel))}, found, flat, channel)
    erase(loop)


def _outside(number: Number, body: ir.Block, loop: ir.Operation) -> Number:
    """A number that the loop's body uses, made before the loop where it is made in it."""
    if isinstance(number, int) or isinstance(number.owner, ir.Block) or number.owner.operation.block != body:  # type: ignore[union-attr]
        return number
    made = number.owner.operation.clone(ip=ir.InsertionPoint(loop))  # type: ignore[union-attr]
    return made.results[0]


def _tap(k: Number, place: tuple[Number, Number, Number], patches: Patches, fits: bool) -> tuple[ir.Value, ir.Value]:
    """Where the element k of a patch, which surely `fits` or not, lies, 0 for one outside of the image; and whether it is inside."""
    image, top, left = place
    down, right, channel = patches.taps(k)
    y = add(top, mul(down, patches.dilation[0]))
    x = add(left, mul(right, patches.dilation[1]))
    inside = arith.andi(*(less(at, end) for at, end in zip((y, x), patches.extents, strict=True)))
    if not fits:  # The last block is filled up.
        inside = arith.andi(inside, less(down, patches.filter[0]))
    start = patches.offset(image, y, x, channel)
    return arith.select(inside, value(start), value(0)), inside


def _copy(
    body: ir.Block,
    values: dict[ir.Value, ir.Value],
    found: dict[ir.Operation, tuple[ir.Value, ir.Value]],
    flat: ir.Value,
    channel: ir.Value,
) -> None:
    """Copies the ops of `body`, but for those that are `found` and its last, to the current place."""
    for op in [each.operation for each in body.operations][:-1]:
        if op in found:
            start, inside = found[op]
            kind = ir.VectorType(op.results[0].type)
            read = vector.load(kind, flat, [value(add(start, channel))])
            values[op.results[0]] = arith.select(inside, read, zero(kind))
            continue
        copied(op, values)
