# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Carries out `#tilewright.depthwise`: a depthwise convolution of images in NHWC, in vectors of channels.

Upstream's vectorization of ``linalg.depthwise_conv_2d_nhwc_hwc`` takes images whose padding is there, which would be a copy of them: here
rows and columns of the filter that meet padding are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from operator import itemgetter

from tilewright.build.constants import bits_of, zero
from tilewright.build.index import Index, add, mul, signed_max, signed_min, value
from tilewright.build.loops import loop
from tilewright.build.vectors import elementwise, fixed
from tilewright.build.views import reinterpreted
from tilewright.codegen.convolution import problem, skipped_rows
from tilewright.codegen.convolution.problem import Depthwise
from tilewright.errors import ScheduleError
from tilewright.mlir import ir
from tilewright.mlir.dialects import arith, func, memref, scf, vector
from tilewright.schedules import decisions
from tilewright.targets.base import Target

_CONTRACT = "#arith.fastmath<contract>"
"""Lets a multiplication and an addition be one instruction, where there is one."""
_LOOPED = 3
"""Runs of pixels that meet the image alike from which on they are in a loop."""
_Taps = tuple[tuple[int, int, int], ...]
"""A column of an image, counted from the first that a run meets; a pixel of the run; the column of the filter with which it meets it."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighboring pixels of a row of the result.

    Attributes:
        first: The first one.
        pixels: How many.
        taps: What meets a column inside of the image, by columns.
    """

    first: Index
    pixels: int
    taps: _Taps


def expand(
    function: func.FuncOp, convolution: ir.Operation, decision: decisions.Depthwise, target: Target, threads: int
) -> int:
    """Replaces a function on tensors by one on memrefs: its arguments without gaps, of which the last one is the result.

    Its loops, of which those over P pixels and the columns of the filter are unrolled. Each element of an image that a row of the filter
    meets is read once for all pixels; of the first and last pixels of a row, columns outside of the image are left out::

        for image, i in the result:
          for j in 0..columns of the result step P:
            for c in 0..channels step L:
              acc[0:P] = 0
              for u in the rows of the filter that meet the image:
                for v, p: acc[p] += x[image, i·s + u·d - top, (j+p)·s + v·d - left, c:c+L] * w[u, v, c:c+L]
              for p: y[image, i, j+p, c:c+L] = epilogue(acc[p])

    Args:
        function: The function, which computes nothing but the chain around `convolution`.
        convolution: The convolution that carries the decision.
        decision: How many channels a vector has, and of how many pixels sums are in registers.
        target: For which target.
        threads: Any number: one thread computes it.

    Returns:
        The bytes of scratch memory: none.

    Raises:
        ScheduleError: The ops around the convolution are no such chain, or a vector does not fit into the registers.
    """
    found = problem.read(function, convolution)
    most = target.vector_registers * target.vector_bits // bits_of(found.sums)
    if decision.channels * decision.pixels > most:
        what = f"vectors of {decision.channels} channels" + (
            f" for {decision.pixels} pixels" if decision.pixels > 1 else ""
        )
        expected = f"at most {most} sums, which fill the registers of {target.name}"
        raise ScheduleError(what, where="depthwise", expected=expected)
    with ir.InsertionPoint(function.operation):
        made = func.FuncOp(
            function.name.value, ir.FunctionType.get([_memref(each) for each in function.type.inputs], [])
        )
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        flat = [_row_of(each) for each in block.arguments]
        _Loops(found, flat).build(decision)
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

    def build(self, decision: decisions.Depthwise) -> None:
        """Builds them at the current insertion point."""
        patches = self._patches
        rows, columns = patches.results
        with loop(0, patches.shape[0], 1) as (image, _, _), loop(0, rows, 1) as (i, _, _):
            whole = columns // decision.pixels * decision.pixels
            for taps, runs in groupby(range(0, whole, decision.pixels), lambda at: self._taps(at, decision.pixels)):
                starts = list(runs)
                if len(starts) < _LOOPED:
                    for start in starts:
                        self._run(image, i, _Run(start, decision.pixels, taps), decision.channels)
                else:
                    with loop(starts[0], starts[-1] + 1, decision.pixels) as (j, _, _):
                        self._run(image, i, _Run(j, decision.pixels, taps), decision.channels)
            if rest := columns - whole:
                self._run(image, i, _Run(whole, rest, self._taps(whole, rest)), decision.channels)

    def _taps(self, first: int, pixels: int) -> _Taps:
        """What meets a column inside of the image, for so many pixels from `first` on."""
        patches = self._patches
        left = first * patches.stride[1] - patches.before[1]
        met = (
            (p * patches.stride[1] + v * patches.dilation[1], p, v)
            for p in range(pixels)
            for v in range(patches.filter[1])
        )
        return tuple(sorted(each for each in met if 0 <= left + each[0] < patches.extents[1]))

    def _run(self, image: ir.Value, i: ir.Value, run: _Run, lanes: int) -> None:
        """The results of neighboring pixels."""
        patches = self._patches
        top = add(mul(i, patches.stride[0]), -patches.before[0])
        # Rows of the filter before the image begins, and until it ends.
        begin = skipped_rows.quotient(mul(top, -1), patches.dilation[0])
        end = skipped_rows.quotient(add(mul(top, -1), patches.extents[0]), patches.dilation[0])
        bounds = signed_max(begin, 0), signed_min(end, patches.filter[0])
        left = add(mul(run.first, patches.stride[1]), -patches.before[1])
        start = patches.offset(image, top, left, 0)
        at = add(mul(add(mul(image, patches.results[0]), i), patches.results[1]), run.first)
        whole, rest = patches.channels // lanes * lanes, patches.channels % lanes
        if whole:
            with loop(0, whole, lanes) as (c, _, _):
                self._channels(run, bounds, start, at, c, lanes)
        if rest:
            self._channels(run, bounds, start, at, whole, rest)

    def _channels(self, run: _Run, bounds: tuple[Index, Index], start: Index, at: Index, c: Index, lanes: int) -> None:
        """The results of some of their channels.

        Args:
            run: The pixels.
            bounds: The rows of the filter that meet the image.
            start: Where the patch of the first pixel starts in the images.
            at: Which pixel of the result that is.
            c: The first channel.
            lanes: How many.
        """
        patches, sums = self._patches, fixed(lanes, self._found.sums)
        totals = [zero(sums)] * run.pixels
        with loop(*bounds, 1, totals) as (u, carried, over):
            row = add(add(start, mul(u, patches.offset(0, patches.dilation[0], 0, 0))), c)
            weights = add(mul(u, patches.filter[1] * patches.channels), c)
            filters = [
                self._wide(1, self._w, add(weights, v * patches.channels), sums) for v in range(patches.filter[1])
            ]
            for column, taps in groupby(run.taps, itemgetter(0)):
                given = self._wide(0, self._x, add(row, patches.offset(0, 0, column, 0)), sums)
                for _, p, v in taps:
                    carried[p] = _added(carried[p], given, filters[v])
            scf.yield_(carried)
        for p, total in enumerate(over.results):
            place = add(mul(add(at, p), patches.channels), c)
            vector.store(self._finished(total, place, c), self._out, [value(place)])

    def _wide(self, number: int, flat: ir.Value, start: Index, sums: ir.VectorType) -> ir.Value:
        """Elements of the images (0) or the filters (1) in the type of the sums."""
        return _widened(self._read(flat, start, sums.shape[0]), self._found.widening[number], sums)

    def _read(self, flat: ir.Value, start: Index, lanes: int) -> ir.Value:
        return vector.load(fixed(lanes, ir.MemRefType(flat.type).element_type), flat, [value(start)])

    def _finished(self, total: ir.Value, place: Index, c: Index) -> ir.Value:
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
