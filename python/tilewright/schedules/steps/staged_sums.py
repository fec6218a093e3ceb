# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule for sums that wait in scratch until they are complete: those of a block of C, in rows in sets of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.mlir.dialects.transform import memref, tensor
from tilewright.schedules import steps
from tilewright.schedules.models.blocking import Blocking, row_gap
from tilewright.schedules.steps.marked_loops import mark_strips
from tilewright.spec import MatmulSpec
from tilewright.targets.base import Target


def tile_block(
    op: steps.Handle, sizes: Sequence[steps.Size], spec: MatmulSpec, target: Target, p: Blocking | None
) -> steps.Handle:
    """Tiles what `match_result` finds by a loop over blocks, as `tile_result`, for threads to take such as `p`'s. Returns the tile."""
    op, loop = steps.tile_result(op, sizes, spec)
    if p is not None:
        mark_strips(loop, p, spec, target)
    return op


def tile(
    script: steps.Script,
    op: steps.Handle,
    loops: Iterable[Sequence[steps.Size]],
    rows: int,
    spec: MatmulSpec,
    target: Target,
    p: Blocking,
) -> steps.Handle:
    """Tiles what makes C by `loops` over blocks of it, with scratch for the sums of one, of `rows` at most. Returns the product.

    Before: ``C = 0; C += A * B``, or ``S = 0; S += A * B``, ``C = f(S)``. After, where rows of S are a few lines longer than those of
    the block::

        for jc: for ic:
          S = 0; S += A[ic:ic+mc, :] * B[:, jc:jc+nc]
          C[ic:ic+mc, jc:jc+nc] = f(S)

    With several products (GLU) each has such a scratch.
    """
    for sizes in loops:
        op, loop = steps.tile_with_producers(op, sizes[:2] if spec.fused else sizes)  # Zeros are made for each block.
        mark_strips(loop, p, spec, target)
    if spec.fused:
        steps.mark(op, steps.EPILOGUE)
        steps.apply(script.functions, _forget_whole)
    product = steps.match_product(script.functions, spec)
    # Of extents that are known, the loops say how large a block is at most, whatever sizes a tuner gives them.
    most = (rows, p.nc) if spec.dynamic else None
    steps.stage(product, 2, row_gap(target, spec.acc_type), most=most)
    return product


def _forget_whole() -> None:
    """Patterns for what stands outside of the loops: the product that was computed again in them, of which extents are asked, and its C."""
    memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims()
    tensor.apply_patterns_tensor_fold_tensor_empty()


def write(script: steps.Script, spec: MatmulSpec, columns: int, lanes: int, *, rows: int = 1) -> None:
    """Copies blocks of sums to C, and of a C that is added to from there, row by row in vectors of `lanes` elements.

    What is done to the sums meanwhile is done to so many `rows` at once, of which vectors are transposed where C is.

    Before: ``C[ic:ic+mc, jc:jc+nc] = S``. After::

        for i in 0..mc: for j in 0..nc step lanes: C[ic+i, jc+j:jc+j+lanes] = S[i, j:j+lanes]
    """
    if spec.fused:
        _finish(script, rows, columns, lanes)
        return
    for copy in steps.split(steps.match(script.functions, "linalg.copy"), 1 + bool(spec.beta)):
        row, _ = steps.tile(copy, [1, 0])
        steps.tile(row, [0, lanes])
    steps.clean(script.functions)
    # The last step: as long as they are tensors, cleaning makes copies of slices again of what vectors copy.
    steps.vectorize(steps.match(script.functions, "linalg.copy"))


def _finish(script: steps.Script, rows: int, columns: int, lanes: int) -> None:
    """Does what is done to the sums of a block, `rows` at a time, in vectors of `lanes` elements of its `columns`.

    Before: ``C[ic:ic+mc, jc:jc+nc] = f(S)``. After::

        for i in 0..mc: for j in 0..nc step lanes: C[ic+i, jc+j:jc+j+lanes] = f(S[i, j:j+lanes])
    """
    op, _ = steps.tile(steps.match_marked(script.functions, steps.EPILOGUE), [rows, 0])
    if lanes < columns:
        op, _ = steps.tile(op, [0, lanes])
    steps.clean(script.functions)
    write = steps.vectorize_epilogue(steps.match_marked(script.functions, steps.EPILOGUE), (rows, lanes))
    steps.split_full_write(write)
    steps.clean(script.functions)
