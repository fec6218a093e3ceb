# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Steps of a schedule that split K: a loop around a product of each part, which threads share, and a sum of the parts' sums."""

from __future__ import annotations

from dataclasses import replace

from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import structured, vector
from tilewright.schedules import steps
from tilewright.schedules.steps import batch_loops
from tilewright.spec import MatmulSpec

_PARTS = "parts"
PARTS = f"{steps.MARK}{_PARTS}"
"""Attribute of the loop over parts of K."""
_SUM = "sum_of_parts"
"""Mark of the op that makes C of the parts' sums."""


def take_apart(script: steps.Script, spec: MatmulSpec, parts: int, lanes: int) -> MatmulSpec:
    """Makes a loop over parts of K, and leaves the product of one part inside of it. Returns the spec of that: its sums, and no more.

    Before: ``C = 0; C += A * B``. After, with K in `parts` of k each::

        for p in 0..parts: S[p] = 0; S[p] += A[:, p*k:p*k+k] * B[p*k:p*k+k, :]
        for i in 0..M: for j in 0..N step lanes: C[i, j:j+lanes] = S[0, i, j:j+lanes] + S[1, i, j:j+lanes] + ...

    with all that is done to C's sums. Nothing is done with one part.
    """
    if parts == 1:
        return spec
    kind, functions = transform.AnyOpType.get(), script.functions
    product = steps.match_product(functions, spec)
    split = structured.SplitReductionOp(kind, kind, kind, kind, product, split_factor=parts, insert_split_dimension=0)
    total = steps.match_result(script, spec) if spec.fused else split.combining_linalg_op
    steps.mark(total, _SUM)
    _, loop = steps.tile_with_producers(split.split_linalg_op, [1, 0, 0, 0])
    steps.mark(loop, _PARTS)
    batch_loops.drop_dimensions(loop, 1)
    steps.merge_slices(functions)
    one = replace(spec.plain_sums, k=int(spec.k) // parts)
    if spec.a_type.kind == spec.b_type.kind:  # It is a `linalg.matmul` again.
        structured.structured_specialize(kind, _generics(functions))
    _add_up(functions, spec, lanes)
    return one


def _generics(functions: steps.Handle) -> steps.Handle:
    kinds = ["parallel", "parallel", "reduction"]
    iterators = [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
    return structured.structured_match(
        transform.AnyOpType.get(),
        functions,
        ops=ir.ArrayAttr.get([ir.StringAttr.get("linalg.generic")]),
        op_attrs=ir.DictAttr.get({"iterator_types": ir.ArrayAttr.get(iterators)}),
    )


def _add_up(functions: steps.Handle, spec: MatmulSpec, lanes: int) -> None:
    """Adds the parts' sums up, row by row in vectors of `lanes` elements, with all that is done to them."""
    total, outer = steps.match_marked(functions, _SUM), [] if spec.fused else [0]
    if spec.m > 1:
        total, _ = steps.tile_with_producers(total, [*outer, 1, 0])
    if spec.n > lanes:
        _, over = steps.tile_with_producers(total, [*outer, 0, lanes])
        if spec.n % lanes:
            steps.peel(over)
    steps.clean(functions)
    steps.vectorize(steps.match_marked(functions, _SUM))

    def sums_of_vectors() -> None:
        parallel = vector.VectorMultiReductionLowering.InnerParallel
        vector.apply_patterns_vector_lower_multi_reduction(lowering_strategy=parallel)

    steps.apply(functions, sums_of_vectors)
    steps.clean(functions)
