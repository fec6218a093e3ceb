# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out `#tilewright.depthwise`: a depthwise convolution of images in NHWC, in vectors of channels.

Upstream's vectorization of ``linalg.depthwise_conv_2d_nhwc_hwc`` takes images whose padding is there, which would be a copy of them: here a
pixel whose patch lies inside of the image reads it as it is, and others ask for each element of the filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Number, add, less, mul, value
from tilewright.build.loops import if_else, loop
from tilewright.build.vectors import elementwise, fixed
from tilewright.build.views import reinterpreted
from tilewright.codegen.convolution import problem, short_runs
from tilewright.codegen.convolution.problem import Depthwise
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, vector
from tilewright.schedules import decisions
from tilewright.targets.base import Target

_CONTRACT = "#arith.fastmath<contract>"
"""Lets a multiplication and an addition be one instruction, where there is one."""
Tap = tuple[Number, ir.Value | None]
"""Where the channels of an element of the filter start in the images, and whether it is inside of one where that is asked."""


def expand(
    function: func.FuncOp, convolution: ir.Operation, decision: decisions.Depthwise, target: Target, threads: int
) -> int:
    """Replaces a function on tensors by one on memrefs: its arguments without gaps, of which the last one is the result.

    Its loops, of which those over the filter are unrolled::

        for image, i, j in the result:
          for c in 0..channels step L:
            acc = 0
            for u, v in the filter: acc += x[image, i·s + u·d - p, j·s + v·d - p, c:c+L] * w[u, v, c:c+L]
            y[image, i, j, c:c+L] = epilogue(acc)

    Args:
        function: The function, which computes nothing but the chain around `convolution`.
        convolution: The convolution that carries the decision.
        decision: How many channels a vector has.
        target: For which target.
        threads: Any number: one thread computes it.

    Returns:
        The bytes of scratch memory: none.

    Raises:
        ScheduleError: The ops around the convolution are no such chain, or a vector does not fit into the registers.
    """
    found = problem.read(function, convolution)
    most = target.vector_registers * target.vector_bits // bits_of(found.sums)
    if decision.channels > most:
        expected = f"at most {most}, which fill the registers of {target.name}"
        raise ScheduleError(f"vectors of {decision.channels} channels", where="depthwise", expected=expected)
    with ir.InsertionPoint(function.operation):
        made = func.FuncOp(
            function.name.value, ir.FunctionType.get([_memref(each) for each in function.type.inputs], [])
        )
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        flat = [_row_of(each) for each in block.arguments]
        _Loops(found, flat).build(decision.channels)
        func.ReturnOp([])
    function.operation.erase()
    return 0


def _memref(tensor: ir.Type) -> ir.MemRefType:
    kind = ir.RankedTensorType(tensor)
    return ir.MemRefType.get(
        kind.shape, kind.element_type, ir.StridedLayoutAttr.get(0, problem.compact(list(kind.shape)))
    )


def _row_of(operand: ir.Value) -> ir.Value:
    """An operand as one row of elements."""
    size = prod(ir.MemRefType(operand.type).shape)
    kind = ir.MemRefType.get([size], ir.MemRefType(operand.type).element_type)
    return reinterpreted(kind, operand)


class _Loops:
    """Builds the loops."""

    def __init__(self, found: Depthwise, flat: Sequence[ir.Value]) -> None:
        self._found = found
        self._patches = found.patches
        self._x, self._w, self._out = flat[found.x], flat[found.w], flat[-1]
        self._further = [flat[each.number] for each in found.further]

    def build(self, lanes: int) -> None:
        """Builds them at the current insertion point, for vectors of so many elements."""
        patches = self._patches
        images, channels = patches.shape[0], patches.channels
        whole, rest = channels // lanes * lanes, channels % lanes

        def run(at: ir.Value, place: tuple[Number, Number, Number], *, checked: bool) -> None:
            taps = self._taps(place, checked=checked)
            if whole:
                with loop(0, whole, lanes) as (c, _, _):
                    self._channels(at, c, taps, lanes)
            if rest:
                self._channels(at, whole, taps, rest)

        with loop(0, images * prod(patches.results), 1) as (at, _, _):
            place = patches.places(at)
            inside = short_runs.all_inside(at, *place[1:], patches)
            if_else(inside, lambda: run(at, place, checked=False), lambda: run(at, place, checked=True))

    def _taps(self, place: tuple[Number, Number, Number], *, checked: bool) -> list[Tap]:
        """Each element of the filter, for the pixel whose patch starts there."""
        found: list[Tap] = []
        patches, (image, top, left) = self._patches, place
        first = patches.offset(image, top, left, 0)
        rows, columns = patches.filter
        for steps in (
            (down * patches.dilation[0], right * patches.dilation[1])
            for down in range(rows)
            for right in range(columns)
        ):
            start = add(first, patches.offset(0, *steps, 0))
            if not checked:
                found.append((start, None))
                continue
            places = zip((top, left), steps, patches.extents, strict=True)
            inside = arith.andi(*(less(add(at, step), end) for at, step, end in places))
            found.append((arith.select(inside, value(start), value(0)), inside))
        return found

    def _channels(self, pixel: ir.Value, c: Number, taps: Sequence[Tap], lanes: int) -> None:
        """The sums of some channels of one pixel, and what the epilogue makes of them."""
        channels = self._patches.channels
        sums = fixed(lanes, self._found.sums)
        total = zero(sums)
        for number, (start, inside) in enumerate(taps):
            given = self._read(self._x, add(start, c), lanes)
            if inside is not None:
                given = arith.select(inside, given, zero(given.type))
            weight = self._read(self._w, add(number * channels, c), lanes)
            wide = [_widened(each, by, sums) for each, by in zip((given, weight), self._found.widening, strict=True)]
            total = _added(total, *wide)
        place = add(mul(pixel, channels), c)
        vector.store(self._finished(total, place, c), self._out, [value(place)])

    def _read(self, flat: ir.Value, start: Number, lanes: int) -> ir.Value:
        return vector.load(fixed(lanes, ir.MemRefType(flat.type).element_type), flat, [value(start)])

    def _finished(self, total: ir.Value, place: Number, c: Number) -> ir.Value:
        """What the epilogue makes of the sums of the result's elements from `place` on, whose channels start at `c`."""
        body, lanes = self._found.epilogue, ir.VectorType(total.type).shape[0]
        if body is None:
            return total
        given = []
        for flat, each in zip(self._further, self._found.further, strict=True):
            if each.axes:
                given.append(self._read(flat, c if len(each.axes) == 1 else place, lanes))
            else:
                element = ir.MemRefType(flat.type).element_type
                given.append(vector.broadcast(fixed(lanes, element), memref.load(flat, [value(0)])))
        return elementwise(body, [total, *given], lambda element: fixed(lanes, element))


def _widened(number: ir.Value, by: str, sums: ir.VectorType) -> ir.Value:
    """A vector of elements in the type of the sums."""
    return ir.Operation.create(by, results=[sums], operands=[number]).results[0] if by else number


def _added(total: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
    """The sum with the product of x and y added."""
    if isinstance(ir.VectorType(total.type).element_type, ir.IntegerType):
        return arith.addi(total, arith.muli(x, y))
    fused = ir.Attribute.parse(_CONTRACT)
    return arith.addf(total, arith.mulf(x, y, fastmath=fused), fastmath=fused)
