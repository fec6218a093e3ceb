# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `streamed` where only a call tells the extents: what waits in the caches is staged for one strip at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from tilewright.dims import Dim, Extent, most
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.schedules import steps
from tilewright.schedules.blocking import Blocking, row_gap
from tilewright.schedules.unpacked import register_tiles
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target

_UNIT = 8
"""What divides the sizes of blocks, and is enough for every instruction: 8 ways of a cache at least, whole vectors."""

STREAMS = "mark_streams"
"""Attribute of a function whose operands of unknown size are larger than the caches."""


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
    blocks = {name: _block(spec.extents[name], size) for name, size in (("m", p.mc), ("n", p.nc), ("k", p.kc))}
    inside = replace(p, nc=most(blocks["n"]), kc=most(blocks["k"]))
    # The zeros are in the strip, to which all is added.
    register_tiles(script, replace(spec, beta=1, **blocks), target, inside)
    sums, of_a = (spec.acc_type, blocks["n"]), (spec.a_type, blocks["k"])
    if not spec.beta:
        _by_rows(functions, "linalg.fill", [sums], lanes)
    _by_rows(functions, "linalg.copy", [*[sums] * spec.beta, of_a, sums], lanes)


def _block(extent: Extent, size: int) -> Extent:
    """The extent of a block of at most `size`: known, where all blocks have the same."""
    if isinstance(extent, int) and (extent <= size or extent % size == 0):
        return min(extent, size)
    return Dim(multiple=gcd(extent.multiple if isinstance(extent, Dim) else extent, _UNIT))


def _by_rows(functions: steps.Handle, kind: str, matrices: Sequence[tuple[DType, Extent]], lanes: int) -> None:
    """Does the ops of a `kind`, in program order on `matrices` of such elements and columns, a row at a time, in vectors.

    The last elements of a row, which do not fill one, are done one by one.
    """
    ops = steps.match(functions, kind)
    for op, (_, columns) in zip(steps.split(ops, len(matrices)) if len(matrices) > 1 else [ops], matrices, strict=True):
        row, _ = steps.tile(op, [1, 0])
        if most(columns) > lanes:
            _, over = steps.tile(row, [0, lanes])
            if isinstance(columns, Dim) or columns % lanes:
                steps.peel(over)
    steps.clean(functions)
    for element, width in dict.fromkeys((element, min(most(columns), lanes)) for element, columns in matrices):
        vector = ir.RankedTensorType.get([1, width], ir.Type.parse(element.mlir))
        steps.vectorize(steps.match(functions, kind, result_type=vector))
