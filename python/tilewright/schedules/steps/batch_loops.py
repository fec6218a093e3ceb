# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule that take a batch of products apart: loops around one product, which the other steps then see alone."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import memref, structured, tensor
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.steps.marked_loops import ENTRIES
from tilewright.spec import MatmulSpec

_RESULT = "result"
"""Mark of the op that makes C."""


def shared_axes(spec: MatmulSpec) -> tuple[int, ...]:
    """The axes of the batch along which all entries have the same B."""
    return tuple(axis for axis in spec.batch_axes if axis not in spec.b_axes)


def take_apart(script: steps.Script, spec: MatmulSpec, blocks: Sequence[Sequence[steps.Size]] = ()) -> None:
    """Makes loops over the batch, and leaves one product inside of them, as there is without a batch.

    Loops over `blocks`, sizes by (m, n, k), come inside those over the entries that have a B of their own, and around those
    over the entries that share one. Before: ``C[:] += A[:] * B``. After, with the blocks ``[0, nc, 0]`` and ``[0, 0, kc]``::

        for jc in 0..N step nc:
          for pc in 0..K step kc:
            for each entry: C[entry][:, jc:jc+nc] += A[entry][:, pc:pc+kc] * B[pc:pc+kc, jc:jc+nc]

    Nothing is done without a batch, and nothing to the order of any sum.
    """
    if not spec.batch_axes:
        return
    op = _match_batch(script, spec)
    if spec.fused:
        steps.mark(op, _RESULT)
    shared = shared_axes(spec)
    apart = bool(blocks) and bool(spec.prologue_a or spec.prologue_b)
    if apart:
        for operand, mark in _prologues(spec):
            steps.mark(steps.producer(_match_product(script, spec), operand), mark)
    zeros = [0] * len(spec.batch_axes)
    around = [_one(spec, axis) for axis in spec.b_axes]
    inside = [_one(spec, axis) for axis in shared]
    for sizes in (*around, *([*zeros, *each] for each in blocks), *inside):
        if spec.fused and apart:
            op, loop = steps.tile_with_product(op, sizes[:-1], spec, script.functions, len(spec.batch_axes))
        elif spec.fused:
            op, loop = steps.tile_with_producers(op, sizes[:-1])
        elif blocks:  # A block of K adds to what another one left: C is filled with zeros before all.
            op, loop = steps.tile(op, sizes)
        else:
            op, loop = steps.tile_with_producers(op, sizes)
        if sizes in (*around, *inside):
            if apart:
                _take_prologues(script, spec, loop)
            steps.mark(loop, ENTRIES)
    drop_batch(script.functions, spec)
    if spec.fused or spec.has_rows:  # Sums wait in a scratch of one product, not of all of them.
        steps.apply(script.functions, tensor.apply_patterns_tensor_fold_tensor_empty)


def _prologues(spec: MatmulSpec) -> list[tuple[int, str]]:
    """The operands of the product that a prologue makes for each entry, each with a mark for it."""
    # A B that all entries share is computed, and packed, outside of the loops over them.
    made = ((0, spec.prologue_a), (1, spec.prologue_b if spec.b_axes else ()))
    return [(operand, f"prologue_of_{'ab'[operand]}") for operand, entries in made if entries]


def _take_prologues(script: steps.Script, spec: MatmulSpec, loop: steps.Handle) -> None:
    """Does for each entry what prologues do, inside of the loop over entries."""
    kind = transform.AnyOpType.get()
    steps.merge_slices(script.functions)
    for _, mark in _prologues(spec):
        structured.FuseIntoContainingOp(kind, kind, steps.match_marked(script.functions, mark), loop)


def match_result(script: steps.Script, spec: MatmulSpec) -> steps.Handle:
    """Finds the op that makes the result of one product, as `steps.match_result` does without a batch."""
    if spec.batch_axes and spec.fused:
        return steps.match_marked(script.functions, _RESULT)
    return steps.match_result(script, spec)


def drop_batch(functions: steps.Handle, spec: MatmulSpec) -> None:
    """Takes the dimensions of the batch, of one element each by now, out of the ops inside of the loops.

    Before: ``C[b:b+1] += A[b:b+1] * B[b:b+1]``. After: ``C[b] += A[b] * B[b]``.
    """
    drop_dimensions(functions, len(spec.batch_axes))
    steps.clean(functions)


def drop_dimensions(root: steps.Handle, count: int) -> None:
    """Takes the first `count` dimensions, of one element each, out of the linalg ops below `root`."""
    interface = structured.MatchInterfaceEnum.LinalgOp
    ops = structured.structured_match(transform.AnyOpType.get(), root, interface=interface)
    ours.tilewright_drop_batch(ops, count)


def resolve_extents(functions: steps.Handle, spec: MatmulSpec) -> None:
    """Tells the extents of slices that lack the batch's dimensions by their sizes, so that packing can be hoisted.

    Before: ``s = B[b, 0:k, j:j+w]``, ``pad(s) by nr - dim(s, 1)``. After: ``pad(s) by nr - w``.

    With dynamic extents, also those of a product that was computed again in a block, and is needed no longer.
    """
    if spec.batch_axes or spec.dynamic:
        steps.apply(functions, memref.apply_patterns_memref_resolve_ranked_shaped_type_result_dims)


def _one(spec: MatmulSpec, axis: int) -> list[int]:
    """Sizes by (batch..., m, n, k) of a tile of one entry along an axis of the batch."""
    return [*(int(each == axis) for each in spec.batch_axes), 0, 0, 0]


def _match_batch(script: steps.Script, spec: MatmulSpec) -> steps.Handle:
    """Finds the op that makes the results of all products."""
    return steps.match_result(script, spec) if spec.fused else _match_product(script, spec)


def _match_product(script: steps.Script, spec: MatmulSpec) -> steps.Handle:
    """Finds the ops of a batch that multiply and add."""
    return steps.match_product(script.functions, spec, len(spec.batch_axes))
