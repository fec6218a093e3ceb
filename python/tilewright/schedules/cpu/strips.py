# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Strategy `streamed` with dynamic extents, or many rows: what waits in the caches is staged for one strip at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from tilewright.dims import Dim, Extent, divided_by, most
from tilewright.dtypes import DType
from tilewright.mlir import ir
from tilewright.mlir.dialects.transform import tensor
from tilewright.schedules import steps
from tilewright.schedules.cpu.unpacked import register_tiles, tile_with_zeros
from tilewright.schedules.models.blocking import Blocking, row_gap
from tilewright.schedules.steps import batch_loops
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def strips(script: steps.Script, spec: MatmulSpec, target: Target, blocking: Blocking) -> None:
    """Makes the loops of `streamed.streamed` where `strip_form.takes` says so.

    Buffers have the sizes of the largest blocks. With mc, nc, kc of `blocking`, and f what is done to the sums::

        for ic in 0..M step mc:                                (one step, for the rows that this is chosen for)
          for jc in 0..N step nc:
            S = 0                                              (with beta 1: C)
            for pc in 0..K step kc:
              P = A[ic:ic+mc, pc:pc+kc]                        (the last, short block by itself)
              S += P * B[pc:pc+kc, jc:jc+nc]                   (in register tiles)
            C[ic:ic+mc, jc:jc+nc] = f(S)

    Of a batch, the loops over its entries are around all of that.
    """
    p, lanes, functions = blocking, target.lanes(spec.acc_type), script.functions
    steps.prefetch_all(functions)
    batch_loops.take_apart(script, spec)
    tile, beta = batch_loops.match_result(script, spec), spec.beta == 1 and not spec.fused
    if spec.fused:
        steps.mark(tile, steps.EPILOGUE)
    for sizes in ([p.mc, 0, 0], [0, p.nc, 0]):
        tile, _ = tile_with_zeros(tile, sizes, spec)
    if spec.fused:  # The sums are of a block, and nobody's but its epilogue's.
        steps.apply(functions, tensor.apply_patterns_tensor_fold_tensor_empty)
    steps.clean(functions)
    product = steps.match_product(functions, spec)
    steps.stage(product, 2, row_gap(target, spec.acc_type))
    blocks = {name: _block(spec.extents[name], size) for name, size in (("m", p.mc), ("n", p.nc), ("k", p.kc))}
    steps.tile(product, [0, 0, p.kc])
    of_a = [(spec.a_type, blocks["k"], lanes)]
    steps.clean(functions)
    steps.stage(steps.match_product(functions, spec), 0, row_gap(target, spec.a_type))
    inside = replace(p, nc=most(blocks["n"]), kc=most(blocks["k"]))
    # The zeros are in the strip, to which all is added.
    added = replace(spec.plain_sums, beta=1, batch=(), a_batch=None, b_batch=None, **blocks)
    register_tiles(script, added, target, inside)
    if spec.fused:
        _finish(functions, blocks["n"], lanes)
    sums = (spec.acc_type, blocks["n"], lanes)
    if not beta:
        _by_rows(functions, "linalg.fill", [sums])
    _by_rows(functions, "linalg.copy", [*[sums] * beta, *of_a, *[sums] * (not spec.fused)])


def _block(extent: Extent, size: int) -> Extent:
    """The extent of a block of at most `size`, which divides all but the last one: known, where all blocks have the same."""
    if isinstance(extent, int) and (extent <= size or extent % size == 0):
        return min(extent, size)
    return Dim(multiple=gcd(extent.multiple if isinstance(extent, Dim) else extent, size))


def _finish(functions: steps.Handle, columns: Extent, lanes: int) -> None:
    """Does what is done to the sums a row at a time, in vectors; the last elements of a row one by one."""
    row, _ = steps.tile(steps.match_marked(functions, steps.EPILOGUE), [1, 0])
    whole = isinstance(columns, int) and columns <= lanes
    # Of a dynamic extent, the loop over C does not know what divides it.
    even = isinstance(columns, int) and columns % lanes == 0
    if not whole:
        _, over = steps.tile(row, [0, lanes])
        if not even:
            steps.peel(over)
    steps.clean(functions)
    found = steps.match_marked(functions, steps.EPILOGUE)
    if not whole and not even:
        found, rest = steps.split(found, 2)
        steps.vectorize(steps.tile(rest, [0, 1])[0])
    steps.vectorize(found)
    steps.clean(functions)


def _by_rows(functions: steps.Handle, kind: str, matrices: Sequence[tuple[DType, Extent, int]]) -> None:
    """Does the ops of a `kind`, in program order on `matrices` of such elements and columns, a row at a time, in such vectors.

    The last elements of a row, which do not fill one, are done one by one.
    """
    ops = steps.match(functions, kind)
    each = steps.split(ops, len(matrices)) if len(matrices) > 1 else [ops]
    for op, (_, columns, lanes) in zip(each, matrices, strict=True):
        row, _ = steps.tile(op, [1, 0])
        if most(columns) > lanes:
            _, over = steps.tile(row, [0, lanes])
            if not divided_by(columns, lanes):
                steps.peel(over)
    steps.clean(functions)
    for element, width in dict.fromkeys((element, min(most(columns), lanes)) for element, columns, lanes in matrices):
        vector = ir.RankedTensorType.get([1, width], ir.Type.parse(element.mlir))
        steps.vectorize(steps.match(functions, kind, result_type=vector))
