# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops over the elements of patches, split where a new row or column of the filter begins: no vector has parts of two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.lowering import numbers
from tilewright.lowering.numbers import Number
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, scf

if TYPE_CHECKING:
    from tilewright.lowering.patches import Patches, Read


def split(reads: Sequence[Read], flat: ir.Value, patches: Patches) -> list[Read]:
    """Splits the loops in which `reads` stand, and lets these read from the images; returns those for which it was possible.

    Before::

        for k in 0..depth step L: use(matrix[pixel, block + k : block + k + L])

    After, with channels a multiple of L, and block of channels::

        for tap in 0..depth / channels:
          inside = whether the place that tap of the filter meets is
          for c in 0..channels step L: use(images[place + c : place + c + L] if inside else 0)
    """
    loops: dict[ir.Operation, list[Read]] = {}
    for each in reads:
        around = each.op.parent
        if around is not None:
            loops.setdefault(around, []).append(each)
    done: list[Read] = []
    for loop, own in loops.items():
        if loop.name == "scf.for" and all(_fits(each, loop, patches) for each in own):
            with ir.InsertionPoint(loop), loop.location:
                _split(loop, own, flat, patches)
            done += own
    return done


def _known(value: Number) -> int | None:
    """What a value is, where that is known."""
    if isinstance(value, int):
        return value
    owner = value.owner if isinstance(value, ir.Value) else None
    if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "arith.constant":
        return ir.IntegerAttr(owner.operation.attributes["value"]).value
    return None


def _fits(read: Read, loop: ir.Operation, patches: Patches) -> bool:
    """Whether `read` reads a vector of one tap in each step of `loop`, which goes over whole taps."""
    kind = ir.VectorType(read.op.results[0].type)
    lanes, channels = kind.shape[-1], patches.channels
    first, last, step = (_known(each) for each in list(loop.operands)[:3])
    if len(kind.shape) != 1 or len(loop.results) or channels % lanes or first != 0 or step != lanes:
        return False
    if last is None or last % channels:
        return False
    variable = loop.regions[0].blocks[0].arguments[0]
    mine = [each for each in read.columns if isinstance(each, ir.Value) and each == variable]
    rest = [each for each in read.columns if not (isinstance(each, ir.Value) and each == variable)]
    return len(mine) == 1 and all(_is_multiple(each, channels) for each in rest)


def _is_multiple(number: Number, unit: int) -> bool:
    """Whether a number is surely a multiple of `unit`: known to be, or of a loop of such steps."""
    known = _known(number)
    if known is not None:
        return known % unit == 0
    if isinstance(number, ir.Value) and isinstance(number.owner, ir.Block):
        loop = number.owner.owner.operation
        if loop.name == "scf.for" and loop.regions[0].blocks[0].arguments[0] == number:
            first, _, step = (_known(each) for each in list(loop.operands)[:3])
            return first is not None and step is not None and first % unit == 0 and step % unit == 0
    return False


def _split(loop: ir.Operation, reads: Sequence[Read], flat: ir.Value, patches: Patches) -> None:
    """Makes the two loops in place of `loop`."""
    body = loop.regions[0].blocks[0]
    variable = body.arguments[0]
    depth, lanes = (_known(loop.operands[each]) or 0 for each in (1, 2))
    index = ir.IndexType.get()

    def constant(value: int) -> ir.Value:
        return arith.constant(index, value)

    patches_of = {each.op: patches.places(numbers.total([_outside(n, body, loop) for n in each.rows])) for each in reads}
    taps = scf.ForOp(constant(0), constant(depth // patches.channels), constant(1))
    with ir.InsertionPoint(taps.body):
        found = {}
        for each in reads:
            rest = [n for n in each.columns if not (isinstance(n, ir.Value) and n == variable)]
            first, _ = numbers.divided(numbers.total(rest), patches.channels)
            found[each.op] = _tap(numbers.plus(first, taps.induction_variable), patches_of[each.op], patches)
        vectors = scf.ForOp(constant(0), constant(patches.channels), constant(lanes))
        with ir.InsertionPoint(vectors.body):
            start = numbers.times(taps.induction_variable, patches.channels)
            k = numbers.scalar(numbers.plus(start, vectors.induction_variable))
            _copy(body, {variable: k}, found, flat, vectors.induction_variable)
            scf.YieldOp([])
        scf.YieldOp([])
    loop.erase()


def _outside(number: Number, body: ir.Block, loop: ir.Operation) -> Number:
    """A number that the loop's body uses, made before the loop where it is made in it."""
    if isinstance(number, int) or isinstance(number.owner, ir.Block) or number.owner.operation.block != body:  # type: ignore[union-attr]
        return number
    made = number.owner.operation.clone(ip=ir.InsertionPoint(loop))  # type: ignore[union-attr]
    return made.results[0]


def _tap(tap: Number, place: tuple[Number, Number, Number], patches: Patches) -> tuple[ir.Value, ir.Value]:
    """Where the channels of a tap start that a patch meets, 0 for one outside of the image; and whether it is inside."""
    image, top, left = place
    down, right = numbers.divided(tap, patches.filter[1])
    y = numbers.plus(top, numbers.times(down, patches.dilation[0]))
    x = numbers.plus(left, numbers.times(right, patches.dilation[1]))
    inside = arith.andi(*(numbers.is_below(at, end) for at, end in zip((y, x), patches.extents, strict=True)))
    steps = zip((image, y, x), patches.pitches, strict=False)
    start = numbers.total([numbers.times(each, pitch) for each, pitch in steps])
    return arith.select(inside, numbers.scalar(start), numbers.scalar(0)), inside


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
            read = numbers.loaded(kind, flat, numbers.plus(start, channel))
            values[op.results[0]] = arith.select(inside, read, numbers.zeros(kind))
            continue
        made = op.clone()
        for position, operand in enumerate(op.operands):
            if operand in values:
                made.operation.operands[position] = values[operand]
        for old, new in zip(op.results, made.operation.results, strict=True):
            values[old] = new
