# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule that compute another product in place of one: its transpose, or one of each part of K.

Parts of K have a loop around the product of each, which threads share, and a sum of the parts' sums.
"""

from __future__ import annotations

from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import structured, vector
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.schedules.models import parts
from tilewright.schedules.models.sizes import Blocking
from tilewright.schedules.steps import batch_loops
from tilewright.schedules.steps.marked_loops import PARTS
from tilewright.spec import MatmulSpec

_SUM, _RESULT = "sum_of_parts", "result_of_parts"
"""Marks of the op that adds up the parts' sums, and of what is done to that."""


def take_apart(script: steps.Script, spec: MatmulSpec, sizes: Blocking, lanes: int) -> tuple[MatmulSpec, Blocking]:
    """Makes a loop over parts of K, and leaves the product of one part inside of it. Returns the spec and the sizes of that.

    Before: ``C = 0; C += A * B``. After, with K in `parts` of k each::

        for p in 0..parts: S[p] = 0; S[p] += A[:, p*k:p*k+k] * B[p*k:p*k+k, :]
        for i in 0..M: for j in 0..N step lanes: C[i, j:j+lanes] = S[0, i, j:j+lanes] + S[1, i, j:j+lanes] + ...

    with all that is done to C's sums. Nothing is done with one part, but where the transpose is to be computed (`exchange`).
    """
    if sizes.exchanged:
        exchange(script.functions)
        return parts.inside(spec, sizes)
    if sizes.parts == 1:
        return spec, sizes
    kind, functions = transform.AnyOpType.get(), script.functions
    product = steps.match_product(functions, spec)
    split = structured.SplitReductionOp(
        kind, kind, kind, kind, product, split_factor=sizes.parts, insert_split_dimension=0
    )
    steps.mark(split.combining_linalg_op, _SUM)
    if spec.fused:
        steps.mark(steps.match_result(script, spec), _RESULT)
    _, loop = steps.tile_with_producers(split.split_linalg_op, [1, 0, 0, 0])
    steps.mark(loop, PARTS)
    batch_loops.drop_dimensions(loop, 1)
    steps.merge_slices(functions)
    if spec.a_type.kind == spec.b_type.kind:  # It is a `linalg.matmul` again.
        structured.structured_specialize(kind, steps.match_product(functions, spec, named=False))
    _add_up(functions, spec, lanes)
    return parts.inside(spec, sizes)


def exchange(functions: steps.Handle) -> None:
    """Computes the transpose of a product, whose operands are taken as they are stored, and transposes the sums where they are written.

    Before: ``S = 0; S += A * B``, ``C = f(S)`` over (m, n, k). After, over (n, m, k)::

        T = 0; T += B^T * A^T;  C[m, n] = f(T[n, m])
    """
    ours.tilewright_exchange(functions)


def _add_up(functions: steps.Handle, spec: MatmulSpec, lanes: int) -> None:
    """Adds the parts' sums up, row by row in vectors of `lanes` elements, with all that is done to them."""
    marks, outer = ([_RESULT, _SUM], []) if spec.fused else ([_SUM], [0])
    total = steps.match_marked(functions, marks[0])
    if spec.m > 1:
        total, _ = steps.tile_with_producers(total, [*outer, 1, 0])
    if spec.n > lanes:
        _, over = steps.tile_with_producers(total, [*outer, 0, lanes])
        if spec.n % lanes:
            steps.peel(over)
    steps.clean(functions)
    for mark in marks:
        steps.vectorize(steps.match_marked(functions, mark))

    def sums_of_vectors() -> None:
        parallel = vector.VectorMultiReductionLowering.InnerParallel
        vector.apply_patterns_vector_lower_multi_reduction(lowering_strategy=parallel)

    steps.apply(functions, sums_of_vectors)
    steps.clean(functions)
