# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The pass pipelines between the stages, as text that ``tilewright-opt --pass-pipeline`` takes too."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright import knobs
from tilewright.build.usedef import named
from tilewright.dtypes import dtype
from tilewright.mlir import ir
from tilewright.mlir.dialects import transform
from tilewright.mlir.dialects.transform import bufferization, memref, vector
from tilewright.mlir.dialects.transform import tilewright as ours
from tilewright.schedules import steps
from tilewright.spec import MatmulSpec
from tilewright.targets.dots import Dot

OPAQUE_INDICES = "builtin.module(affine-expand-index-ops-as-affine, cse, tilewright-opaque-indices)"
"""Before `bufferize`, whose analysis would take five times as long. Indices of parts of a dimension become ones that later passes read."""

DROP_RESULT = "builtin.module(canonicalize, cse, canonicalize, drop-equivalent-buffer-results)"
"""After `bufferize`: a result that is C's own buffer is returned no longer."""

TIDY_BUFFERS = "builtin.module(func.func(buffer-loop-hoisting, convert-linalg-to-loops))"
"""Allocations leave the loops; copies become loops."""

DEALLOCATE = """builtin.module(
    ownership-based-buffer-deallocation, canonicalize, buffer-deallocation-simplification,
    bufferization-lower-deallocations, cse, canonicalize
)"""
"""Frees what a schedule allocates beyond the panels that `workspace` gathers."""

PREFETCH = """builtin.module(
    tilewright-prefetch-tiles{{line-bytes={line}}},
    tilewright-prefetch-streams{{line-bytes={line} cache-bytes={l2} held-bytes={held} ahead-bytes={ahead} open={open}
        rows-ahead={rows}}},
    tilewright-prefetch-numbers{{line-bytes={line}}}
)"""
"""C's tiles of the next step, whose rows lie too far apart for the hardware to foresee them, what is read once only, and rows of scales."""

_TO_LLVM = """builtin.module(
    {loops} tilewright-strip-provenance{{target=true}}, func.func(loop-invariant-code-motion),
    lower-affine, expand-strided-metadata, lower-affine, convert-scf-to-cf,
    convert-vector-to-llvm{{reassociate-fp-reductions={reassociate}}}, convert-ub-to-llvm,
    finalize-memref-to-llvm{{use-generic-functions=true}},
    convert-to-llvm, reconcile-unrealized-casts, canonicalize, cse
)"""


def to_llvm(*, reassociate: bool = False) -> str:
    """Vectors of one dimension, memrefs and loops to the LLVM dialect.

    Where kernels get line tables, the locations name the loops before.

    Args:
        reassociate: Whether a reduction adds the elements of a vector up in a tree.
    """
    loops = "tilewright-mark-loops," if knobs.load().debug_info else ""
    return _TO_LLVM.format(loops=loops, reassociate=str(reassociate).lower())


def bufferize(*, empties: bool) -> ir.Module:
    """The script that takes tensors to memrefs. Slices of C are updated in place; packed panels become allocations.

    A script because the pass has no way to make copies that can be lowered to loops. Needs an active `ir.Context`.

    Args:
        empties: Whether results are computed in place of empty tensors, where they go: an analysis that takes as long as the rest.
    """
    with steps.script(consumes=True) as script:
        if empties:
            bufferization.EliminateEmptyTensorsOp(script.root)
        bufferization.OneShotBufferizeOp(
            transform.AnyOpType.get(), script.root, bufferize_function_boundaries=True, memcpy_op="linalg.copy"
        )
    return script.module


def group_products(spec: MatmulSpec, dots: Sequence[Dot]) -> ir.Module:
    """The script that brings products of narrow elements into the form that the first of `dots` that can multiplies.

    Products of f32 that are computed from pieces become products of pieces first. Products are grouped by the depth of the instruction, and
    what is done to the elements of packed panels is done while packing. On memrefs, because a panel's layout is a matter of its writer and
    its readers. Needs an active `ir.Context`.
    """
    element = ir.TypeAttr.get(ir.Type.parse(dtype(spec.multiplied[0]).mlir))
    with steps.script() as script:
        functions = script.functions
        steps.apply(functions, memref.apply_patterns_memref_fold_memref_alias_ops, cse=True)
        if spec.split:
            ours.tilewright_split_products(functions, spec.split.pieces, spec.split.order)
        for dot in dots:
            storage = ir.TypeAttr.get(ir.Type.parse(dot.storage)) if dot.storage else None
            if dot.kind != "multiply_add":
                ours.tilewright_dot_form(
                    functions,
                    element,
                    dot.depth,
                    multiple=dot.least,
                    rows=dot.rows,
                    storage=storage,
                    flip=dot.flip,
                )
            ours.tilewright_convert_panels(functions, dot.depth, storage=storage, pairs=dot.rows > 1)
    return script.module


def has_sums_of_products(module: ir.Module) -> bool:
    """Whether a product stands as a sum over a dimension of vectors of rank 3: what upstream's vectorize makes unless told otherwise."""
    sums = named(module.operation, "vector.multi_reduction")
    return any(len(ir.VectorType(op.operands[0].type).shape) > 2 for op in sums)


def lower_vectors(
    lanes: int, dots: Sequence[Dot], *, part: int | None = None, fold_views: bool = True, sums_of_products: bool = False
) -> ir.Module:
    """The script that takes vectors of any rank to single registers of `lanes` elements, and products in dot form to `dots`.

    Rows of whole vectors of `part` elements become those where they are no whole registers.

    Upstream has these patterns as transform ops only, not as passes. Those that make loads from views loads from what they are
    of (`fold_views`) forget how loads are aligned. With `sums_of_products`, a product is first made of each sum of elementwise products.
    Needs an active `ir.Context`.
    """
    with steps.script() as script:
        functions = script.functions

        def fold_slices() -> None:
            memref.apply_patterns_memref_fold_memref_alias_ops()
            transform.apply_patterns_canonicalization()

        def sums() -> None:
            vector.apply_patterns_vector_reduction_to_contract()
            vector.apply_patterns_vector_transfer_permutation_patterns()

        def contractions() -> None:
            vector.apply_patterns_vector_lower_contraction(lowering_strategy=vector.VectorContractLowering.OuterProduct)

        def transfers() -> None:
            vector.apply_patterns_vector_transfer_permutation_patterns()
            vector.apply_patterns_vector_lower_transfer(max_transfer_rank=1)

        def partial_transfers() -> None:
            vector.apply_patterns_vector_transfer_to_scf(max_transfer_rank=1, full_unroll=True)

        def rest() -> None:
            vector.apply_patterns_vector_lower_transpose()
            vector.apply_patterns_vector_lower_shape_cast()
            vector.apply_patterns_vector_lower_broadcast()

        if fold_views:
            steps.apply(functions, fold_slices, cse=True)
        for dot in dots:
            if dot.is_tile:
                ours.tilewright_contract_to_amx(functions)
            elif dot.kind == "mmla":
                element = ir.TypeAttr.get(ir.Type.parse(dot.element))
                ours.tilewright_contract_to_mmla(
                    functions,
                    element,
                    dot.intrinsic,
                    dot.depth,
                    lanes,
                    unsigned_first=dot.unsigned_first,
                    both_unsigned=dot.both_unsigned,
                )
            elif dot.kind == "dot":
                # Rows of whole registers first; those of halves are left for the other.
                widths = {dot.intrinsic: lanes, **({dot.half: part} if dot.half and part and part < lanes else {})}
                for intrinsic, width in widths.items():
                    ours.tilewright_contract_to_dot(
                        functions,
                        ir.TypeAttr.get(ir.Type.parse(dot.element)),
                        intrinsic,
                        dot.depth,
                        width,
                        adds=dot.adds,
                        unsigned_first=dot.unsigned_first,
                        both_unsigned=dot.both_unsigned,
                        by_lane=dot.groups > 1,
                    )
        if sums_of_products:
            steps.apply(functions, sums)
        ours.tilewright_unroll_vectors(functions, lanes, part=part)
        steps.clean(functions)

        def lower() -> None:
            contractions()
            vector.apply_patterns_vector_lower_outerproduct()
            transfers()
            rest()

        steps.apply(functions, lower)
        steps.apply(functions, partial_transfers)
        steps.clean(functions)
    return script.module
