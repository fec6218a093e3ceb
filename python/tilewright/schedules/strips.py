# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `streamed` where only a call tells the extents: what waits in the caches is staged for one strip at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.dims import MAX_EXTENT
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.blocking import Blocking, row_gap
from tilewright.schedules.unpacked import register_tiles
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

STREAMS = "mark_streams"
"""Attribute of a function whose operands of unknown size are larger than the caches."""


def takes(spec: MatmulSpec) -> bool:
    """Whether `strips` makes the loops of a product: of rows as they are stored, to the sums of which nothing is done."""
    plain = not (spec.has_entries or spec.fused or spec.batch or spec.a_transposed or spec.b_transposed)
    return bool(spec.dynamic) and spec.m != 1 and plain


def strips(script: steps.Script, spec: MatmulSpec, target: Target, blocking: Blocking) -> None:
    """Makes the loops of `streamed.streamed` for extents that only a call tells, of a product that nothing is done to.

    Buffers have the sizes of the largest blocks. With mc, nc, kc of `blocking`::

        for ic in 0..M step mc:                                (one step, for the rows that this is chosen for)
          for jc in 0..N step nc:
            S = 0                                              (with beta 1: C)
            for pc in 0..K step kc:
              P = A[ic:ic+mc, pc:pc+kc]
              S += P * B[pc:pc+kc, jc:jc+nc]                   (in register tiles)
            C[ic:ic+mc, jc:jc+nc] = S
    """
    p, lanes, functions = blocking, target.lanes(spec.acc_type), script.functions
    steps.mark(functions, STREAMS.removeprefix(steps.MARK))
    tile = steps.match_result(script, spec)
    for sizes in ([p.mc, 0, 0], [0, p.nc, 0]):
        tile, _ = steps.tile(tile, sizes) if spec.beta else steps.tile_with_producers(tile, sizes[:2])
    steps.clean(functions)
    product = steps.match_product(functions, spec)
    steps.stage(product, 2, row_gap(target, spec.acc_type))
    steps.tile(product, [0, 0, p.kc])
    steps.clean(functions)
    steps.stage(steps.match_product(functions, spec), 0, row_gap(target, spec.a_type))
    # The zeros are in the strip, to which all is added.
    register_tiles(script, replace(spec, beta=1), target, replace(p, nc=MAX_EXTENT, kc=MAX_EXTENT))
    if not spec.beta:
        _by_rows(functions, "linalg.fill", [spec.acc_type], lanes)
    _by_rows(functions, "linalg.copy", [*[spec.acc_type] * spec.beta, spec.a_type, spec.acc_type], lanes)


def _by_rows(functions: steps.Handle, kind: str, elements: Sequence[DType], lanes: int) -> None:
    """Does the ops of a `kind`, on matrices of `elements` in program order, a row at a time, in vectors.

    The last elements of a row, which do not fill one, are done one by one.
    """
    ops = steps.match(functions, kind)
    for op in steps.split(ops, len(elements)) if len(elements) > 1 else [ops]:
        row, _ = steps.tile(op, [1, 0])
        _, over = steps.tile(row, [0, lanes])
        steps.peel(over)
    steps.clean(functions)
    for element in dict.fromkeys(elements):
        vector = ir.RankedTensorType.get([1, lanes], ir.Type.parse(element.mlir))
        steps.vectorize(steps.match(functions, kind, result_type=vector))
